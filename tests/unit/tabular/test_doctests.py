"""Every example in a docstring of the exact side runs as it is shown."""

import doctest
import importlib
import pkgutil
import warnings

import matplotlib as mpl
import pytest

import mico._checks
import mico.tabular

MODULES = ["mico._checks", "mico._registry"] + [
    module.name
    for module in pkgutil.walk_packages(mico.tabular.__path__, "mico.tabular.")
    if not module.name.endswith("krylov_jax")
]
SHOWN = ("make", "solve", "Solution", "MDP", "Chain", "Problem", "Layout", "factored_mico", "solve_policies", "load")


@pytest.fixture
def open_registries(monkeypatch):
    """What an example registers is gone after it."""
    for registry in (mico.tabular.METRICS, mico.tabular.PROBLEMS):
        for part in ("_entries", "_origin"):
            monkeypatch.setattr(registry, part, dict(getattr(registry, part)))


@pytest.mark.usefixtures("open_registries")
@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    mpl.use("agg")
    module = importlib.import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = doctest.testmod(module)
    assert found.failed == 0, f"{name}: {found}"
    mpl.pyplot.close("all") if hasattr(mpl, "pyplot") else None


@pytest.mark.parametrize("name", SHOWN)
def test_names_that_users_meet_first_have_an_example(name):
    text = getattr(mico.tabular, name).__doc__
    assert "Examples:" in text
    assert ">>> " in text
    assert "Args:" in text or "Attributes:" in text


@pytest.mark.parametrize("name", ["matrix", "row", "pairs", "neighbours", "plot", "plot_from"])
def test_methods_of_solutions_have_an_example(name):
    text = getattr(mico.tabular.Solution, name).__doc__ or mico.tabular.Solution.__dict__[name].func.__doc__
    assert ">>> " in text
    assert "Raises:" in text


@pytest.mark.parametrize("name", mico.tabular.__all__)
def test_every_public_name_is_documented(name):
    thing = getattr(mico.tabular, name)
    if callable(thing):
        assert (thing.__doc__ or "").strip(), name
