"""The state of a fleet on disk."""

import numpy as np
import pytest

from mico.deep.training.train import Progress
from mico.sweeps import status
from mico.sweeps.status import Status, Writer, read_status, running, write_status


def test_it_comes_back_as_it_was_written(tmp_path):
    assert read_status(tmp_path, "000-x") == Status("waiting")
    for one in (Status("finished", 40, (1.5, None)), Status("failed", error="why", details="where\nand how")):
        write_status(tmp_path, "000-x", one)
        assert read_status(tmp_path, "000-x") == one


def test_returns_that_are_not_there_yet_are_none():
    assert running(Progress(8, 40, np.array([np.nan, 2.0]))) == Status("running", 8, (None, 2.0))


def test_it_is_written_every_other_second(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(status.time, "monotonic", lambda: now[0])
    writer, seen = Writer(tmp_path, "000-x"), []
    for second in range(6):
        now[0] = float(second)
        writer(Progress(second, 40, np.zeros(1)))
        seen.append(read_status(tmp_path, "000-x").step)
        assert writer.newest.step == second
    assert seen == [0, 0, 0, 3, 3, 3]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"returns": []}', '{"state": "finished"}'])
def test_a_damaged_file_is_named(tmp_path, text):
    write_status(tmp_path, "000-x", Status("running"))
    (tmp_path / "status" / "000-x.json").write_text(text)
    with pytest.raises(ValueError, match=r"000-x.json is not the state of a fleet: "):
        read_status(tmp_path, "000-x")
