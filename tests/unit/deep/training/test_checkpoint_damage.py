"""Damaged checkpoints never come back as wrong numbers."""

import random
import shutil
import warnings

import numpy as np
import pytest

from mico.deep.training import array_store as leaves_module
from mico.deep.training.checkpoints import Checkpoints
from states import assert_same, names, numbers, saved


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flip(path, rng):
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


DAMAGES = {
    "flipped": flip,
    "half": lambda path, rng: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "missing": lambda path, rng: path.unlink(),
    "longer": lambda path, rng: path.write_bytes(path.read_bytes() + b"\0"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_never_gives_wrong_numbers(tmp_path, damage):
    saved(tmp_path / "sound", 1, 2)
    rng = random.Random(damage)
    skipped = set()
    for file in [file.relative_to(tmp_path) for file in files(tmp_path / "sound/2") if file.stat().st_size]:
        for attempt in range(4 if damage == "flipped" else 1):
            folder = tmp_path / f"{damage}-{attempt}"
            shutil.copytree(tmp_path / "sound", folder)
            DAMAGES[damage](folder / file.relative_to("sound"), rng)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                step, state, extra = Checkpoints(folder).restore(numbers(0))
            assert_same(state, numbers(step))
            assert extra == {"positions": [step, 2 * step]}
            if step == 1:
                skipped.add(file.name)
                (message,) = [str(warning.message) for warning in caught]
                assert message.startswith(f"checkpoint {folder / '2'} is skipped: ")
                assert "\n" not in message
            else:
                assert not caught
            shutil.rmtree(folder)
    assert len(skipped) >= 3
    assert damage == "longer" or "checkpoint.json" in skipped


@pytest.mark.parametrize(
    ("old", "new"), [('"positions"', '"position"'), ('"uint8"', '"int8"'), ('"step": 2', '"step": 3')]
)
def test_what_is_beside_the_arrays_has_a_digest_too(tmp_path, old, new):
    checkpoints = saved(tmp_path, 1, 2)
    file = tmp_path / "2" / "checkpoint.json"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.warns(UserWarning, match="digest"):
        assert checkpoints.restore(numbers(0)).step == 1


@pytest.mark.parametrize("piece", [np.zeros(4, np.float32), np.zeros((2, 2)), np.zeros(0), np.zeros(5)])
def test_pieces_that_do_not_belong_are_damage(tmp_path, monkeypatch, piece):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"x": np.zeros(4)}, {})
    monkeypatch.setattr(leaves_module, "_load", lambda folder: {"0-0": piece})
    with pytest.warns(UserWarning, match="has a piece of"), pytest.raises(ValueError, match="all checkpoints"):
        checkpoints.restore({"x": np.zeros(4)})


def test_a_checkpoint_under_another_name_is_damaged(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    (tmp_path / "2").rename(tmp_path / "7")
    with pytest.warns(UserWarning, match="digest"):
        assert checkpoints.restore(numbers(0)).step == 1


def test_arrays_of_another_checkpoint_are_damage(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    shutil.rmtree(tmp_path / "2" / "state")
    shutil.copytree(tmp_path / "1" / "state", tmp_path / "2" / "state")
    with pytest.warns(UserWarning, match=r"\['frames'\] .* has other bytes"):
        assert checkpoints.restore(numbers(0)).step == 1


def test_if_all_are_damaged_none_is_not_the_answer(tmp_path):
    checkpoints = saved(tmp_path, 3, 4)
    for step in (3, 4):
        (tmp_path / str(step) / "checkpoint.json").write_text("{}")
    message = r"all checkpoints in .* are damaged: 3, 4"
    with pytest.warns(UserWarning, match="skipped"), pytest.raises(ValueError, match=message):
        checkpoints.restore(numbers(0))


def test_a_resumed_run_replaces_what_was_damaged(tmp_path):
    saved(tmp_path, 1, 2, 3)
    shutil.rmtree(tmp_path / "3" / "state")
    checkpoints = Checkpoints(tmp_path, keep=2)
    with pytest.warns(UserWarning, match="skipped"):
        assert checkpoints.restore(numbers(0)).step == 2
    assert checkpoints.latest() == 2
    checkpoints.save(3, numbers(3), {})
    assert names(tmp_path) == ["2", "3", "3.skipped"]
    assert_same(checkpoints.restore(numbers(0)).state, numbers(3))


def test_what_was_skipped_stays_until_enough_sound_ones_are_as_far(tmp_path):
    saved(tmp_path, 1, 5)
    (tmp_path / "5" / "checkpoint.json").write_text("{}")
    checkpoints = Checkpoints(tmp_path, keep=2)
    with pytest.warns(UserWarning, match="skipped"):
        checkpoints.restore(numbers(0))
    found = {}
    for step in (2, 3, 5, 6):
        checkpoints.save(step, numbers(step), {})
        found[step] = names(tmp_path)
    assert found == {
        2: ["1", "2", "5.skipped"],
        3: ["2", "3", "5.skipped"],
        5: ["3", "5", "5.skipped"],
        6: ["5", "6"],
    }


@pytest.mark.parametrize("name", ["3.skipped", ".3.skipped.removed.tmp"])
def test_what_was_skipped_twice_or_is_half_removed_is_in_nobodys_way(tmp_path, name):
    saved(tmp_path, 1, 3)
    (tmp_path / name / "state").mkdir(parents=True)
    (tmp_path / "3" / "checkpoint.json").unlink()
    checkpoints = Checkpoints(tmp_path)
    with pytest.warns(UserWarning, match="skipped"):
        assert checkpoints.restore(numbers(0)).step == 1
    checkpoints.save(3, numbers(3), {})
    assert names(tmp_path) == ["1", "3", "3.skipped"]
    assert names(tmp_path / "3.skipped") == ["state"]


def test_what_was_damaged_does_not_take_the_place_of_what_is_sound(tmp_path):
    saved(tmp_path, 1, 9)
    (tmp_path / "9" / "checkpoint.json").unlink()
    checkpoints = Checkpoints(tmp_path, keep=1)
    with pytest.warns(UserWarning, match="skipped"):
        checkpoints.restore(numbers(0))
    checkpoints.save(2, numbers(2), {})
    assert names(tmp_path) == ["2", "9.skipped"]
    assert checkpoints.restore(numbers(0)).step == 2
