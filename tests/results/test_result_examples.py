"""The examples in docstrings of results run and give what they say."""

import doctest
import importlib

import pytest

MODULES = (
    "mico.commands.report_writing",
    "mico.results.arms",
    "mico.results.columns",
    "mico.results.csv_bytes",
    "mico.results.file_names",
    "mico.results.learning_speed",
    "mico.results.plots",
    "mico.results.scores",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert (failed, tried > 0) == (0, True)
