"""What DBC's losses learn of pairs: known metrics of latents, and distances that are known by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.spatial.distance import cdist

from batches import SPECS, GivenViews, replayed
from mico.deep.metric_losses import DBC, DBCDet, DBCMICo
from mico.deep.types import ActorLatents, FirstStep

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(7)
of_either = pytest.mark.parametrize("kind", [DBC, DBCDet])


@of_either
@pytest.mark.parametrize("variant", ["paper", "rewrite"])
def test_what_is_learnt_is_the_city_block_metric(kind, variant):
    x = jax.random.normal(KEY, (7, 5))
    found = np.asarray(kind(variant=variant).pairwise(x, x), dtype=float)
    np.testing.assert_allclose(found, cdist(x, x, "cityblock"), rtol=1e-5)
    np.testing.assert_array_equal(found.diagonal(), 0)
    np.testing.assert_array_equal(found, found.T)
    for i, j, k in itertools.product(range(7), repeat=3):
        assert found[i, k] <= found[i, j] + found[j, k] + 1e-5


@of_either
def test_what_the_original_code_learns_is_a_mean_of_smooth_gaps(kind):
    x, y = jnp.asarray([[0.0, 0.0], [3.0, -0.5]]), jnp.asarray([[0.0, 0.0], [0.0, 1.0]])
    expected = [[0.0, 0.25], [(2.5 + 0.125) / 2, (2.5 + 1.0) / 2]]
    np.testing.assert_allclose(kind(variant="original").pairwise(x, y), expected)


@pytest.mark.parametrize("variant", ["paper", "original", "rewrite"])
def test_what_dbc_mico_learns_is_u(variant):
    x, y = np.asarray(jax.random.normal(KEY, (2, 3, 5)), dtype=float)
    theta = lambda a, b: np.arccos(a @ b / np.linalg.norm(a) / np.linalg.norm(b))  # noqa: E731
    expected = [[(a @ a + b @ b) / 2 + 0.4 * theta(a, b) for b in y] for a in x]
    found = DBCMICo(variant=variant, beta=0.4).pairwise(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def learnt(loss, reward, led_to, actor, steps=800):
    """Distances of free latents, one number a state, after learning; the actor's are fixed.

    A state leads to one other, seen with noise, so that deviations have something to be.
    """
    led_to, states = jnp.asarray(led_to), jnp.tile(jnp.arange(len(led_to)), 8)
    _, batch = replayed(size=states.size)
    batch, after = batch._replace(action=jnp.zeros_like(states)), led_to[states]
    seen_by_actor = jnp.asarray(actor)[:, None]
    optimiser = optax.adam(optax.linear_schedule(0.03, 0.0, steps))

    def objective(learning, key):
        latents, params = learning
        of_noise, of_loss = jax.random.split(key)
        noise = jax.random.normal(of_noise, (states.size, 1)) / 2
        now, later = latents[states], jax.lax.stop_gradient(latents[after]) + noise
        first = FirstStep(jnp.asarray(reward)[states], later, batch.terminal, jnp.float32(0.5))
        own = ActorLatents(seen_by_actor[states], seen_by_actor[after])
        views = GivenViews(online=now, target=now, first_step=first, online_next=later, actor=own)
        return loss.loss(params, views, batch, of_loss)

    def update(carry, key):
        learning, state = carry
        changes, state = optimiser.update(jax.grad(objective)(learning, key), state)
        return (optax.apply_updates(learning, changes), state), None

    start = jnp.linspace(-0.3, 0.3, led_to.size)[:, None], loss.init(KEY, 1, SPECS["discrete"])
    run = jax.jit(lambda start: jax.lax.scan(update, (start, optimiser.init(start)), jax.random.split(KEY, steps)))
    ((latents, _), _), _ = run(start)
    return np.abs(latents - latents.T)


@of_either
def test_the_paper_s_loss_learns_the_bisimulation_distance(kind):
    """The first and the last state lead to themselves: d₀₂ = 1 + d₀₂ / 2. The other pays 0 and leads to the last."""
    found = learnt(kind(hidden=16), [0.0, 0.0, 1.0], [0, 2, 2], [0.0, 0.0, 0.0])
    np.testing.assert_allclose(found, [[0, 1, 2], [1, 0, 1], [2, 1, 0]], atol=0.1)


@of_either
def test_the_original_code_learns_it_of_two_states_that_lead_to_themselves(kind):
    """d = 1 + d / 2 by its smooth gaps, too: d − ½ = ½ + d / 2."""
    found = learnt(kind(variant="original", hidden=16), [0.0, 1.0], [0, 1], [0.0, 0.0])
    np.testing.assert_allclose(found[0, 1], 2.0, atol=0.1)


@of_either
def test_the_rewrite_learns_how_far_apart_the_actor_sees_what_comes_next(kind):
    """No fixed point: 1 + 4 / 2 for those that lead to themselves, which the actor sees 4 apart."""
    found = learnt(kind(variant="rewrite", hidden=16), [0.0, 1.0], [0, 1], [-2.0, 2.0])
    np.testing.assert_allclose(found[0, 1], 3.0, atol=0.1)
