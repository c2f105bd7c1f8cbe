"""The folder that results go to is there and can be written to, or it is an error before any work."""

import errno
import json
import os
from pathlib import Path

import pytest

from mico.results.folders import writable, write_json


def test_makes_the_folder_and_its_parents(tmp_path):
    folder = writable(tmp_path / "a" / "b")
    assert folder.is_dir()
    assert writable(folder) == tmp_path / "a" / "b"


@pytest.mark.parametrize("below", [".", "deeper"])
def test_a_file_in_the_way_is_an_error(tmp_path, below):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        writable(tmp_path / "file" / below)


def test_a_folder_without_the_right_to_write_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)  # root may write anywhere
    with pytest.raises(PermissionError, match="cannot be written to"):
        writable(tmp_path)


def test_json_is_written_whole_and_comes_back(tmp_path):
    data = {"steps": 5, "rate": 0.1, "names": ["ü", None], "nested": {"a": [1.5]}}
    write_json(tmp_path / "config.json", {"old": 1})
    write_json(tmp_path / "config.json", data)
    assert json.loads((tmp_path / "config.json").read_bytes()) == data
    assert os.listdir(tmp_path) == ["config.json"]


def test_json_that_cannot_be_written_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    write_json(path, {"old": 1})
    for data in ({"rate": float("nan")}, {"object": object()}):
        with pytest.raises((ValueError, TypeError)):
            write_json(path, data)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_json(path, {"new": 2})
    assert caught.value.filename == str(path)
    assert json.loads(path.read_bytes()) == {"old": 1}
    assert os.listdir(tmp_path) == ["config.json"]


def test_json_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: events.append(os.readlink(f"/proc/self/fd/{file}")) or fsync(file))
    monkeypatch.setattr(Path, "replace", lambda path, to: events.append("named") or replace(path, to))
    write_json(tmp_path / "config.json", {})
    assert events == [str(tmp_path / ".config.json.tmp"), "named", str(tmp_path)]
