"""Damaged checkpoints never come back as wrong numbers."""

import hashlib
import json
import random
import shutil
import warnings

import pytest
import zstandard

from mico.deep.training.array_store import open_arrays
from mico.deep.training.checkpoints import Checkpoints
from states import assert_same, names, numbers, saved


def flip(path, rng):
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


DAMAGES = {
    "flipped": flip,
    "half": lambda path, rng: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "dangling": lambda path, rng: (path.unlink(), path.symlink_to("nothing")),
    "folder": lambda path, rng: (path.unlink(), path.mkdir()),
    "longer": lambda path, rng: path.write_bytes(path.read_bytes() + b"\0"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_never_gives_wrong_numbers(tmp_path, damage):
    saved(tmp_path / "sound", 1, 2)
    rng = random.Random(damage)
    skipped = 0
    for attempt in range(40 if damage == "flipped" else 1):
        folder = tmp_path / f"{damage}-{attempt}"
        shutil.copytree(tmp_path / "sound", folder)
        DAMAGES[damage](folder / "2.arrays", rng)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step, state, extra = Checkpoints(folder).restore(numbers(0))
        assert_same(state, numbers(step))
        assert extra == {"positions": [step, 2 * step]}
        if step == 1:
            skipped += 1
            (message,) = [str(warning.message) for warning in caught]
            assert message.startswith(f"checkpoint {folder / '2.arrays'} is skipped: ")
            assert "\n" not in message
        else:
            assert not caught
        shutil.rmtree(folder)
    assert skipped == attempt + 1


def change_index(path, change):
    """Rewrite the index of a file of arrays, with a digest that is right."""
    data = path.read_bytes()
    length = int.from_bytes(data[-40:-32], "little")
    index = json.dumps(change(json.loads(data[-40 - length : -40]))).encode()
    path.write_bytes(data[: -40 - length] + index + len(index).to_bytes(8, "little") + hashlib.sha256(index).digest())


def with_first(**fields):
    """Change fields of the first array in an index."""

    def change(index):
        form, sha256, pieces = index["leaves"][0]
        first = {"form": form, "sha256": sha256, "pieces": pieces} | fields
        return index | {"leaves": [list(first.values()), *index["leaves"][1:]]}

    return change


def shifted(leaves):
    """The first piece one byte shorter, the last one longer."""
    (form, sha256, (first,)), *others, (last_form, last_sha256, (last,)) = leaves
    return [[form, sha256, [first - 1]], *others, [last_form, last_sha256, [last + 1]]]


def halved(leaves):
    """The first piece in two."""
    (form, sha256, (first,)), *others = leaves
    return [[form, sha256, [first // 2, first - first // 2]], *others]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index | {"format": "mico arrays 0"}, "its format is 'mico arrays 0', not 'mico arrays 1'"),
        (lambda index: {"format": "mico arrays 1"}, "its index cannot be read: KeyError"),
        (lambda index: [1], "its index cannot be read: TypeError"),
        (lambda index: index | {"extra": 5}, "its index cannot be read: TypeError"),
        (with_first(pieces=[-1]), r"its index cannot be read: .*lengths \[-1\]"),
        (with_first(pieces=["x"]), "its index cannot be read: .*lengths"),
        (with_first(pieces=[]), "its arrays have .* bytes instead of"),
        (with_first(pieces=[10**18]), "its arrays have .* bytes instead of 1000000000000"),
        (lambda index: index | {"leaves": shifted(index["leaves"])}, "has a damaged piece"),
        (lambda index: index | {"leaves": halved(index["leaves"])}, "has 2 pieces instead of 1"),
        (with_first(sha256="0"), "has other bytes than were written"),
    ],
)
def test_an_index_that_does_not_belong_is_damage(tmp_path, change, message):
    checkpoints = saved(tmp_path, 1, 2)
    change_index(tmp_path / "2.arrays", change)
    with pytest.warns(UserWarning, match=message):
        assert checkpoints.restore(numbers(0)).step == 1


def test_a_piece_that_unpacks_to_much_more_is_refused_before_it_is_unpacked(tmp_path):
    """A gigabyte of zeros in some kilobytes, in the place of eight kilobytes."""
    checkpoints = saved(tmp_path, 1, 2)
    file = tmp_path / "2.arrays"
    with open_arrays(file) as stored:
        (length,) = stored.entries[0].pieces
    bomb = zstandard.ZstdCompressor().compress(bytes(2**26))
    file.write_bytes(bomb + file.read_bytes()[length:])
    change_index(file, with_first(pieces=[len(bomb)]))
    with pytest.warns(UserWarning, match="has a piece of 67108864 bytes instead of 7000"):
        assert checkpoints.restore(numbers(0)).step == 1


def test_a_checkpoint_under_another_name_is_damaged(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    (tmp_path / "2.arrays").rename(tmp_path / "7.arrays")
    with pytest.warns(UserWarning, match="it is the checkpoint of step 2"):
        assert checkpoints.restore(numbers(0)).step == 1


def test_if_all_are_damaged_none_is_not_the_answer(tmp_path):
    checkpoints = saved(tmp_path, 3, 4)
    for step in (3, 4):
        (tmp_path / f"{step}.arrays").write_bytes(b"")
    message = r"all checkpoints in .* are damaged: 3, 4"
    with pytest.warns(UserWarning, match="skipped"), pytest.raises(ValueError, match=message):
        checkpoints.restore(numbers(0))


def test_a_resumed_run_replaces_what_was_damaged(tmp_path):
    saved(tmp_path, 1, 2, 3)
    (tmp_path / "3.arrays").write_bytes(b"short")
    checkpoints = Checkpoints(tmp_path, keep=2)
    with pytest.warns(UserWarning, match="skipped"):
        assert checkpoints.restore(numbers(0)).step == 2
    assert checkpoints.latest() == 2
    checkpoints.save(3, numbers(3), {})
    assert names(tmp_path) == ["2", "3", "3.skipped"]
    assert_same(checkpoints.restore(numbers(0)).state, numbers(3))


def test_what_was_skipped_stays_until_enough_sound_ones_are_as_far(tmp_path):
    saved(tmp_path, 1, 5)
    (tmp_path / "5.arrays").write_bytes(b"")
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


@pytest.mark.parametrize("name", ["3.arrays.skipped", f".3.arrays.{'0' * 16}.tmp"])
def test_what_was_skipped_twice_or_is_half_written_is_in_nobodys_way(tmp_path, name):
    saved(tmp_path, 1, 3)
    (tmp_path / name).write_bytes(b"older")
    (tmp_path / "3.arrays").write_bytes(b"damaged")
    checkpoints = Checkpoints(tmp_path)
    with pytest.warns(UserWarning, match="skipped"):
        assert checkpoints.restore(numbers(0)).step == 1
    checkpoints.save(3, numbers(3), {})
    assert names(tmp_path) == ["1", "3", "3.skipped"]
    assert (tmp_path / "3.arrays.skipped").read_bytes() == b"damaged"


def test_folders_of_earlier_versions_are_refused_by_name(tmp_path):
    (tmp_path / "80" / "state").mkdir(parents=True)
    (tmp_path / "80" / "checkpoint.json").write_text("{}")
    with pytest.raises(ValueError, match=r"80 is a checkpoint of an earlier version .* train in another folder"):
        Checkpoints(tmp_path).restore(numbers(0))


def test_what_was_damaged_does_not_take_the_place_of_what_is_sound(tmp_path):
    saved(tmp_path, 1, 9)
    (tmp_path / "9.arrays").write_bytes(b"")
    checkpoints = Checkpoints(tmp_path, keep=1)
    with pytest.warns(UserWarning, match="skipped"):
        checkpoints.restore(numbers(0))
    checkpoints.save(2, numbers(2), {})
    assert names(tmp_path) == ["2", "9.skipped"]
    assert checkpoints.restore(numbers(0)).step == 2
