"""`mico metric`: its files hold what the library gives, its summary what the paper says."""

import csv
import json

import numpy as np
import pytest

from mico import cli
from mico.tabular import Solution, make, optimal_policy, random_policy, save, solve


@pytest.fixture
def metric(capsys, tmp_path, monkeypatch):
    """Run `mico metric` in an empty folder: what it printed, and where its files are."""
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        cli.main(["metric", *argv])
        return capsys.readouterr().out, tmp_path / "out"

    return run


def test_the_papers_two_states(metric):
    """U(x, y) = |ΔV| = 20/11, U(x, x) = 360/341, U(y, y) = 0."""
    printed, out = metric("two-state")
    with (out / "two-state-mico.csv").open() as file:
        table = {(line["x"], line["y"]): float(line["distance"]) for line in csv.DictReader(file)}
    by_hand = {("x", "x"): 360 / 341, ("x", "y"): 20 / 11, ("y", "x"): 20 / 11, ("y", "y"): 0.0}
    assert table == pytest.approx(by_hand, abs=1e-9)
    words = " ".join(printed.split())
    assert "states 2 actions 1 discount 0.9" in words
    assert f"self-distances 0 to {360 / 341:.4g}" in words
    assert f"|ΔV| ≤ d holds for all pairs; the mean of d − |ΔV| is {90 / 341:.4g}" in words
    assert "kinds partial-metric, diffuse-metric" in words
    assert "axioms that fail zero-self-distance" in words


def test_the_archive_holds_the_distance_and_what_it_is_of(metric):
    _, out = metric("garnet", "--seed", "3", "--num-states", "7", "--metric", "reduced-mico", "--discount", "0.8")
    mdp = make("garnet", seed=3, num_states=7, discount=0.8).mdp
    expected = solve("reduced-mico", mdp)
    stored = np.load(out / "garnet-reduced-mico.npz", allow_pickle=False)
    assert np.array_equal(stored["matrix"], expected.matrix)
    assert (stored["error"], stored["iterations"]) == (expected.error, expected.iterations)
    assert (stored["metric"], stored["problem"], stored["reward"]) == ("reduced-mico", "garnet", "mean")
    assert stored["discount"] == 0.8
    assert np.array_equal(stored["policy"], np.full((7, 4), 0.25))
    options = {"seed": 3, "num_states": 7, "num_actions": 4, "discount": 0.8, "branching": "printed"}
    assert json.loads(stored["options"].item()) == options


def test_states_without_names_are_numbers_in_the_table(metric):
    _, out = metric("garnet", "--seed", "0", "--num-states", "5")
    value = solve("mico", make("garnet", seed=0, num_states=5).mdp).matrix
    with (out / "garnet-mico.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(int(line["x"]), int(line["y"])) for line in lines] == [(x, y) for x in range(5) for y in range(5)]
    assert [float(line["distance"]) for line in lines] == value.ravel().tolist()


def test_a_grid_has_a_map_as_well(metric):
    printed, out = metric("mirrored-rooms", "--state", "3", "--metric", "reward-law")
    name = "mirrored-rooms-reward-law"
    written = {path.name for path in out.iterdir()}
    assert written == {f"{name}{end}" for end in (".npz", ".csv", ".png", ".pdf", "-map.png", "-map.pdf")}
    assert "distances from state 3" in printed


def test_the_map_is_painted_from_the_goal_unless_a_state_is_given(metric):
    printed, _ = metric("open-grid", "--height", "2", "--width", "3", "--goal", "4")
    assert "distances from state 4" in printed


def test_the_same_command_writes_the_same_bytes(metric):
    _, out = metric("open-grid", "--height", "2", "--width", "3")
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    metric("open-grid", "--height", "2", "--width", "3")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


@pytest.mark.parametrize("more", [["--seed", "1"], ["--policy", "random", "--policy-seed", "1"], ["--discount", "0.5"]])
def test_files_of_another_question_are_replaced_with_a_word(metric, more):
    first, _ = metric("garnet", "--seed", "0", "--num-states", "5")
    again, _ = metric("garnet", "--seed", "0", "--num-states", "5")
    other, _ = metric("garnet", "--seed", "0", "--num-states", "5", *more)
    assert ["another measurement" in printed for printed in (first, again, other)] == [False, False, True]
    files = ", ".join(f"out/garnet-mico.{end}" for end in ("npz", "csv", "png", "pdf"))
    assert f"replaced what another measurement had written: {files}\n" in other


def test_counts_are_read_as_people_type_them(metric):
    _, out = metric("garnet", "--seed", "1e1", "--num-states", "5e0", "--max-states", "1k")
    assert np.load(out / "garnet-mico.npz")["matrix"].shape == (5, 5)
    assert json.loads(str(np.load(out / "garnet-mico.npz")["options"]))["seed"] == 10


@pytest.mark.parametrize("ending", [".npz", ".csv", "-map.pdf"])
def test_files_that_no_measurement_wrote_are_kept(metric, tmp_path, capsys, ending):
    """Somebody else's file of that name; an archive without what a measurement holds."""
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / f"mirrored-rooms-mico{ending}"
    if ending == ".npz":
        np.savez(file, mine=np.arange(3))
    else:
        file.write_text("mine")
    before = file.read_bytes()
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(["metric", "mirrored-rooms"])
    assert (
        f"out/mirrored-rooms-mico{ending}: is there already, and was not written by mico metric"
        in capsys.readouterr().err
    )
    assert file.read_bytes() == before
    assert list((tmp_path / "out").iterdir()) == [file]


@pytest.mark.parametrize(
    "wrong",
    [
        "--metric bisimulation --reward sampled",
        "--metric bisimulation --policy uniform",
        "--tolerance -1",
        "--state 999",
        "--policy shape.npy",
        "--policy problem",
        "--slip 2",
        "--discount 1",
        "--max-states 3",
    ],
)
def test_a_refused_command_leaves_nothing_behind(metric, tmp_path, capsys, wrong):
    np.save(tmp_path / "shape.npy", np.ones((2, 2)) / 2)
    for command, out in (("metric", "new/out"), ("explore", "new/page.html")):
        if command == "explore" and wrong.split()[0] in ("--metric", "--state"):
            continue
        with pytest.raises(SystemExit, match=r"^2$"):
            cli.main([command, "mirrored-rooms", *wrong.split(), "--out", out])
        assert capsys.readouterr().err.count("\n") == 1
        assert {path.name for path in tmp_path.iterdir()} == {"shape.npy"}


def test_a_gymnasium_environment_by_its_id(metric):
    printed, out = metric("FrozenLake-v1", "--discount", "0.5")
    assert "states 17" in " ".join(printed.split())
    assert {path.name for path in out.iterdir()} >= {"FrozenLake-v1-mico.npz", "FrozenLake-v1-mico-map.png"}


def test_files_of_one_stem_are_problems_of_their_own(metric, tmp_path):
    save(tmp_path / "mine.npz", make("two-state"))
    save(tmp_path / "mine.json", make("value-example"))
    metric("mine.npz")
    assert "replaced what another measurement had written: out/mine-mico.npz" in metric("mine.json")[0]


def test_a_table_that_stays_from_an_earlier_measurement_is_named(metric):
    metric("open-grid", "--height", "1", "--width", "3")
    printed, _ = metric("open-grid", "--height", "1", "--width", "301")
    assert "left what another measurement had written: out/open-grid-mico.csv\n" in printed


def test_files_are_replaced_whole(metric, monkeypatch):
    _, out = metric("open-grid", "--height", "1", "--width", "3")
    first = {path.name: path.read_bytes() for path in out.iterdir()}

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mico.runs.files.os.fsync", broken)
    with pytest.raises(SystemExit, match=r"^2$"):
        metric("open-grid", "--height", "1", "--width", "4")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_more_than_300_states_have_no_table(metric):
    printed, out = metric("open-grid", "--height", "1", "--width", "301")
    assert "left out out/open-grid-mico.csv: 301 states" in printed
    assert not (out / "open-grid-mico.csv").exists()
    assert np.load(out / "open-grid-mico.npz")["matrix"].shape == (301, 301)


def test_a_metric_of_the_mdp_alone_has_no_policy(metric):
    """The paper's example: $d^{\\sim} = 1/(1-\\gamma)$."""
    printed, out = metric("bound-example", "--metric", "bisimulation")
    stored = np.load(out / "bound-example-bisimulation.npz")
    assert stored["matrix"] == pytest.approx(np.array([[0, 10], [10, 0]]), abs=1e-8)
    assert "policy" not in stored
    assert "|ΔV*| ≤ d" in printed


def test_sampled_rewards(metric):
    """A fair coin: 0.5 / (1 − 0.9) from sampled rewards."""
    _, out = metric("random-reward", "--reward", "sampled")
    assert np.load(out / "random-reward-mico.npz")["matrix"] == pytest.approx(np.array([[5.0]]), abs=1e-8)


@pytest.mark.parametrize("ending", [".npz", ".json"])
def test_a_problem_from_a_file(metric, tmp_path, ending):
    """γ = 0.5: U(x, y) = 1 / (1 − γ/2) = 4/3."""
    save(tmp_path / f"mine{ending}", make("two-state"))
    _, out = metric(f"mine{ending}", "--discount", "0.5")
    stored = np.load(out / "mine-mico.npz")
    assert stored["discount"] == 0.5
    assert stored["matrix"][0, 1] == pytest.approx(4 / 3, abs=1e-8)


def test_policies_by_name(metric):
    rooms = make("mirrored-rooms").mdp
    expected = {"optimal": optimal_policy(rooms), "random": random_policy(rooms, seed=5)}
    for name, policy in expected.items():
        _, out = metric("mirrored-rooms", "--policy", name, *(["--policy-seed", "5"] if name == "random" else []))
        assert np.array_equal(np.load(out / "mirrored-rooms-mico.npz")["policy"], policy)


@pytest.mark.parametrize(("side", "gap"), [("printed", 10.0), ("mirrored", 20.0)])
def test_the_policy_that_a_problem_comes_with(metric, side, gap):
    """k = 2: U = |ΔV| = (k − 1)/(1 − γ) under the printed policy, k/(1 − γ) under the mirrored one."""
    _, out = metric("bound-example", "--policy", "problem", "--problem-policy", side)
    assert np.load(out / "bound-example-mico.npz")["matrix"][0, 1] == pytest.approx(gap, abs=1e-8)


def test_policies_from_files(metric, tmp_path):
    policy = np.array([[0.0, 1.0], [1.0, 0.0]])
    np.save(tmp_path / "pi.npy", policy)
    np.savez(tmp_path / "pi.npz", policy=policy)
    for file in ("pi.npy", "pi.npz"):
        _, out = metric("bound-example", "--policy", file)
        stored = np.load(out / "bound-example-mico.npz")
        assert np.array_equal(stored["policy"], policy)
        assert stored["matrix"][0, 1] == pytest.approx(10.0, abs=1e-8)


def test_a_folder_whose_name_looks_like_markup(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cli.main(["metric", "two-state", "--out", "a[/b]"])
    assert "wrote a[/b]/two-state-mico.npz" in capsys.readouterr().out


def test_a_batch_of_policies_in_a_file_is_refused(tmp_path, capsys):
    path = tmp_path / "batch.npy"
    np.save(path, np.ones((3, 2, 1)))
    with pytest.raises(SystemExit, match="2"):
        cli.main(["metric", "two-state", "--policy", str(path), "--out", str(tmp_path)])
    assert "policy must have shape [S, A], but has [3, 2, 1]" in capsys.readouterr().err


def test_a_wrong_metric_leaves_no_folder(tmp_path):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["metric", "two-state", "--metric", "micco", "--out", str(tmp_path / "new")])
    assert not (tmp_path / "new").exists()


def test_names_that_look_like_formulas(tmp_path):
    path = tmp_path / "money.json"
    path.write_text('{"transition": [[[1.0]]], "reward": [[1.0]], "discount": 0.5, "names": ["$\\\\frac{$"]}')
    cli.main(["metric", str(path), "--out", str(tmp_path)])
    assert (tmp_path / "money-mico.png").is_file()
    path.write_text('{"transition": [[[1.0]]], "reward": [[1.0]], "discount": 0.5, "names": ["=cmd()"]}')
    cli.main(["metric", str(path), "--out", str(tmp_path)])
    assert (tmp_path / "money-mico.csv").read_text().splitlines()[1].startswith("'=cmd(),'=cmd(),")


def test_an_archive_of_too_many_states_is_refused_before_it_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "mine.npz", make("mirrored-rooms"))
    monkeypatch.setattr("mico.tabular.problems.files.read_problem", lambda fields: pytest.fail("was built"))
    for command in ("metric", "explore"):
        with pytest.raises(SystemExit, match=r"^2$"):
            cli.main([command, "mine.npz", "--max-states", "30"])
        assert "max_states is 30, and mine has at least 31 states" in capsys.readouterr().err
        with pytest.raises(SystemExit, match=r"^2$"):
            cli.main([command, "mine.npz", "--max-bytes", "10"])
        assert "max_bytes must be at least" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"mine.npz"}


def test_the_archive_is_a_solution_that_can_be_loaded(metric):
    _, out = metric("mirrored-rooms", "--metric", "bisimulation")
    loaded, expected = (
        Solution.load(out / "mirrored-rooms-bisimulation.npz"),
        solve("bisimulation", make("mirrored-rooms")),
    )
    assert repr(loaded) == repr(expected)
    np.testing.assert_array_equal(loaded.matrix, expected.matrix)
