"""Free memory: what the system says, and no more than the limits around the process leave."""

import pytest

from mico import _memory

KIB = 1024


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system of 1000 KiB free memory, with the process in the group job/step of no limit."""
    for field, name in {"_SYSTEM": "meminfo", "_GROUP": "cgroup", "_GROUPS": "groups"}.items():
        monkeypatch.setattr(_memory, field, tmp_path / name)
    (tmp_path / "meminfo").write_text("MemTotal:  5000 kB\nMemAvailable:   1000 kB\nHugePages_Total:  0\n")
    (tmp_path / "cgroup").write_text("4:memory:/old\n0::/job/step\n")
    limit(tmp_path / "groups/job/step", "max")
    return tmp_path


def limit(folder, most, *, used=0, inactive=0):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 7\ninactive_file {inactive}\n")


def test_without_limits_it_is_what_the_system_says(system):
    assert _memory.available() == 1000 * KIB


def test_a_limit_of_the_group_or_of_one_around_it_counts(system):
    limit(system / "groups/job", 500 * KIB, used=300 * KIB, inactive=100 * KIB)
    assert _memory.available() == 300 * KIB
    limit(system / "groups/job/step", 250 * KIB, used=100 * KIB)
    assert _memory.available() == 150 * KIB
    limit(system / "groups/job/step", 250 * KIB, used=251 * KIB)
    assert _memory.available() == 0


def test_limits_beyond_what_the_system_has_do_not_count(system):
    limit(system / "groups/job/step", 9000 * KIB)
    assert _memory.available() == 1000 * KIB


def test_a_system_that_does_not_say_has_none(system):
    (system / "meminfo").unlink()
    assert _memory.available() == 0


def test_a_system_without_control_groups_is_not_limited(system):
    (system / "cgroup").unlink()
    assert _memory.available() == 1000 * KIB


def test_this_system_can_be_asked():
    assert _memory.available() >= 0
