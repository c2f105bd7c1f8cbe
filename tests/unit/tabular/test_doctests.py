"""Every example in a docstring of the exact side runs as it is shown."""

import doctest
import importlib
import inspect
import pkgutil
import re
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
FUNCTIONS = [name for name in mico.tabular.__all__ if inspect.isfunction(getattr(mico.tabular, name))]
METHODS = (
    *("matrix", "row", "pairs", "neighbours", "embedding", "scaling", "check_axioms", "value_bound"),
    *("to_frame", "save", "load", "plot", "plot_from"),
)
CLASSES = [name for name in mico.tabular.__all__ if inspect.isclass(getattr(mico.tabular, name))]


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


def test_names_are_functions_classes_or_registries():
    others = {*mico.tabular.__all__} - {*FUNCTIONS} - {*CLASSES}
    assert others == {"METRICS", "PROBLEMS"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_they_take_return_and_raise(name):
    function = getattr(mico.tabular, name)
    text, signature = inspect.getdoc(function), inspect.signature(function)
    returns = () if signature.return_annotation is None else ("Returns:|Yields:",)
    raises = () if name == "watch" else ("Raises:",)  # which takes whatever can be called
    for section in ("Args:", *returns, *raises, "Examples:", ">>> "):
        assert re.search(section, text), section
    for parameter in signature.parameters:
        assert re.search(rf"^ +\**{parameter}: ", text, re.MULTILINE), parameter


@pytest.mark.parametrize("name", CLASSES)
def test_classes_say_what_they_hold(name):
    kind = getattr(mico.tabular, name)
    text = inspect.getdoc(kind)
    assert ">>> " in text
    if not issubclass(kind, Warning):
        assert re.search("^(Args|Attributes):", text, re.MULTILINE)
    for method, member in vars(kind).items():
        if not method.startswith("_") and (callable(member) or isinstance(member, property)):
            assert (member.__doc__ or "").strip(), f"{name}.{method}"


@pytest.mark.parametrize("name", [*METHODS])
def test_methods_of_solutions_have_an_example(name):
    member = vars(mico.tabular.Solution)[name]
    text = getattr(member, "func", member).__doc__
    assert ">>> " in text
    assert "Raises:" in text
