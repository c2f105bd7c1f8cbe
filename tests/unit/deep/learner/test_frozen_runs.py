"""A run whose loss is not finite keeps what it had, for good, and the other runs of its fleet go on as they were."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.fleet import jax_engine as fleets
from mico.deep.fleet.jax_engine import JaxEngine
from small_runs import small_run, tally

PERIOD, BEFORE, AFTER = 4, 60, 80


def leaves(state, run, *parts):
    """Of one run's parts, or of all of it."""
    chosen = [getattr(state, part) for part in parts] if parts else state
    return [np.asarray(leaf)[run] for leaf in jax.tree.leaves(chosen)]


def same(one, other):
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module", params=["dqn", "sac"])
def history(request, quick_compilation):
    """Time, state and sums after each update of a fleet of two, and of a copy with rewards of run 0 that are NaN."""
    runs = [small_run(request.param, seed=seed) for seed in (0, 1)]
    engine = JaxEngine(runs, fleets.stack(runs))
    healthy = engine.begin()
    for time in range(0, BEFORE, PERIOD):
        healthy, _ = engine.play(healthy, time, PERIOD, True)
    planted = healthy.memory.steps.reward.at[0, 30:33].set(jnp.nan)
    sick = eqx.tree_at(lambda state: state.memory.steps.reward, jax.tree.map(jnp.copy, healthy), planted)
    found = [(BEFORE, *jax.device_get((healthy, sick, None)))]
    for time in range(BEFORE, BEFORE + AFTER, PERIOD):
        healthy, _ = engine.play(healthy, time, PERIOD, True)
        sick, happened = engine.play(sick, time, PERIOD, True)
        found.append((time + PERIOD, *jax.device_get((healthy, sick)), tally(happened)))
    return found


@pytest.fixture(scope="module")
def bad(history):
    """The place in history of the first update that was not finite, with updates on both sides of it."""
    steps = [int(sick.bad_step[0]) for _, _, sick, _ in history]
    place = next(index for index, step in enumerate(steps) if step >= 0)
    assert 1 < place < len(history) - 1
    return place


def test_the_first_bad_step_is_named_and_stays(history, bad):
    for index, (_, healthy, sick, _) in enumerate(history):
        assert sick.bad_step.tolist() == [-1 if index < bad else history[bad][0], -1]
        assert healthy.bad_step.tolist() == [-1, -1]


def test_until_then_it_learns_as_if_nothing_were_amiss(history, bad):
    for _, healthy, sick, _ in history[:bad]:
        assert same(*(leaves(state, 0, "params", "target", "optimiser") for state in (healthy, sick)))
    assert not same(*(leaves(history[index][2], 0, "params") for index in (bad - 2, bad - 1)))


def test_from_then_on_its_networks_and_optimiser_stay_bit_for_bit(history, bad):
    before = leaves(history[bad - 1][2], 0, "params", "target", "optimiser")
    assert all(np.isfinite(leaf).all() for leaf in before)
    for _, healthy, sick, _ in history[bad:]:
        assert same(leaves(sick, 0, "params", "target", "optimiser"), before)
        assert not same(leaves(healthy, 0, "params", "target", "optimiser"), before)


def test_it_goes_on_acting(history, bad):
    assert history[-1][2].memory.num_frames[0] > history[bad][2].memory.num_frames[0]


def test_the_other_run_does_not_notice(history):
    for _, healthy, sick, _ in history:
        assert same(leaves(sick, 1), leaves(healthy, 1))
    assert not same(leaves(history[0][2], 1, "params"), leaves(history[-1][2], 1, "params"))


def test_sums_are_over_sound_updates_alone(history, bad):
    for index, (_, _, _, sums) in enumerate(history[1:], start=1):
        assert sums.updates.tolist() == [index < bad, 1]
        assert np.isfinite([sums.loss, sums.td_loss, sums.metric_loss]).all()
        assert (sums.loss[0] != 0) == (sums.td_loss[0] > 0) == (index < bad)
