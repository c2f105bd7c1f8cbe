"""`mico explore`: the page holds what the library gives; what is too much is left out or refused."""

import base64
import json
import os
import re

import numpy as np
import pytest

from mico import cli
from mico.cli import explore
from mico.cli.text import PlainConsole
from mico.tabular import METRICS, make, optimal_policy, optimal_value, random_policy, save, solve
from mico.tabular.diagnostics import value_bound


def data(path):
    """What the page holds."""
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def unpacked(packed, *shape, kind="<f4"):
    return np.frombuffer(base64.b64decode(packed), kind).reshape(shape)


@pytest.fixture
def explored(capsys, tmp_path, monkeypatch):
    """Run `mico explore` in an empty folder: what it printed, and what the page holds."""
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        cli.main(["explore", *argv])
        return capsys.readouterr().out, data(tmp_path / "explore.html")

    return run


@pytest.fixture
def fails(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        with pytest.raises(SystemExit, match=r"^2$"):
            cli.main(["explore", *argv])
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        return printed.err

    return run


def test_every_metric_with_its_values_and_bound(explored):
    printed, held = explored("garnet", "--seed", "0", "--num-states", "5", "--discount", "0.8", "--policy", "optimal")
    mdp = make("garnet", seed=0, num_states=5, discount=0.8).mdp
    policy = optimal_policy(mdp)
    assert [metric["name"] for metric in held["metrics"]] == list(METRICS)
    for metric in held["metrics"]:
        on_policy = METRICS[metric["name"]].on == "policy"
        solution = solve(metric["name"], mdp, policy if on_policy else None)
        value = mdp.chain(policy).value() if on_policy else optimal_value(mdp)
        bound = value_bound(solution.matrix, value, error=solution.error)
        assert unpacked(metric["distance"], 5, 5) == pytest.approx(solution.matrix, rel=1e-6, abs=1e-9)
        assert unpacked(metric["value"], 5, kind="<f8") == pytest.approx(value, rel=1e-12)
        assert (metric["error"], metric["broken"], metric["gap"]) == (solution.error, *bound)
    assert (held["states"], held["actions"], held["discount"], held["policy"]) == (5, 4, 0.8, "optimal")
    assert held["facts"] == {"seed": "0", "branching": "printed"}
    assert "wrote explore.html" in printed


def test_the_plane_of_each_metric(explored):
    """MICo's points keep ΠU itself, others the metric; value does not fall from left to right."""
    _, held = explored("mirrored-rooms")
    kinds = {metric["name"]: metric["plane"]["kind"] for metric in held["metrics"]}
    assert kinds == {name: "exact" if name in ("mico", "reduced-mico") else "scaling" for name in METRICS}
    of = {metric["name"]: metric for metric in held["metrics"]}
    assert unpacked(of["mico"]["plane"]["points"], 31, 2) == pytest.approx(
        unpacked(of["reduced-mico"]["plane"]["points"], 31, 2), abs=1e-5
    )
    for metric in held["metrics"]:
        points, value = unpacked(metric["plane"]["points"], 31, 2), unpacked(metric["value"], 31, kind="<f8")
        assert np.corrcoef(points[:, 0], value)[0, 1] > 0
        assert 0 < metric["plane"]["kept"] <= 1


def test_a_line_is_kept_whole_by_its_plane(explored):
    """Two states: one axis has all there is, at distance √ΠU = √(40/31) and d = 20/11 apart."""
    _, held = explored("two-state", "--metrics", "mico", "reward-law")
    for metric, apart in zip(held["metrics"], ((40 / 31) ** 0.5, 20 / 11), strict=True):
        points = unpacked(metric["plane"]["points"], 2, 2)
        assert np.linalg.norm(points[0] - points[1]) == pytest.approx(apart, abs=1e-6)
        assert metric["plane"]["kept"] == pytest.approx(1.0)
        assert metric["plane"]["ranks"] is None


def test_chosen_metrics_in_their_order_once(explored):
    _, held = explored("two-state", "--metrics", "reward-law", "mico", "mico")
    assert [metric["name"] for metric in held["metrics"]] == ["reward-law", "mico"]


def test_policies(explored):
    mdp = make("mirrored-rooms").mdp
    _, held = explored("mirrored-rooms", "--metrics", "mico", "--policy", "random", "--policy-seed", "4")
    value = mdp.chain(random_policy(mdp, seed=4)).value()
    assert unpacked(held["metrics"][0]["value"], 31, kind="<f8") == pytest.approx(value, rel=1e-12)
    assert held["policy"] == "random, seed 4"
    _, uniform = explored("mirrored-rooms", "--metrics", "mico")
    assert unpacked(uniform["metrics"][0]["value"], 31, kind="<f8") == pytest.approx(
        mdp.chain("uniform").value(), rel=1e-12
    )


def test_a_file_with_a_map(explored, tmp_path):
    save(tmp_path / "mine.json", make("mirrored-rooms"))
    _, held = explored("mine.json", "--metrics", "mico", "--discount", "0.5")
    layout = make("mirrored-rooms").layout
    assert (held["title"], held["discount"], held["facts"]) == ("mine", 0.5, {})
    assert held["cells"] == layout.cells.tolist()
    assert held["goals"] == list(layout.goals)


def test_tolerance(explored):
    errors = []
    for tolerance in ("1e-2", "1e-6"):
        _, held = explored("four-rooms", "--metrics", "reward-law", "--tolerance", tolerance)
        errors.append(held["metrics"][0]["error"])
    assert errors[1] <= 1e-6 < errors[0] <= 1e-2


def test_slow_metrics_of_many_states_are_left_out_unless_named(explored):
    printed, held = explored("mirrored-rooms", "--max-transport-states", "30")
    slow = {"pi-bisimulation", "bisimulation", "lax-bisimulation"}
    assert {metric["name"] for metric in held["metrics"]} == set(METRICS) - slow
    assert f"left out {held['leftOut']}\n" in printed
    assert slow < set(re.findall(r"[a-z-]+", held["leftOut"]))
    assert "31 states are more than --max-transport-states 30" in held["leftOut"]
    printed, held = explored("mirrored-rooms", "--max-transport-states", "30", "--metrics", "bisimulation")
    assert [metric["name"] for metric in held["metrics"]] == ["bisimulation"]
    assert "left out" not in printed
    assert held["leftOut"] is None


def test_more_states_than_a_page_should_hold(fails):
    assert "max_states is 30, and mirrored-rooms has 31 states" in fails("mirrored-rooms", "--max-states", "30")


def test_bad_input(fails, tmp_path):
    assert "PROBLEM" in fails()
    assert "four-rooms" in fails("four-roms")
    assert "--metrics must be one of mico, " in fails("two-state", "--metrics", "mico", "micco")
    assert "got 'micco'" in fails("two-state", "--metrics", "mico", "micco")
    assert "tolerance" in fails("two-state", "--tolerance", "0")
    assert "--policy-seed" in fails("two-state", "--policy", "random")
    assert "nowhere.json: No such file" in fails("nowhere.json")
    np.save(tmp_path / "pi.npy", np.full((3, 2), 0.5))
    assert "policy" in fails("two-state", "--metrics", "bisimulation", "--policy", "pi.npy")
    assert not (tmp_path / "explore.html").exists()


def test_paths_that_cannot_be_written(fails, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    assert "file: Not a directory" in fails("two-state", "--out", "file/page.html")
    assert "folder: Is a directory" in fails("two-state", "--out", "folder")
    assert os.listdir(tmp_path / "folder") == []


def test_what_is_no_page_is_not_replaced(fails, explored, tmp_path):
    (tmp_path / "notes.html").write_text("<title>keep</title>")
    assert "notes.html: is there already, and is no page of mico explore" in fails("two-state", "--out", "notes.html")
    assert (tmp_path / "notes.html").read_text() == "<title>keep</title>"
    (tmp_path / "explore.html").touch()  # which holds nothing
    assert explored("two-state")[1]["title"] == "two-state"


def test_distances_beyond_single_precision(fails, explored, tmp_path):
    """Rewards 0 and r at γ = ½: no distance is more than 2r, and 2¹²⁸ is just too large."""
    mdp = {"transition": [[[1, 0]], [[0, 1]]], "discount": 0.5}
    (tmp_path / "largest.json").write_text(json.dumps({**mdp, "reward": [[0], [2.0**126]]}))
    _, held = explored("largest.json", "--metrics", "mico", "--tolerance", "1e30")
    assert unpacked(held["metrics"][0]["distance"], 2, 2) == pytest.approx(2.0**127 * (1 - np.eye(2)), abs=1e31)
    (tmp_path / "beyond.json").write_text(json.dumps({**mdp, "reward": [[0], [2.0**127]]}))
    message = "reward spans 0 to 1.70141e+38, too far for a page, where distances end at 3.4e+38"
    assert message in fails("beyond.json", "--metrics", "mico", "--tolerance", "1e30")


def test_a_page_is_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "new" / "page.html"
    cli.main(["explore", "two-state", "--metrics", "mico", "--out", str(path)])
    old = path.read_bytes()

    def broken(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", broken)
        with pytest.raises(SystemExit, match=r"^2$"):
            cli.main(["explore", "two-state", "--metrics", "reward-law", "--out", str(path)])
    assert (path.read_bytes(), os.listdir(path.parent)) == (old, ["page.html"])
    cli.main(["explore", "two-state", "--metrics", "reward-law", "--out", str(path)])
    assert data(path)["metrics"][0]["name"] == "reward-law"


def test_a_terminal_sees_which_metric_is_at_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        explore, "PlainConsole", lambda **options: PlainConsole(force_terminal=True, width=100, **options)
    )
    cli.main(["explore", "two-state", "--metrics", "mico", "reward-law", "--out", str(tmp_path / "page.html")])
    assert "reward-law, 2 of 2" in capsys.readouterr().out
