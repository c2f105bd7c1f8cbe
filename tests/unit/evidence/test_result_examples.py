"""The examples in docstrings of results run and give what they say."""

import doctest
import importlib

import pytest

MODULES = (
    "mico.cli.report_writing",
    "mico.evidence.arms",
    "mico.evidence.exclusion",
    "mico.runs.columns",
    "mico.runs.csv_bytes",
    "mico.runs.file_names",
    "mico.evidence.learning_speed",
    "mico.plotting.plots",
    "mico.runs.other_logs",
    "mico.runs.tables",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert (failed, tried > 0) == (0, True)
