"""The manifest: what a sweep's fleets are is written down, kept, and only ever added to."""

import json

import pytest

from mico.sweeps.files import entries
from mico.sweeps.grid import cells, make_sweep
from mico.sweeps.manifest import Limits, planned
from small_sweeps import UNLIMITED, begun, small_sweep

ALPHAS = {"metric.alpha": [0.1, 0.2]}


def test_it_says_what_is_run_and_how(tmp_path):
    sweep = small_sweep(fields=ALPHAS)
    fleets = begun(sweep, tmp_path)
    found = json.loads((tmp_path / "sweep.json").read_text())
    assert found["sweep"] == json.loads(json.dumps(sweep.as_json()))
    assert [fleet["name"] for fleet in found["fleets"]] == [
        "000-mdp-frozen-lake-dqn-none-mico", "001-mdp-two-state-dqn-none-mico"
    ]  # fmt: skip
    assert [fleet["bytes"] for fleet in found["fleets"]] == [fleet.size for fleet in fleets]
    baseline, _, arm, *_ = found["fleets"][0]["runs"]
    assert (baseline["name"], baseline["metric"], baseline["seed"]) == ("dqn-none-seed0", "none", 0)
    assert baseline["computed_as"] == "mico with alpha 0"
    assert "metric.alpha" not in baseline["fields"]
    assert (arm["name"], arm["fields"]["metric.alpha"]) == ("dqn-mico-alpha0.1-seed0", 0.1)
    assert "computed_as" not in arm


def test_fleets_are_kept_whatever_the_limits_are_by_now(tmp_path):
    sweep = small_sweep(fields=ALPHAS)
    fleets = begun(sweep, tmp_path, Limits(None, 3))
    assert len(fleets) == 4
    for limits in (UNLIMITED, Limits(None, 1), Limits(20_000, None)):
        assert planned(sweep, tmp_path, limits) == fleets
    assert [fleet.runs() for fleet in planned(sweep, tmp_path, UNLIMITED)] == [fleet.runs() for fleet in fleets]


def test_another_folder_may_begin_with_the_same_fleets(tmp_path):
    sweep = small_sweep(fields=ALPHAS)
    fleets = begun(sweep, tmp_path / "old", Limits(None, 3))
    manifest = tmp_path / "old/sweep.json"
    assert planned(sweep, tmp_path / "new", UNLIMITED, manifest) == fleets != planned(sweep, None, UNLIMITED)
    assert make_sweep(entries(str(manifest))) == sweep
    other = small_sweep(fields=ALPHAS, seeds=[5, 6])
    assert planned(other, tmp_path / "new", UNLIMITED, manifest) == planned(other, None, UNLIMITED)


def test_cells_whose_results_are_elsewhere_get_no_fleet_but_stay_in_those_that_are_there(tmp_path):
    sweep = small_sweep(fields=ALPHAS)
    known = [cell for cell in cells(sweep) if cell.seed == 0]
    fleets = planned(sweep, None, UNLIMITED, without=known)
    assert {member.cell for fleet in fleets for member in fleet.members} == set(cells(sweep)) - set(known)
    there = begun(sweep, tmp_path)
    assert planned(sweep, tmp_path, UNLIMITED, without=known) == there


@pytest.mark.parametrize(
    "more",
    [
        {"seeds": [0, 1, 2]},
        {"env": ["mdp/frozen-lake", "mdp/two-state", "mdp/five-state"]},
        {"agent": ["dqn", "qr-dqn"]},
        {"metric": ["none", "mico", "ksme"]},
        {"metric": ["none", "mico", "ksme"], "fields_by_metric": {"ksme": {"metric.alpha": 0.5}}},
        {"fields": {"metric.alpha": [0.3, 0.2, 0.1]}},
    ],
)
def test_more_of_what_there_is_becomes_further_fleets(tmp_path, more):
    before = begun(small_sweep(fields=ALPHAS), tmp_path)
    larger = small_sweep(**{"fields": ALPHAS} | more)
    fleets = begun(larger, tmp_path)
    assert fleets[: len(before)] == before
    assert len(fleets) > len(before)
    every = [member.cell for fleet in fleets for member in fleet.members]
    assert len(every) == len(set(every))
    assert set(every) == {member.cell for fleet in planned(larger, None, UNLIMITED) for member in fleet.members}
    assert [fleet.name[:3] for fleet in fleets] == [f"{index:03}" for index in range(len(fleets))]
    assert planned(larger, tmp_path, UNLIMITED) == fleets


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"steps": 800}, "steps is 800, but the sweep here was made with 400"),
        ({"preset": "vector"}, "preset is 'vector', but the sweep here was made with not given"),
        ({"seeds": [1, 2]}, "seeds is 1, 2, but the sweep here was made with 0, 1"),
        ({"env": ["mdp/two-state"]}, "env is mdp/two-state, but the sweep here was made with mdp/frozen-lake, mdp/two"),
        ({"metric": ["mico"]}, "metric is mico, but the sweep here was made with none, mico"),
        ({"agent": ["qr-dqn"]}, "agent is qr-dqn, but the sweep here was made with dqn"),
        ({"fields": ALPHAS | {"metric.alpha": [0.1]}}, "metric.alpha is 0.1, but the sweep here was made with 0.1"),
        ({"fields": {}}, "metric.alpha is not given, but the sweep here was made with 0.1, 0.2"),
        ({"fields": ALPHAS | {"metric.beta": [1, 2]}}, "metric.beta is 1, 2, but the sweep here was made with not"),
        ({"fields": ALPHAS | {"network.width": [8, 16]}}, "network.width is 8, 16, but the sweep here was made with 8"),
        ({"fields_by_metric": {"mico": {"metric.beta": 1}}}, "metric.beta is 1, but the sweep here was made with not"),
        ({"fields_by_metric": {"none": {"network.width": 9}}}, "network.width is 9, but the sweep here was"),
        ({"variants": [{}, {"metric.beta": 1.0}]}, "variants is {}, {'metric.beta': 1.0}, but the sweep here was made"),
    ],
)  # fmt: skip
def test_another_sweep_is_refused_and_the_field_named(tmp_path, other, message):
    begun(small_sweep(fields=ALPHAS), tmp_path)
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 the message is compared below
        planned(small_sweep(**{"fields": ALPHAS} | other), tmp_path, UNLIMITED)
    assert str(refusal.value).startswith(message)


def test_folders_that_are_no_sweeps_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=r"is not empty and contains no sweep, but notes.txt: choose"):
        planned(small_sweep(), tmp_path, UNLIMITED)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"sweep": {"steps": 3}, "fleets": []}', '{"sweep": 1}'])
def test_a_damaged_manifest_is_named(tmp_path, text):
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(ValueError, match=r"sweep.json is not the manifest of a sweep: "):
        planned(small_sweep(), tmp_path, UNLIMITED)
