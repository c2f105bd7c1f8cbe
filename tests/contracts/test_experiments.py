"""Contracts of every experiment, in its quick version: settings, tables that repeat, figures with words on them."""

import dataclasses
import importlib
import json

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from mico.experiments import EXPERIMENTS
from mico.experiments.cells import OnDisk

pytestmark = [pytest.mark.parametrize("name", EXPERIMENTS), pytest.mark.usefixtures("quick_compilation")]


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """The quick table of an experiment, measured once, in a process of its own."""
    found = {}

    def frame(name):
        if name not in found:
            module = importlib.import_module(EXPERIMENTS[name])
            found[name] = module.run(quick(module), OnDisk(tmp_path_factory.mktemp(name), 1))
        return found[name]

    return frame


def quick(module):
    """The quick settings, of agents with fewer steps: what they learn is tested elsewhere."""
    return dataclasses.replace(
        module.QUICK, **({"steps": 1_600, "points": 4} if module.__name__.endswith("minatar") else {})
    )


def backwards(measure, cells):
    """The last cell first, in this process."""
    return pd.concat([measure(cell) for cell in reversed(cells)][::-1], ignore_index=True)


def untimed(module, frame):
    """Without what a clock measured."""
    return frame.drop(columns=list(getattr(module, "TIMINGS", ())))


def test_settings_are_plain_values_with_help(name):
    module = importlib.import_module(EXPERIMENTS[name])
    for config in (module.Config(), module.QUICK):
        assert isinstance(config, module.Config)
        assert json.loads(json.dumps(dataclasses.asdict(config)))
    assert (module.__doc__ or "").strip()
    with pytest.raises(dataclasses.FrozenInstanceError):
        module.QUICK.anything = 1


def test_the_same_settings_give_the_same_table(name, frames):
    """Whichever process measures them, and in whichever order."""
    module = importlib.import_module(EXPERIMENTS[name])
    again = module.run(quick(module), backwards)
    pd.testing.assert_frame_equal(untimed(module, again), untimed(module, frames(name)), check_exact=True)


def test_tables_and_figures(name, frames):
    module = importlib.import_module(EXPERIMENTS[name])
    frame = frames(name)
    before = frame.copy()
    table, figure = module.table(frame), module.plot(frame)
    assert 0 < len(table) <= 60
    assert isinstance(figure, Figure)
    assert all([*ax.lines, *ax.collections, *ax.images, *ax.patches] for ax in figure.axes)
    assert any(ax.get_xlabel() for ax in figure.axes)
    pd.testing.assert_frame_equal(frame, before)


def test_numbers_are_numbers(name, frames):
    frame = frames(name)
    assert len(frame)
    for column in frame.select_dtypes("number"):
        assert not np.isinf(frame[column]).any(), column
    assert not frame.isna().all(axis=None)
