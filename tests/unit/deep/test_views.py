"""Views of a batch against one observation at a time, and that nothing is computed which nobody asks for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.networks.encoders import Encoder
from mico.deep.types import FirstTransition, Views
from small_runs import small_agent, small_batch, small_run, two_networks

PASSES = {"online": 1, "target": 1, "target_next": 1, "online_next": 1, "first_step": 2, "sink": 2}


def situation(horizon=3):
    run = small_run(small_agent(horizon=horizon), seed=0)
    batch = small_batch(run.env.spec)
    first = FirstTransition(batch.reward + 1, batch.observation[::-1], ~batch.terminal)
    return run.agent, *two_networks(run), batch._replace(first=first)


def test_each_view_is_that_of_its_network_and_observation():
    agent, params, target, batch = situation()
    views = Views(agent, params, target, batch)
    one_by_one = lambda network, rows: np.stack([network.encoder(row) for row in rows])  # noqa: E731
    expected = {
        "online": one_by_one(params, batch.observation),
        "target": one_by_one(target, batch.observation),
        "target_next": one_by_one(target, batch.next_observation),
        "online_next": one_by_one(params, batch.next_observation),
    }
    for name, rows in expected.items():
        np.testing.assert_allclose(getattr(views, name), rows, rtol=1e-6)
    reward, after, terminal, discount = views.first_step
    np.testing.assert_allclose(after, one_by_one(target, batch.first.next_observation), rtol=1e-6)
    np.testing.assert_array_equal((reward, terminal), (batch.first.reward, batch.first.terminal))
    assert discount == pytest.approx(agent.discount)
    nothing = jnp.zeros_like(batch.observation[0])
    np.testing.assert_allclose(views.sink, (params.encoder(nothing), target.encoder(nothing)), rtol=1e-6)


@pytest.mark.parametrize("name", PASSES)
def test_an_encoder_is_traced_for_what_is_asked_and_once(name, monkeypatch):
    """The first step of a window of one is the window's own: its view is the target network's of the next state."""
    calls, features = [], Encoder.features
    monkeypatch.setattr(Encoder, "features", lambda encoder, row: calls.append(0) or features(encoder, row))
    views = Views(*situation())
    assert not calls
    for _ in range(2):
        getattr(views, name)
    assert len(calls) == PASSES[name]
    if name == "first_step":
        alone = Views(*situation(horizon=1))
        calls.clear()
        np.testing.assert_array_equal(alone.first_step.target_next, alone.target_next)
        assert len(calls) == 1


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_gradients_are_stopped_of_what_was_computed_before_and_of_what_comes_after(counts, before):
    agent, params, target, batch = situation()

    def total(params):
        views = Views(agent, params, target, batch)
        if before:
            assert views.online.size
            assert views.sink
        gated = views.stop_gradients_unless(jnp.asarray(counts))
        return gated.online.sum() + gated.sink.online.sum(), views.online.sum()

    value, gradient = jax.value_and_grad(lambda params: total(params)[0])(params)
    expected = jax.grad(lambda params: sum(params.encoder(row).sum() for row in _rows(batch)))(params)
    assert value == pytest.approx(float(sum(params.encoder(row).sum() for row in _rows(batch))), rel=1e-5)
    for found, whole in zip(*map(jax.tree.leaves, (gradient.encoder, expected.encoder)), strict=True):
        np.testing.assert_allclose(found, whole if counts else 0 * whole, rtol=1e-5, atol=1e-6)
    kept = jax.grad(lambda params: total(params)[1])(params)
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(kept.encoder)) > 1e-3


def _rows(batch):
    """The observations, and that of the state after a terminal one."""
    return [*batch.observation, jnp.zeros_like(batch.observation[0])]
