"""Tables as CSV: spreadsheets run no formula that a name holds."""

import io

import pandas as pd
import pytest

from mico.runs.csv_bytes import csv_bytes


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-1", "@sum", "\tx", "\rx"])
def test_text_that_a_spreadsheet_would_run_has_an_apostrophe(name):
    table = pd.read_csv(io.BytesIO(csv_bytes(pd.DataFrame({"agent": [name, "a + b"], "value": [-1.5, 2.0]}))))
    assert table["agent"].tolist() == ["'" + name.replace("\r", " "), "a + b"]
    assert table["value"].tolist() == [-1.5, 2.0]


def test_letters_that_utf_8_lacks_are_replaced():
    assert csv_bytes(pd.DataFrame({"agent": ["\ud800"]})) == b"agent\n?\n"
