"""The folder that results go to is there and can be written to, or it is an error before any work."""

import os

import pytest

from mico.results.folders import writable


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
