"""Sweeps as values: which cells they have, by hand, and what is refused."""

from dataclasses import replace

import pytest

from mico.deep.config.run import describe
from mico.deep.metric_losses import METRIC_LOSSES
from mico.sweeps.grid import Sweep, arms, cells, make_sweep


def found(**entries):
    """The cells of a sweep, without what they all share."""
    sweep = Sweep(**{"steps": 400, "env": ["mdp/two-state"]} | entries)
    return [(cell.agent, cell.metric, dict(cell.fields), cell.seed) for cell in cells(sweep)]


def test_the_least_sweep_is_one_run_of_dqn():
    (cell,) = cells(Sweep(400, "mdp/two-state"))
    assert (cell.env, cell.agent, cell.metric, cell.preset, cell.fields, cell.seed) == (
        "mdp/two-state", "dqn", "none", None, (), 0
    )  # fmt: skip


def test_every_combination_is_there_once():
    grid = found(agent=["dqn", "iqn"], metric=["mico", "ksme"], seeds=[3, 5], fields={"metric.alpha": [0.1, 0.2]})
    assert len(grid) == len({str(cell) for cell in grid}) == 2 * 2 * 2 * 2
    assert grid[:3] == [
        ("dqn", "mico", {"metric.alpha": 0.1}, 3),
        ("dqn", "mico", {"metric.alpha": 0.1}, 5),
        ("dqn", "mico", {"metric.alpha": 0.2}, 3),
    ]
    assert grid[-1] == ("iqn", "ksme", {"metric.alpha": 0.2}, 5)


@pytest.mark.parametrize("steps", ["200k", "1e3", 1e6, "2M"])
def test_steps_are_counts(steps):
    meant = {"200k": 200_000, "1e3": 1_000, 1e6: 1_000_000, "2M": 2_000_000}
    sweep = make_sweep({"steps": steps, "env": "mdp/two-state"})
    assert sweep == Sweep(meant[steps], ("mdp/two-state",))
    assert type(sweep.steps) is int


def test_what_does_not_apply_does_not_multiply():
    grid = found(
        agent=["dqn", "qr-dqn"],
        metric=["none", "mico"],
        fields={"metric.alpha": [0.1, 0.2], "agent.num_quantiles": [4, 8, 16]},
    )
    count = {("dqn", "none"): 1, ("dqn", "mico"): 2, ("qr-dqn", "none"): 3, ("qr-dqn", "mico"): 6}
    for (agent, metric), expected in count.items():
        own = [cell for cell in grid if cell[:2] == (agent, metric)]
        assert len(own) == expected
        names = {name for cell in own for name in cell[2]}
        assert ("metric.alpha" in names) == (metric == "mico")
        assert ("agent.num_quantiles" in names) == (agent == "qr-dqn")


def test_variants_are_arms_one_at_a_time():
    grid = found(
        metric=["none", "mico"],
        fields={"metric.alpha": [0.1, 0.2]},
        variants=[{}, {"metric.error": "squared"}, {"metric.second": "online"}],
    )
    assert grid == [
        ("dqn", "none", {}, 0),
        ("dqn", "mico", {"metric.alpha": 0.1}, 0),
        ("dqn", "mico", {"metric.alpha": 0.2}, 0),
        ("dqn", "mico", {"metric.alpha": 0.1, "metric.error": "squared"}, 0),
        ("dqn", "mico", {"metric.alpha": 0.2, "metric.error": "squared"}, 0),
        ("dqn", "mico", {"metric.alpha": 0.1, "metric.second": "online"}, 0),
        ("dqn", "mico", {"metric.alpha": 0.2, "metric.second": "online"}, 0),
    ]


def test_nested_names_are_dotted_ones():
    sweep = Sweep(400, "mdp/two-state", metric="mico", fields={"metric": {"alpha": [0.5], "beta": 1}})
    assert sweep.fields == {"metric.alpha": (0.5,), "metric.beta": (1,)}
    assert [dict(cell.fields) for cell in cells(sweep)] == [{"metric.alpha": 0.5, "metric.beta": 1.0}]


def test_arms_are_told_apart_by_what_has_several_values():
    fields = {"metric.alpha": [0.1, 0.2], "schedule.epsilon": [0.1]}
    variants = [{"metric.beta": 1.0}, {"metric.beta": 1.0, "metric.error": "squared"}]
    assert arms(Sweep(400, "mdp/two-state", fields=fields, variants=variants)) == ["metric.alpha", "metric.error"]


def test_a_sweep_comes_back_from_json():
    sweep = Sweep(
        400, ["mdp/two-state"], metric=["none", "mico"], preset="table", fields={"metric.alpha": [0.1]},
        variants=[{}, {"metric.error": "squared"}],
    )  # fmt: skip
    assert Sweep(**sweep.as_json()) == sweep


def test_a_cell_makes_the_run_that_it_says():
    fields = {"metric.alpha": [0.25], "agent.horizon": [2], "schedule.log_period": [40]}
    (cell,) = cells(Sweep(400, "mdp/frozen-lake", metric="mico", seeds=[7], fields=fields))
    run = cell.shape.run(dict(cell.fields), cell.seed)
    described = describe(run)
    assert run.metric == METRIC_LOSSES["mico"](alpha=0.25)
    assert (described["agent"]["horizon"], described["schedule"]["log_period"], run.seed) == (2, 40, 7)
    assert described["env"]["name"] == "mdp/frozen-lake"
    usual = cells(Sweep(400, "mdp/frozen-lake", metric="mico", seeds=[7]))[0].shape.run({}, 7)
    assert (run.network, run.replay) == (usual.network, usual.replay)


def test_fields_of_one_metric_loss_are_of_its_runs_alone():
    """They take the place of a field of all runs, several of them multiply, and other losses know nothing of them."""
    sweep = Sweep(
        400, "mdp/two-state", metric=["none", "mico", "ksme"],
        fields={"agent.horizon": [2], "metric.alpha": [0.1]},
        fields_by_metric={"none": {"agent.horizon": 1}, "mico": {"metric.alpha": [0.2, 0.3], "metric.beta": 1}},
    )  # fmt: skip
    assert {(cell.metric, cell.fields) for cell in cells(sweep)} == {
        ("none", (("agent.horizon", 1),)),
        ("mico", (("agent.horizon", 2), ("metric.alpha", 0.2), ("metric.beta", 1.0))),
        ("mico", (("agent.horizon", 2), ("metric.alpha", 0.3), ("metric.beta", 1.0))),
        ("ksme", (("agent.horizon", 2), ("metric.alpha", 0.1))),
    }
    assert len(cells(sweep)) == 4
    assert arms(sweep) == ["metric.alpha"]
    assert Sweep(**sweep.as_json()) == sweep
    assert {cell.metric for cell in cells(replace(sweep, metric=["ksme"]))} == {"ksme"}


def test_the_preset_is_that_of_the_family_or_the_given_one():
    by_family, by_name = (cells(Sweep(400, "minatar/breakout", preset=preset))[0] for preset in (None, "atari"))
    assert by_family.shape.run({}, 0).replay.capacity == 100_000
    assert by_name.shape.run({}, 0).replay.capacity == 1_000_000


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"steps": 1.5}, r"steps must be a whole number .*, got 1\.5"),
        ({"env": []}, "env must have at least one value, got none"),
        ({"env": ["minatar/breakout", "minatar/breakout"]}, "env 'minatar/breakout' is given twice"),
        ({"env": ["minatr/breakout"]}, "env 'minatr/breakout' is no environment: did you mean minatar/breakout"),
        ({"env": ["mdp/two-stat"]}, "env 'mdp/two-stat' is no problem: did you mean two-state"),
        ({"agent": ["dqm"]}, "agent 'dqm' is unknown: did you mean dqn"),
        ({"agent": [3]}, "agent must be names, got 3"),
        ({"metric": ["mic"]}, "metric 'mic' is unknown: did you mean mico"),
        ({"seeds": []}, "seeds must have at least one value, got none"),
        ({"seeds": [1, 2, 1]}, "seed 1 is given twice"),
        ({"seeds": [0, -1]}, r"seeds must lie in \[0, 2³¹\), got -1"),
        ({"seeds": ["one"]}, "seeds must be whole numbers, got 'one'"),
        ({"preset": "tabel"}, "preset 'tabel' is unknown: did you mean table"),
        ({"preset": 3}, "preset must be a name, got 3"),
        ({"fields": {"metric.alpha": []}}, "metric.alpha must have at least one value, got none"),
        ({"fields": {"metric.alpha": [0.1, 0.1]}}, "metric.alpha 0.1 is given twice"),
        ({"fields": {"metric.alpha": [1, 1.0]}}, "metric.alpha 1.0 is given twice"),
        ({"fields": {"metric.alhpa": [1]}}, "metric.alhpa is no field of any run of this sweep: did you mean metric"),
        ({"fields": {"metric.alpha": ["much"]}}, "alpha cannot be 'much': it is a number"),
        ({"fields": {"metric.error": ["hubr"]}}, "error cannot be 'hubr': it is one of huber, squared"),
        ({"fields": {"replay.capacity": [1.5]}}, "capacity cannot be 1.5: it is a whole number"),
        ({"fields": {"replay.capacity": [True]}}, "capacity cannot be True: it is a whole number"),
        ({"fields": ["metric.alpha"]}, r"fields must give values to names of fields, got \['metric.alpha'\]"),
        ({"metric": ["none"], "fields": {"metric.alpha": [1]}}, "metric.alpha is no field of any run of this sweep"),
        ({"fields_by_metric": ["mico"]}, r"fields_by_metric must give fields to names of metric losses"),
        ({"fields_by_metric": {"mic": {}}}, "fields_by_metric has metric 'mic', which is unknown: did you mean mico"),
        ({"fields_by_metric": {"mico": 3}}, "fields_by_metric.mico must give values to names of fields, got 3"),
        ({"fields_by_metric": {"mico": {"metric.alhpa": 1}}}, "metric.alhpa is no field of any run of this sweep"),
        (
            {"fields_by_metric": {"mico": {"metric.beta": 1}}, "variants": [{"metric.beta": 2}]},
            "metric.beta is one of the fields, and a variant sets it too",
        ),
        ({"variants": []}, "variants must have at least one value, got none"),
        ({"variants": ["metric.error"]}, "variants must give values to names of fields, got 'metric.error'"),
        ({"variants": [{}, {"metric.eror": "huber"}]}, "metric.eror is no field of any run of this sweep"),
        (
            {"fields": {"metric.beta": [1]}, "variants": [{"metric.beta": 2}]},
            "metric.beta is one of the fields, and a variant sets it too",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_named(entries, message, unchecked):
    with pytest.raises(ValueError, match=message):
        cells(Sweep(**{"steps": 400, "env": ["mdp/two-state"], "metric": ["mico"]} | entries))
