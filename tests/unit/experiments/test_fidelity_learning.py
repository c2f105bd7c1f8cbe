r"""Learning on chains whose U fits the form of $U_\omega$, and what transitions are drawn."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.metric_losses import MICo
from mico.experiments.fidelity_learning import (
    Fitted,
    Sampled,
    Training,
    drawing_keys,
    represented,
    tables_of,
    trained,
    transitions,
    untrained,
)
from mico.experiments.fidelity_worlds import World
from mico.tabular import MDP, factored_mico, make

pytestmark = pytest.mark.usefixtures("quick_compilation")

REWARD, GAMMA = np.array([0.0, 0.5, 1.0]), 0.5
TRAINING = Training(seeds=2, steps=3_000, batch=32, width=32, learning_rate=1e-3, target_period=100)
LOSS = MICo(alpha=1.0, beta=1.0, error="squared", self_pairs="exclude", second="frozen")


@pytest.fixture(scope="module")
def forgetful():
    """Three states that all lead to each of the three alike, seen as one-hot vectors."""
    mdp = MDP(np.full((3, 1, 3), 1 / 3), REWARD[:, None], GAMMA)
    return World(mdp, np.eye(3, dtype=np.float32))


def exact():
    """By hand: U(x, y) = |r_x − r_y| + γc, where c = E|r − r'| / (1 − γ) = (4/9) / (1 − γ) for any two next states.

    All self-distances are equal and ΠU is a stretch of a line, which fits an arc of a quarter of a circle.
    """
    return np.abs(REWARD[:, None] - REWARD) + GAMMA * (4 / 9) / (1 - GAMMA)


def measured(encoders, tables, loss):
    return [np.asarray(loss.pairwise(*2 * (jnp.asarray(phi),))) for phi in represented(encoders, tables, np.arange(3))]


def learnt(objective, here, seeds=2):
    tables, keys = tables_of(here), jax.random.split(jax.random.key(0), seeds)
    starts = untrained(tables, TRAINING, keys)
    return trained(objective, starts, tables, TRAINING, drawing_keys(TRAINING, keys)), tables


def test_what_is_learnt_from_samples_goes_to_the_exact_distance(forgetful):
    rewards = jnp.asarray(np.tile(REWARD, (2, 1)), jnp.float32)
    encoders, tables = learnt(Sampled(LOSS, rewards, GAMMA), forgetful)
    for found in measured(encoders, tables, LOSS):
        np.testing.assert_allclose(found, exact(), atol=0.06)


def test_what_is_fitted_is_the_exact_distance(forgetful):
    truth = factored_mico(forgetful.mdp.chain()).factors
    encoders, tables = learnt(Fitted.to(truth, LOSS), forgetful)
    for found in measured(encoders, tables, LOSS):
        np.testing.assert_allclose(found, exact(), atol=0.02)


def test_a_step_of_no_length_leaves_the_start(forgetful):
    tables, keys = tables_of(forgetful), jax.random.split(jax.random.key(0))
    training = TRAINING._replace(steps=1, target_period=1, learning_rate=0.0)
    starts = untrained(tables, training, keys)
    objective = Sampled(LOSS, jnp.ones((2, 3)), GAMMA)
    moved = trained(objective, starts, tables, training, drawing_keys(training, keys))
    here = np.arange(3)
    np.testing.assert_array_equal(represented(moved, tables, here), represented(starts, tables, here))


def test_each_seed_has_its_own_rewards_and_start(forgetful):
    """Without rewards there is nothing to learn but 0; the released fields take self-distances for smaller."""
    rewards = jnp.asarray(np.stack([REWARD, np.zeros(3)]), jnp.float32)
    encoders, tables = learnt(Sampled(MICo(alpha=1.0, beta=1.0), rewards, GAMMA), forgetful)
    paid, unpaid = measured(encoders, tables, LOSS)
    assert np.diagonal(paid).max() < np.diagonal(exact()).min() - 0.05
    assert unpaid.max() < 0.1 < paid.min()
    one, other = represented(untrained(tables, TRAINING, jax.random.split(jax.random.key(0))), tables, np.arange(3))
    assert not np.allclose(one, other)


def test_transitions_are_those_of_the_uniform_policy():
    mdp = make("sparse-garnet", seed=0, num_states=5, num_actions=2).mdp
    tables = tables_of(World(mdp, np.eye(5, dtype=np.float32)))
    drawn = transitions(tables, (10, 20_000), jax.random.key(0))
    times = Counter(zip(np.ravel(drawn.state).tolist(), np.ravel(drawn.next_state).tolist()))
    chances = mdp.chain("uniform").dense_transition() / 5
    for x in range(5):
        for y in range(5):
            assert times[x, y] / 200_000 == pytest.approx(chances[x, y], abs=5 * np.sqrt(chances[x, y] / 200_000))


def test_keys_are_for_so_many_steps_or_just_above():
    keys = drawing_keys(TRAINING._replace(steps=250), jax.random.split(jax.random.key(0), 4))
    assert keys.shape == (4, 3)
    assert len(np.unique(jax.random.key_data(keys).reshape(12, -1), axis=0)) == 12
