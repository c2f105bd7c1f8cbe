"""The named sweeps are the paper's grids, whole, also where what they run on is missing."""

from dataclasses import replace

import pytest

from mico.sweeps import absent, plan
from mico.sweeps.absent import shape_of
from mico.sweeps.grid import cells
from mico.sweeps.manifest import Limits, planned
from mico.sweeps.named import SWEEPS

FULL = {name: known.sweep for name, known in SWEEPS.items()}


def test_how_many_runs_each_has():
    games, agents, seeds = 60, 5, 5
    count = {name: len(cells(sweep)) for name, sweep in FULL.items()}
    assert count == {
        "atari-60": games * agents * 2 * seeds,
        "atari-60-defaults": games * agents * 2 * seeds,
        "control-12": 12 * 5 * seeds,
        "control-12-defaults": 12 * 5 * seeds,
        "alpha-beta": 6 * agents * (1 + 4 * 3) * seeds,  # one baseline beside the grid
        "ablations": 6 * 2 * (1 + 7) * seeds,
        "minatar": 5 * agents * 2 * 10,
    }


def test_full_settings():
    for name in ("atari-60", "alpha-beta", "ablations"):
        assert FULL[name].steps == 200 * 250_000
        run = cells(FULL[name])[0].shape.run({}, 0)
        assert (run.replay.capacity, run.schedule.learning_starts, run.schedule.target_period) == (
            1_000_000, 20_000, 8_000
        )  # fmt: skip
    assert FULL["control-12"].steps == 100 * 1_000
    assert len(set(FULL["atari-60"].env)) == 60
    learning = [cell for cell in cells(replace(FULL["atari-60"], env=("atari/pong",))) if cell.metric == "mico"]
    alphas = {cell.agent: cell.shape.run({}, 0).metric.alpha for cell in learning}
    assert alphas == {"dqn": 0.01, "rainbow": 0.01, "qr-dqn": 0.5, "iqn": 0.5, "m-iqn": 0.5}


def test_minatar_is_the_published_game():
    run = cells(FULL["minatar"])[0].shape.run(dict(cells(FULL["minatar"])[0].fields), 0)
    assert (run.env.actions, run.env.max_steps, run.schedule.log_period) == ("all", "original", 100_000)


def test_ablations_change_one_reading_at_a_time():
    arms = {cell.fields for cell in cells(FULL["ablations"]) if cell.metric == "mico"}
    assert sorted(map(len, arms)) == [0, 1, 1, 1, 1, 1, 1]
    assert {name for arm in arms for name, _ in arm} == {
        "metric.error", "metric.horizon", "metric.terminals", "metric.self_pairs", "metric.second"
    }  # fmt: skip


@pytest.fixture
def without(monkeypatch):
    """Families whose packages are not installed."""

    def missing(name, **fields):
        raise ModuleNotFoundError(f"{name} needs a package")

    monkeypatch.setattr(absent, "environment", missing)
    shape_of.cache_clear()
    plan._planned.cache_clear()
    yield
    shape_of.cache_clear()
    plan._planned.cache_clear()


@pytest.mark.parametrize("name", ["ablations", "control-12"])
def test_what_cannot_run_here_can_be_planned(name, without):
    sweep = replace(FULL[name], env=FULL[name].env[:2])
    fleets = planned(sweep, None, Limits(int(130e9), None))
    assert sum(len(fleet.members) for fleet in fleets) == len(cells(sweep))
    assert all(0 < fleet.size <= 130e9 for fleet in fleets)
    with pytest.raises(ValueError, match=f"cannot be run: {sweep.env[0]} needs a package"):
        fleets[0].runs()


def test_a_control_run_takes_its_replay_and_its_networks():
    sweep = replace(FULL["control-12"], env=("control/walker-run",), metric=("none",))
    fleet = planned(sweep, None, Limits(None, 1))[0]
    replay, weights = 101_000 * 84 * 84 * 3, 4 * (2 * 56_448 * 50 + 3 * 1_024 * 1_024)
    assert 1.5 * (replay + 4 * weights) < fleet.size < 1.5 * (replay + 4 * weights) + 2e7


def test_an_atari_run_takes_its_replay_of_a_million_frames():
    fleet = planned(replace(FULL["atari-60"], env=("atari/pong",)), None, Limits(None, 1))[0]
    assert 1.2 * 1e6 * 84 * 84 < fleet.size < 1.3 * 1e6 * 84 * 84
