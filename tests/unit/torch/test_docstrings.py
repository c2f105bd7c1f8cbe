"""Examples in docstrings run, and the losses explain every field with its values."""

import doctest
import inspect
import re
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest
import torch

from mico import _checks, representations
from mico.torch import METRIC_LOSSES, AbstractPairLoss, extractors, losses, pairing, sb3

torch.set_num_threads(1)
MODULES = (_checks, representations, extractors, losses, pairing, sb3)
TOUCHED = [sb3.MICoDQN, sb3.MICoQRDQN, sb3.MICoSAC, *METRIC_LOSSES.values(), sb3.DenseExtractor]


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for module in MODULES for test in finder.find(module) if test.examples]
    return [pytest.param(test, id=test.name) for test in found]


@pytest.mark.parametrize("test", examples())
def test_an_example_runs(test):
    out = []
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=out.append)
    assert results.failed == 0, "".join(out)


@pytest.mark.parametrize("name", TOUCHED)
def test_what_users_touch_has_its_arguments_errors_and_an_example(name):
    for section in ("Args:", "Raises:", "Examples:"):
        assert section in name.__doc__


@pytest.mark.parametrize("loss", [*METRIC_LOSSES.values(), AbstractPairLoss])
def test_every_field_of_a_loss_is_explained(loss):
    hints = get_type_hints(loss)
    arguments = inspect.getdoc(loss).split("Args:\n")[1].split("\nRaises:")[0]
    explained = dict(re.findall(r"^    (\w+): (.*?)(?=^    \w+: |^\w|\Z)", arguments, re.DOTALL | re.MULTILINE))
    assert list(explained) == [field.name for field in fields(loss)]
    for name, text in explained.items():
        assert all(f'"{value}"' in text for value in get_args(hints[name]))
