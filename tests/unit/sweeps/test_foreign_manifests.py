"""A sweep.json that somebody else wrote, or edited, leads to no other folder and is refused by what is wrong in it."""

import json
import re
from itertools import product

import pytest

from mico import cli
from mico.sweeps.manifest import read_manifest
from small_sweeps import pair_of_fleets


@pytest.fixture
def victim(tmp_path):
    """A folder of somebody, beside that of the sweep, and how it has to stay."""
    (tmp_path / "victim/params").mkdir(parents=True)
    (tmp_path / "victim/params/thesis.tex").write_text("years of work")
    yield tmp_path / "victim"
    files = [path for path in (tmp_path / "victim").rglob("*") if path.is_file()]
    assert [path.read_text() for path in files] == ["years of work"]


@pytest.mark.parametrize(
    ("place", "kind"),
    [*product(["fleet", "run"], ["above", "absolute", "parent"]), ("fleet", "status"), ("fleet", "sweep.json")],
)
def test_names_in_a_manifest_that_would_lead_elsewhere_are_refused(tmp_path, victim, capsys, place, kind):
    """A manifest of somebody else once had its fleets trained in other folders."""
    pair_of_fleets(tmp_path / "theirs")
    file = tmp_path / "theirs/sweep.json"
    found = json.loads(file.read_text())
    named = found["fleets"][1] if place == "fleet" else found["fleets"][1]["runs"][0]
    named["name"] = {"above": "../victim", "absolute": str(victim), "parent": ".."}.get(kind, kind)
    file.write_text(json.dumps(found))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    where = r"fleets\[1\]\." + ("" if place == "fleet" else r"runs\[0\]\.")
    for flags in (["--out", str(tmp_path / "mine")], ["--dry-run"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["sweep", str(file), *flags])
        printed = capsys.readouterr()
        assert (stop.value.code, printed.out) == (2, "")
        assert re.fullmatch(rf"mico: {file} is not the manifest of a sweep: {where}name must [^\n]+\n", printed.err)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["theirs", "victim"]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["sweep"], 5, "sweep must be an object, got 5"),
        (["sweep", "stepz"], 5, "'stepz' is no entry of a sweep: did you mean steps"),
        (["sweep", "env"], 5, "env must be names, got 5"),
        (["fleets"], {}, r"fleets must be a list, got \{\}"),
        (["fleets", 0], 5, r"fleets\[0\] must be an object, got 5"),
        (["fleets", 0, "name"], [], r"fleets\[0\]\.name must be text, got \[\]"),
        (["fleets", 0, "bytes"], {}, r"fleets\[0\]\.bytes must be a whole number, got \{\}"),
        (["fleets", 0, "runs"], [], r"fleets\[0\]\.runs must have at least one run"),
        (["fleets", 0, "runs", 1, "env"], [], r"fleets\[0\]\.runs\[1\]\.env must be text, got \[\]"),
        (["fleets", 0, "runs", 1, "seed"], True, r"runs\[1\]\.seed must be a whole number, got True"),
        (["fleets", 0, "runs", 1, "preset"], 5, r"runs\[1\]\.preset must be text or null, got 5"),
        (["fleets", 0, "runs", 1, "fields"], [], r"runs\[1\]\.fields must be an object, got \[\]"),
        (["fleets", 0, "runs", 1, "fields", "metric.alpha"], [1], r"fields\.metric\.alpha must be text, a number"),
        (["fleets", 0, "runs", 1, "name"], "dqn-none-seed0", r"runs\[1\]\.name must differ from those before"),
        (["fleets", 1, "name"], "000-mdp-two-state-dqn-none-mico", r"fleets\[1\]\.name must differ"),
    ],
)  # fmt: skip
def test_entries_of_a_manifest_that_are_of_the_wrong_type_are_named(tmp_path, place, value, message):
    pair_of_fleets(tmp_path)
    file = tmp_path / "sweep.json"
    found = entry = json.loads(file.read_text())
    for key in place[:-1]:
        entry = entry[key]
    entry[place[-1]] = value
    file.write_text(json.dumps(found))
    with pytest.raises(ValueError, match=rf"sweep\.json is not the manifest of a sweep: .*{message}"):
        read_manifest(file)


def test_a_manifest_that_is_nested_too_deeply_is_refused(tmp_path):
    (tmp_path / "sweep.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"sweep\.json is not the manifest of a sweep: "):
        read_manifest(tmp_path / "sweep.json")
