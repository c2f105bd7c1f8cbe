"""Tables as CSV: spreadsheets run no formula that a name holds."""

import io

import numpy as np
import pandas as pd
import pytest

from mico.runs.archive import condense, read, write
from mico.runs.csv_bytes import csv_bytes, unescape_table
from mico.runs.tables import read_scores
from written_runs import write_run


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-1", "@sum", "\tx", "\rx"])
def test_text_that_a_spreadsheet_would_run_has_an_apostrophe(name):
    table = pd.read_csv(io.BytesIO(csv_bytes(pd.DataFrame({"agent": [name, "a + b"], "value": [-1.5, 2.0]}))))
    assert table["agent"].tolist() == ["'" + name.replace("\r", " "), "a + b"]
    assert table["value"].tolist() == [-1.5, 2.0]


@pytest.mark.parametrize("name", ["=x", "'=x", "''-x", "-x", "'quoted'", "'", "dqn"])
def test_text_comes_back(name):
    table = pd.DataFrame({name: [name, "b"], "value": [-1.5, 2.0], "truth": [True, False], "none": [np.nan, np.nan]})
    written = csv_bytes(table)
    assert not any(cell[:1] in "=+-@\t\r" for cell in written.decode().replace("-1.5", "").split(",") if cell)
    pd.testing.assert_frame_equal(unescape_table(pd.read_csv(io.BytesIO(written))), table)


def test_names_in_archives_come_back(tmp_path):
    """`mico collect` writes them, and reads them again to add to them; `mico report` reads them too."""
    write_run(tmp_path / "runs" / "a", [1.0, 2.0], agent="=cmd()", env="@sum", metric="-m")
    (table,) = write(condense(tmp_path / "runs", points=2), tmp_path / "small")
    assert table.read_text().splitlines()[1].startswith("'=cmd(),'-m,0.01,0.1,'@sum,0,1000,1,")
    assert read(tmp_path / "small").rows[["agent", "metric", "env"]].iloc[0].tolist() == ["=cmd()", "-m", "@sum"]
    assert read_scores(table)[["agent", "metric", "env"]].iloc[0].tolist() == ["=cmd()", "-m", "@sum"]


def test_letters_that_utf_8_lacks_are_replaced():
    assert csv_bytes(pd.DataFrame({"agent": ["\ud800"]})) == b"agent\n?\n"
