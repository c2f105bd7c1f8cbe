"""Which back end of OpenGL is taken, and what is said where there is none."""

import os

import pytest

from mico.control_suite import graphics
from mico.control_suite.graphics import back_end


@pytest.fixture(autouse=True)
def afresh(monkeypatch):
    """Nothing is known, and the user has said nothing."""
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    graphics._first_working.cache_clear()
    yield
    graphics._first_working.cache_clear()


def working(monkeypatch, *names):
    """Only these work; gives back the list of those that have been tried."""
    tried = []
    monkeypatch.setattr(graphics, "_trouble", lambda name: tried.append(name) or (None if name in names else "broken"))
    return tried


def test_egl_is_preferred_and_tried_once(monkeypatch):
    tried = working(monkeypatch, "egl", "osmesa")
    assert [back_end(), back_end()] == ["egl", "egl"]
    assert tried == ["egl"]


def test_osmesa_is_taken_where_egl_does_not_work(monkeypatch):
    tried = working(monkeypatch, "osmesa")
    assert back_end() == "osmesa"
    assert tried == ["egl", "osmesa"]


def test_what_the_user_has_chosen_is_respected(monkeypatch):
    tried = working(monkeypatch, "egl", "osmesa", "glfw")
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    assert back_end() == "glfw"
    assert tried == ["glfw"]


def test_without_any_the_packages_and_the_way_round_are_named(monkeypatch):
    working(monkeypatch)
    with pytest.raises(OSError, match=r"libegl1 .*libosmesa6.* observation 'state', which needs none") as told:
        back_end()
    assert "MUJOCO_GL=egl: broken; MUJOCO_GL=osmesa: broken" in str(told.value)
    assert "unset" not in str(told.value)


def test_where_the_chosen_one_does_not_work_the_others_are_named(monkeypatch):
    working(monkeypatch, "egl")
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    with pytest.raises(OSError, match=r"unset MUJOCO_GL, so that egl and osmesa are tried, .*MUJOCO_GL=glfw: broken"):
        back_end()


def test_a_back_end_is_tried_in_a_process_of_its_own(monkeypatch, tmp_path, capfd):
    """PyOpenGL hidden behind a package that fails, and a back end that there is not."""
    before = dict(os.environ)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "OpenGL.py").write_text("raise ImportError('hidden')")
    with pytest.raises(OSError, match=r"MUJOCO_GL=egl: ImportError: hidden; MUJOCO_GL=osmesa: ImportError: hidden"):
        back_end()
    monkeypatch.setenv("MUJOCO_GL", "crayons")
    with pytest.raises(OSError, match=r"MUJOCO_GL=crayons: RuntimeError: .*must be one of"):
        back_end()
    monkeypatch.delenv("MUJOCO_GL")
    assert dict(os.environ) == before
    assert capfd.readouterr() == ("", "")
