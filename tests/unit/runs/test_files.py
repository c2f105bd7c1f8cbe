"""The folder that results go to is there and can be written to, or it is an error before any work."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mico.runs.files import new_folder, writable, write_json, write_whole


def test_makes_the_folder_and_its_parents(tmp_path):
    folder = writable(tmp_path / "a" / "b")
    assert folder.is_dir()
    assert writable(folder) == tmp_path / "a" / "b"


@pytest.mark.parametrize("below", [".", "deeper"])
def test_a_file_in_the_way_is_an_error(tmp_path, below):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"^out must be a folder, but .*/file is a file$"):
        writable(tmp_path / "file" / below)
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    with pytest.raises(ValueError, match=r"nowhere is a broken link$"):
        writable(tmp_path / "nowhere" / below)


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
    temporary, *rest = events
    assert re.fullmatch(rf"{re.escape(str(tmp_path))}/\.config\.json\.[0-9a-f]{{16}}\.tmp", temporary)
    assert rest == ["named", str(tmp_path)]


def test_links_are_replaced_and_what_they_point_to_stays_as_it_is(tmp_path):
    """A folder that somebody else made may hold links with the name of a page, or of its temporary file."""
    (tmp_path / "profile").write_text("mine")
    out = writable(tmp_path / "out")
    for name in ("page.html", ".page.html.tmp"):
        (out / name).symlink_to(tmp_path / "profile")
    write_whole(out / "page.html", b"page")
    assert (tmp_path / "profile").read_text() == "mine"
    assert not (out / "page.html").is_symlink()
    assert (out / "page.html").read_bytes() == b"page"


WRITE = """
import sys
from pathlib import Path
from mico.runs.files import write_whole
path, letter = Path(sys.argv[1]), sys.argv[2].encode()
print(flush=True)
sys.stdin.readline()
for _ in range(300):
    write_whole(path, letter * 50_000)
"""


def test_two_writers_of_one_file_both_succeed_and_readers_see_whole_files(tmp_path):
    path, whole = tmp_path / "page.html", {b"a" * 50_000, b"b" * 50_000}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(path), name], **pipes) for name in "ab"]
    for writer in writers:
        writer.stdout.readline()
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            assert path.read_bytes() in whole
    assert [writer.wait() for writer in writers] == [0, 0]
    for writer in writers:
        writer.stdin.close()
        writer.stdout.close()
    assert os.listdir(tmp_path) == ["page.html"]


def test_what_killed_writers_left_is_removed_once_it_is_old_and_nothing_else_is(tmp_path):
    path = tmp_path / "page.html"
    old, new = f".page.html.{'0' * 16}.tmp", f".page.html.{'1' * 16}.tmp"
    others = [".page.html.notes.tmp", f".other.html.{'0' * 16}.tmp", ".page.html.tmp", "page.html.tmp"]
    for name in (old, new, *others):
        (tmp_path / name).write_text("x")
        if name != new:
            os.utime(tmp_path / name, (0, 0))
    write_whole(path, b"page")
    assert sorted(os.listdir(tmp_path)) == sorted([new, *others, "page.html"])


def test_an_interruption_leaves_the_old_file_and_no_temporary_one(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    write_whole(path, b"old")

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_folder_made_in_vain_is_removed_with_the_parents_made_for_it(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(IsADirectoryError), new_folder(tmp_path / "mine/a/b") as folder:
        folder.read_text()
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]


def leave_and_fail(path):
    path.write_text("x")
    raise KeyError


def test_folders_that_were_there_or_hold_something_stay(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(KeyError), new_folder(tmp_path / "mine"):
        raise KeyError
    with pytest.raises(KeyError), new_folder(tmp_path / "a/b"):
        leave_and_fail(tmp_path / "a/notes.txt")
    with new_folder(tmp_path / "c"):
        pass
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["a", "a/notes.txt", "c", "mine"]


def test_parents_of_a_folder_that_cannot_be_made_are_removed(tmp_path):
    with pytest.raises(OSError, match="too long"), new_folder(tmp_path / "a" / ("x" * 300)):
        pass
    assert not [*tmp_path.iterdir()]
