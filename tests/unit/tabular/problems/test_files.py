import io
import json
import re
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from mico.tabular.mdp import MDP
from mico.tabular.problems import Layout, Problem, load, make, save
from mico.tabular.problems.files import stored_states

DOC = Path(__file__).parents[4] / "docs" / "file-format.md"
DENSE = {"transition": [[[0.25, 0.75]], [[0, 1]]], "reward": [[1.5], [-1]], "discount": 0.9}
SPARSE = {
    "state": [0, 0, 1],
    "action": [0, 0, 0],
    "next_state": [0, 1, 1],
    "probability": [0.25, 0.75, 1.0],
    "reward": [1, 2, -1],
    "num_states": 2,
    "num_actions": 1,
    "discount": 0.9,
}


def write(path, fields):
    if path.suffix == ".json":
        path.write_text(json.dumps(fields))
    else:
        np.savez(path, **{key: np.array(value) for key, value in fields.items()})
    return path


def refused(path, message, **options):
    with pytest.raises(ValueError, match=message) as caught:
        load(path, **options)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text


PRICED = np.random.default_rng(0).random((3, 2, 3))
PROBLEMS = {
    "dense": make("garnet", seed=3, num_states=5, num_actions=2),
    "dense with a reward a transition": Problem(MDP(PRICED / PRICED.sum(axis=2, keepdims=True), PRICED, 0.5)),
    "names and policy": make("pessimism"),
    "grid": make("mirrored-rooms"),
    "slippery grid": make("dayan", slip=0.25),
    "sink without a cell": make("frozen-lake"),
    "random reward": make("random-reward"),
    "layout without goals": Problem(make("two-state").mdp, Layout(np.array([[0, -1, 1]]))),
}


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize("kind", PROBLEMS)
def test_round_trip(tmp_path, kind, suffix):
    before = PROBLEMS[kind]
    save(tmp_path / f"it{suffix}", before)
    after = load(tmp_path / f"it{suffix}")
    assert after.mdp.shape == before.mdp.shape
    assert after.mdp.discount == before.mdp.discount
    assert type(after.mdp.transition) is type(before.mdp.transition)
    for one, other in zip(before.mdp.outcomes(), after.mdp.outcomes(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-14)
    np.testing.assert_allclose(after.mdp.reward, before.mdp.reward, rtol=1e-14)
    assert after.names == before.names
    assert (after.policy is None) == (before.policy is None)
    if before.policy is not None:
        np.testing.assert_array_equal(after.policy, before.policy)
    assert (after.layout is None) == (before.layout is None)
    if before.layout is not None:
        np.testing.assert_array_equal(after.layout.cells, before.layout.cells)
        assert after.layout.goals == before.layout.goals


@pytest.mark.parametrize("name", ["it.NPZ", "it.Npz", "it.JSON"])
def test_endings_in_capitals(tmp_path, name):
    save(tmp_path / name, PROBLEMS["dense"])
    assert [path.name for path in tmp_path.iterdir()] == [name]
    np.testing.assert_array_equal(load(tmp_path / name).mdp.reward, PROBLEMS["dense"].mdp.reward)


def test_long_integers_are_numbers(tmp_path):
    rewards = (10**20, -(2**64), 2**63, -(2**63) - 1, 10**18, 3)
    for reward in rewards:
        path = write(tmp_path / "it.json", {"transition": [[[1]]], "reward": [[reward]], "discount": 0.5})
        assert load(path).mdp.reward.item() == float(reward)
    fields = {"transition": [[[1] + [0] * 5]] * 6, "reward": [[reward] for reward in rewards], "discount": 0.5}
    found = load(write(tmp_path / "it.json", fields)).mdp.reward
    np.testing.assert_array_equal(found[:, 0], [float(reward) for reward in rewards])


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_both_layouts_are_read(tmp_path, suffix):
    dense, sparse = (load(write(tmp_path / f"{i}{suffix}", fields)).mdp for i, fields in enumerate((DENSE, SPARSE)))
    np.testing.assert_array_equal(dense.transition[:, 0], [[0.25, 0.75], [0, 1]])
    np.testing.assert_array_equal(dense.reward, [[1.5], [-1]])
    np.testing.assert_array_equal(sparse.kernels[0].toarray(), [[0.25, 0.75], [0, 1]])
    np.testing.assert_array_equal(sparse.reward, [[0.25 * 1 + 0.75 * 2], [-1]])


def test_discount_takes_the_place_of_the_files(tmp_path):
    path = write(tmp_path / "it.json", DENSE)
    assert load(path).mdp.discount == 0.9
    assert load(path, discount=0.25).mdp.discount == 0.25
    assert load(str(path), discount=0.0).mdp.discount == 0
    bare = write(tmp_path / "bare.json", {key: DENSE[key] for key in ("transition", "reward")})
    assert load(bare, discount=0.5).mdp.discount == 0.5
    with pytest.raises(ValueError, match=r"^discount must lie in .* 1.5"):
        load(path, discount=1.5)


def test_the_examples_of_the_documentation(tmp_path):
    corridor, coin = re.findall(r"```json\n(.*?)```", DOC.read_text(encoding="utf-8"), flags=re.DOTALL)
    path = tmp_path / "it.json"
    path.write_text(corridor)
    found = load(path)
    assert found.names == ("start", "goal")
    assert found.layout.goals == (1,)
    walked = make("map", path=_map(tmp_path, "####\n# G#\n####"))
    np.testing.assert_array_equal(found.layout.cells, walked.layout.cells)
    for action, move in enumerate((2, 3)):  # its two actions are the grid's left and right
        np.testing.assert_array_equal(found.mdp.kernels[action], walked.mdp.kernels[move].toarray())
        np.testing.assert_array_equal(found.mdp.reward[:, action], walked.mdp.reward[:, move])
    path.write_text(coin)
    expected = make("random-reward").mdp.outcomes()
    for one, other in zip(load(path).mdp.outcomes(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def _map(folder, text):
    path = folder / "map.txt"
    path.write_text(text)
    return path


def test_null_counts_as_absent(tmp_path):
    found = load(write(tmp_path / "it.json", DENSE | {"names": None, "map": None, "policy": None, "goals": None}))
    assert found.names is found.layout is found.policy is None


BROKEN = {
    "missing key": (DENSE, {"reward": ...}, "has no key 'reward'"),
    "missing discount": (SPARSE, {"discount": ...}, "has no key 'discount'"),
    "missing vector": (SPARSE, {"probability": ...}, "has no key 'probability'"),
    "neither layout": (
        SPARSE,
        {"state": ...},
        "must have the keys transition, reward, discount, or state, action, .*; found action, .*file-format",
    ),
    "unknown key": (DENSE, {"gamma": 0.9}, "has a key 'gamma'"),
    "both layouts": (DENSE, {"state": [0]}, "has a key 'state'"),
    "matrix transition": (DENSE, {"transition": [[1.0]]}, r"transition must have 3 axes, but has shape \[1, 1\]"),
    "oblong transition": (DENSE, {"transition": [[[1.0, 0.0]]]}, r"\[S, A, S\], but has \[1, 1, 2\]"),
    "vector reward": (DENSE, {"reward": [1.0, 2.0]}, "reward must have 2 or 3 axes"),
    "short reward": (DENSE, {"reward": [[1.0]]}, r"reward has shape \[1, 1\]"),
    "bad sum": (DENSE, {"transition": [[[0.5, 0.25]], [[0, 1]]]}, "state 0, action 0 sums to 0.75"),
    "negative": (DENSE, {"transition": [[[1.5, -0.5]], [[0, 1]]]}, "-0.5: negative"),
    "not finite": (DENSE, {"reward": [[float("nan")], [0]]}, r"reward\[0, 0\] = nan"),
    "words": (DENSE, {"reward": [["1"], ["0"]]}, "reward must hold numbers"),
    "bad discount": (DENSE, {"discount": 1}, "discount must lie in"),
    "word discount": (DENSE, {"discount": "0.9"}, "discount must hold numbers"),
    "vector discount": (DENSE, {"discount": [0.9]}, r"discount must have 0 axes, but has shape \[1\]"),
    "fractional state": (SPARSE, {"state": [0, 0, 0.5]}, "state must hold integers"),
    "state out of range": (SPARSE, {"state": [0, 0, 2]}, r"state\[2\] = 2 is outside 0..1"),
    "unequal vectors": (SPARSE, {"reward": [1, 2]}, "vectors of one length"),
    "matrix of states": (SPARSE, {"state": [[0, 0, 1]]}, "state must have 1 axes"),
    "no states": (SPARSE, {"num_states": 0}, "num_states must be at least 1, but is 0"),
    "too many states": (SPARSE, {"num_states": 10**12}, "lists 3 outcomes, too few for"),
    "outcomes missing": (SPARSE, {"state": [0, 0, 0], "probability": [0.25, 0.25, 0.5]}, "state 1, action 0 sums to 0"),
    "names of numbers": (DENSE, {"names": [1, 2]}, r"names\[0\] must be a string, got 1"),
    "one name": (DENSE, {"names": ["x"]}, "names has 1 entries"),
    "bad policy": (DENSE, {"policy": [[1.0], [0.5]]}, "policy of state 1 sums to 0.5"),
    "short policy": (DENSE, {"policy": [[1.0]]}, "policy has shape"),
    "map beyond": (DENSE, {"map": [[0, 1, 2]]}, "layout holds state 2"),
    "fractional map": (DENSE, {"map": [[0.0, 1.5]]}, "map must hold integers"),
    "flat map": (DENSE, {"map": [0, 1]}, "map must have 2 axes"),
    "goal beyond": (DENSE, {"map": [[0, 1]], "goals": [2]}, "goals holds 2"),
    "goals without map": (DENSE, {"goals": [0]}, "'goals' without the key 'map'"),
}


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize("case", BROKEN)
def test_wrong_contents(tmp_path, case, suffix):
    whole, change, message = BROKEN[case]
    fields = {key: value for key, value in (whole | change).items() if value is not ...}
    refused(write(tmp_path / f"it{suffix}", fields), message)


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_missing_file_and_folder(tmp_path, suffix):
    refused(tmp_path / f"none{suffix}", "No such file")
    (tmp_path / f"folder{suffix}").mkdir()
    refused(tmp_path / f"folder{suffix}", "directory")


def test_unknown_ending(tmp_path):
    refused(tmp_path / "it.csv", r"must end in .npz or .json")
    with pytest.raises(ValueError, match=r"it.csv: .* \.npz or \.json"):
        save(tmp_path / "it.csv", PROBLEMS["grid"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is not JSON"),
        (b'{"transition": [', "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1, 2]", "must hold an object, not list"),
        (b'{"transition": [[[1], [1, 2]]], "reward": [[0]], "discount": 0.5}', "rows of different lengths"),
        (b'{"transition": [[[1]]], "reward": [[null]], "discount": 0.5}', "reward must hold numbers"),
        (b'{"transition": [[[1]]], "reward": [[0]], "discount": 0.5, "names": "x"}', "names must hold strings"),
        (b'{"transition": [[[1]]], "reward": [[1e999]], "discount": 0.5}', "not finite"),
        (b'{"transition": [[[1]]], "reward": [[1' + b"0" * 400 + b']], "discount": 0.5}', "not finite"),
    ],
)
def test_broken_json(tmp_path, text, message):
    path = tmp_path / "it.json"
    path.write_bytes(text)
    refused(path, message)


def test_npz_that_is_no_archive(tmp_path):
    path = tmp_path / "it.npz"
    for content in (b"", b"words", json.dumps(DENSE).encode()):
        path.write_bytes(content)
        refused(path, "is not an .npz archive")
    array = io.BytesIO()
    np.save(array, np.ones(3))
    path.write_bytes(array.getvalue())
    refused(path, "is not an .npz archive")


def test_archive_of_other_things(tmp_path):
    path = tmp_path / "it.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("transition", "words")
        archive.writestr("reward.npy", "words")
        archive.writestr("discount.npy", "")
    refused(path, "reward|discount|npz")


def test_pickles_are_not_read(tmp_path):
    path = tmp_path / "it.npz"
    np.savez(path, transition=np.array([{"a": 1}], dtype=object), reward=np.ones((1, 1)), discount=np.array(0.5))
    refused(path, "transition holds Python objects")


def reading(path):
    try:
        reward = load(path).mdp.reward
    except ValueError as error:
        text = str(error)
        return "refused" if text.startswith(f"{path}: ") and "\n" not in text else text
    return "as it was" if np.array_equal(reward, PROBLEMS["names and policy"].mdp.reward) else reward


def test_truncated_and_flipped_archives(tmp_path):
    """Wherever an archive is cut, and whichever bytes are off, it is refused in one line or read as it was."""
    path = tmp_path / "it.npz"
    save(path, PROBLEMS["names and policy"])
    whole = path.read_bytes()
    for cut in range(0, len(whole), 37):
        path.write_bytes(whole[:cut])
        refused(path, "npz")
    rng = np.random.default_rng(0)
    outcomes = []
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        outcomes.append(reading(path))
    assert set(outcomes) <= {"as it was", "refused"}
    assert outcomes.count("refused") > 100


def bomb(path, **shapes):
    """An archive of zeros, some kilobytes that unpack to as many bytes as the shapes say."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, shape in shapes.items():
            head = io.BytesIO()
            np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": shape})
            with archive.open(f"{name}.npy", "w") as member:
                member.write(head.getvalue())
                for _ in range(int(np.prod(shape)) * 8 // 2**20):
                    member.write(bytes(2**20))
    return path


def peak(call):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"it\.npz") as caught:
            call()
        return tracemalloc.get_traced_memory()[1], str(caught.value)
    finally:
        tracemalloc.stop()


def test_archives_are_refused_before_they_are_unpacked(tmp_path):
    """64 MB behind 64 kB: too large, or of a key that no problem has."""
    path = bomb(tmp_path / "it.npz", transition=(2048, 2, 2048), reward=(2048, 2), discount=())
    assert path.stat().st_size < 2**18
    needed = 8 * (2048 * 2 * 2048 + 2048 * 2 + 1)
    used, text = peak(lambda: load(path, max_bytes=2**20))
    assert used < 2**21
    assert text == f"{path}: max_bytes must be at least {needed} for these arrays, got 1048576"
    assert stored_states(path) == 2048
    path = bomb(tmp_path / "it.npz", transition=(1, 1, 1), reward=(1, 1), discount=(), more=(2048, 4096))
    used, text = peak(lambda: load(path))
    assert used < 2**21
    assert "has a key 'more'" in text


def test_how_many_states_an_archive_has_is_read_from_its_header(tmp_path):
    for name, fields in (("dense", DENSE), ("sparse", SPARSE)):
        assert stored_states(write(tmp_path / f"{name}.npz", fields)) == 2
    assert stored_states(write(tmp_path / "it.json", DENSE)) == 0
    assert stored_states(write(tmp_path / "odd.npz", SPARSE | {"num_states": [1, 2]})) == 0
    assert stored_states(write(tmp_path / "none.npz", {"a": 1})) == 0
    with pytest.raises(ValueError, match=r"gone.npz: No such file"):
        stored_states(tmp_path / "gone.npz")


def test_json_of_too_many_bytes_is_not_parsed(tmp_path):
    path = tmp_path / "it.json"
    path.write_text("[" * 1000)
    refused(path, "max_bytes must be at least 16000 for JSON of this length, got 15999", max_bytes=15_999)
    refused(path, "is not JSON", max_bytes=16_000)


def test_archives_of_many_members_are_refused(tmp_path):
    path = tmp_path / "it.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(1001):
            archive.writestr(f"{number}.npy", b"")
    refused(path, "holds 1001 members, more than 1000")


def test_long_integers_keep_their_digits_where_64_bits_hold_them(tmp_path):
    for number in (2**63 - 1, -(2**63), 1234567890123456789):
        path = write(tmp_path / "it.json", SPARSE | {"state": [0, 0, number]})
        refused(path, rf"state\[2\] = {number} is outside 0..1")


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("\ud800", r"names\[1\] must be text without control characters, got '\\ud800'"),
        ("a\x1b[31m", r"names\[1\] must be text without control characters, got 'a\\x1b\[31m'"),
        ("a\nb", r"names\[1\] must be text without control characters"),
        ("a" * 201, r"names\[1\] must have at most 200 characters, got 201"),
    ],
)
def test_names_that_cannot_be_shown_are_refused(tmp_path, suffix, name, message):
    if suffix == ".npz" and name == "\ud800":
        pytest.skip("NumPy writes no lone surrogate")
    refused(write(tmp_path / f"it{suffix}", DENSE | {"names": ["x", name]}), message)


def test_names_of_actions_are_kept(tmp_path):
    for ending in (".npz", ".json"):
        path = tmp_path / f"it{ending}"
        save(path, make("frozen-lake"))
        assert load(path).actions == ("←", "↓", "→", "↑")
