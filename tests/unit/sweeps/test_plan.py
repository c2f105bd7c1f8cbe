"""Fleets: every cell in one of them, none that mixes programs, and none larger than it may be."""

from collections import Counter

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mico._checks import check_plain_name
from mico.deep.fleet import jax_engine as stacking
from mico.deep.learner.state import init_state
from mico.deep.metric_losses import METRIC_LOSSES
from mico.deep.types import Spec
from mico.sweeps.grid import Sweep, cells
from mico.sweeps.plan import plan
from small_sweeps import FIELDS, small_sweep


def planned(sweep, memory=None, max_runs=None):
    return plan(sweep, cells(sweep), memory=memory, max_runs=max_runs)


def several(values):
    return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True)


@given(
    env=several(["mdp/two-state", "mdp/frozen-lake"]),
    agent=several(["dqn", "qr-dqn"]),
    metric=several(["none", "mico", "ksme", "simsr"]),
    seeds=several([0, 1, 2]),
    alpha=several([0.0, 0.1, 0.5]),
    horizon=several([1, 2]),
    max_runs=st.sampled_from([None, 1, 2, 5]),
)
def test_every_cell_is_in_one_fleet_and_no_fleet_mixes_programs(max_runs, alpha, horizon, **entries):
    fields = {"agent.horizon": horizon} | ({"metric.alpha": alpha} if set(entries["metric"]) - {"none"} else {})
    sweep = small_sweep(fields=fields, **entries)
    fleets = planned(sweep, max_runs=max_runs)
    members = Counter(member.cell for fleet in fleets for member in fleet.members)
    assert members == Counter(cells(sweep))
    assert len({fleet.name for fleet in fleets}) == len(fleets)
    for fleet in fleets:
        runs = fleet.runs()
        assert len({jax.tree.structure(run) for run in runs}) == 1
        assert len({run.env.name for run in runs}) == 1
        assert len({member.name for member in fleet.members}) == len(runs) <= (max_runs or len(runs))
    if max_runs is None:  # what can share a program does
        structures = [jax.tree.structure(fleet.runs()[0]) for fleet in fleets]
        assert len(set(structures)) == len(structures)


def test_a_baseline_shares_the_program_of_a_metric_loss_with_weight_0():
    (fleet,) = planned(small_sweep(env="mdp/two-state", fields={"metric.alpha": [0.1, 0.2], "metric.beta": [0.5]}))
    assert fleet.shared() == "mico"
    for member, run, label in zip(fleet.members, fleet.runs(), fleet.labels(), strict=True):
        alpha = dict(member.cell.fields).get("metric.alpha", 0.0)
        assert run.metric == METRIC_LOSSES["mico"](alpha=alpha, beta=0.5)
        baseline = member.cell.metric == "none"
        assert label.varied == ({} if baseline else {"metric.alpha": alpha})
        assert (label.settings["metric"] is None) == baseline
        assert label.name == (f"dqn-none-seed{run.seed}" if baseline else f"dqn-mico-alpha{alpha}-seed{run.seed}")
    stacking.stack(fleet.runs())


def test_a_baseline_joins_one_metric_loss_of_several():
    mico, ksme = planned(small_sweep(env="mdp/two-state", metric=["none", "mico", "ksme"]))
    assert [len(fleet.members) for fleet in (mico, ksme)] == [4, 2]
    assert (mico.shared(), ksme.shared()) == ("mico", None)
    (alone,) = planned(small_sweep(env="mdp/two-state", metric=["none"]))
    assert alone.shared() is None
    assert [run.metric for run in alone.runs()] == [None, None]


def test_a_metric_loss_with_parameters_of_its_own_takes_no_baseline():
    fleets = planned(small_sweep(env="mdp/two-state", metric=["none", "dbc"]))
    assert [{member.cell.metric for member in fleet.members} for fleet in fleets] == [{"none"}, {"dbc"}]
    for name, loss in METRIC_LOSSES.items():
        own = loss().init(jax.random.key(0), 3, Spec((2,), "float32", 2))
        fleets = planned(small_sweep(env="mdp/two-state", metric=["none", name]))
        assert len(fleets) == (1 if own is None else 2)


def test_critics_that_leave_the_representation_to_a_metric_loss_can_be_swept():
    """Such a run is none without its metric loss, so it is compared with others by its other parts."""
    own = {"agent.critics_read": ["actor"], "metric.variant": ["rewrite"]}
    entries = {"env": ["gym/Pendulum-v1"], "agent": ["sac"], "seeds": [0, 1]}
    (fleet,) = planned(Sweep(400, metric=["dbc"], fields=own, **entries))
    assert [(run.agent.critics_read, run.metric.variant) for run in fleet.runs()] == [("actor", "rewrite")] * 2
    fleets = planned(Sweep(400, metric=["none", "mico", "dbc"], fields_by_metric={"dbc": own}, **entries))
    assert [{(run.agent.critics_read, type(run.metric).__name__) for run in fleet.runs()} for fleet in fleets] == [
        {("representation", "MICo")}, {("actor", "DBC")}
    ]  # fmt: skip


def test_whole_numbers_and_words_make_fleets_of_their_own():
    fleets = planned(small_sweep(env="mdp/two-state", metric="mico", fields={"metric.error": ["huber", "squared"]}))
    assert [[dict(member.varied) for member in fleet.members] for fleet in fleets] == [
        [{"metric.error": "huber"}] * 2, [{"metric.error": "squared"}] * 2
    ]  # fmt: skip


def test_fleets_are_split_evenly_and_by_seeds():
    sweep = small_sweep(env="mdp/two-state", seeds=[4, 5, 6, 7, 8])
    parts = [[(member.cell.seed, member.cell.metric) for member in fleet.members] for fleet in planned(sweep, None, 4)]
    assert parts == [
        [(4, "none"), (4, "mico"), (5, "none")],
        [(5, "mico"), (6, "none"), (6, "mico"), (7, "none")],
        [(7, "mico"), (8, "none"), (8, "mico")],
    ]


def test_memory_is_that_of_replay_parameters_and_what_the_program_needs_beside():
    sweep = small_sweep(env="mdp/frozen-lake", metric="mico")
    (fleet,) = planned(sweep)
    run = fleet.runs()[0]
    state = init_state(run, run.env.spec, (), jax.numpy.zeros(run.env.spec.shape))
    held = sum(leaf.nbytes for leaf in jax.tree.leaves((state.params, state.target, state.optimiser, state.memory)))
    assert fleet.size == pytest.approx(1.2 * 2 * held, rel=1e-3)
    assert [len(one.members) for one in planned(sweep, memory=fleet.size)] == [2]
    assert [len(one.members) for one in planned(sweep, memory=fleet.size - 1)] == [1, 1]
    with pytest.raises(
        ValueError, match=r"memory must be at least .* GB, which a single run takes, got 1e-07 GB: set it by --memory"
    ):
        planned(sweep, memory=100)


def test_steps_that_updates_do_not_divide_are_refused_before_anything_runs():
    with pytest.raises(ValueError, match="steps must be a multiple of 4, got 402: the next is 404"):
        planned(small_sweep(steps=402, fields={"schedule.update_period": [4]}))


def test_runs_that_cannot_be_are_refused_before_anything_runs():
    with pytest.raises(ValueError, match=r"learning_rate must lie in \[0, inf\], but is -1.0"):
        planned(small_sweep(fields={"agent.learning_rate": [-1]}))
    with pytest.raises(ValueError, match="encoder 'minatar' needs images"):
        planned(Sweep(400, "mdp/two-state", preset="minatar", fields=FIELDS))


def test_values_that_hold_separators_become_plain_names(tmp_path):
    """A path is a value of a field, and tells arms apart by their names."""
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("#####\n#  G#\n#####\n")
    paths = [str(tmp_path / f"{name}.txt") for name in "ab"]
    fleets = planned(small_sweep(env=["mdp/map"], metric=["none"], seeds=[0], fields={"env.path": paths}))
    names = [name for fleet in fleets for name in (fleet.name, *(member.name for member in fleet.members))]
    assert all("/" not in name and check_plain_name(name, "name") for name in names)
    assert len({member.name for fleet in fleets for member in fleet.members}) == 2
    assert [dict(member.varied)["env.path"] for fleet in fleets for member in fleet.members] == paths
