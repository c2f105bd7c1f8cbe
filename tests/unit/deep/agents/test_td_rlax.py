"""TD losses against those of rlax, where it is installed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.agents import td

rlax = pytest.importorskip("rlax")

pytestmark = pytest.mark.usefixtures("quick_compilation")

BATCH, ACTIONS, WIDTH = 8, 3, 11
KEYS = jax.random.split(jax.random.key(0), 5)
ACTION = jax.random.randint(KEYS[0], (BATCH,), 0, ACTIONS)
REWARD = jax.random.normal(KEYS[1], (BATCH,))
DISCOUNT = jnp.where(jnp.arange(BATCH) % 4 == 0, 0.0, 0.9)
NOW, THEN = (2 * jax.random.normal(key, (BATCH, ACTIONS, WIDTH)) for key in KEYS[2:4])


def check(ours, theirs, *arguments):
    """Losses and their gradients in the online values, over a batch."""
    for one, other in zip(*(jax.vmap(jax.value_and_grad(loss))(*arguments) for loss in (ours, theirs)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("error", ["squared", "huber"])
def test_q_learning(error):
    """rlax gives the TD error, ρ is ours to apply: its `l2_loss` has a ½ that DQN's MSE has not."""
    rho = {"squared": lambda u: 2 * rlax.l2_loss(u), "huber": rlax.huber_loss}[error]
    check(
        lambda q, a, r, g, q_next: td.q_learning(q, a, r, g, q_next, error),
        lambda q, a, r, g, q_next: rho(rlax.q_learning(q, a, r, g, q_next)),
        *(NOW[:, :, 0], ACTION, REWARD, DISCOUNT, THEN[:, :, 0]),
    )


def test_categorical():
    atoms = jnp.linspace(-3.0, 3.0, WIDTH)
    check(
        lambda logits, a, r, g, after: td.categorical(logits, a, r, g, after, atoms),
        lambda logits, a, r, g, after: rlax.categorical_q_learning(atoms, logits, a, r, g, atoms, after),
        *(NOW, ACTION, REWARD, DISCOUNT, THEN),
    )


def test_projection():
    atoms = jnp.linspace(-3.0, 3.0, WIDTH)
    law = jax.nn.softmax(NOW[0, 0])
    moved = 0.4 + 0.9 * jnp.linspace(-4.0, 4.0, WIDTH)
    np.testing.assert_allclose(td.project(moved, law, atoms), rlax.categorical_l2_project(moved, law, atoms), atol=1e-6)


@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0, 2.0])
def test_quantile(kappa):
    """rlax does not divide Huber's error by κ, and has quantiles before actions; the mean and sum are the same."""
    tau = (jnp.arange(WIDTH) + 0.5) / WIDTH

    def ours(z, action, reward, discount, z_next):
        target = td.quantile_target(reward, discount, z_next, z_next.mean(axis=-1))
        return td.quantile_huber(z[action], tau, target, kappa)

    def theirs(z, action, reward, discount, z_next):
        return rlax.quantile_q_learning(z.T, tau, action, reward, discount, z_next.T, z_next.T, huber_param=kappa) / (
            kappa or 1.0
        )

    check(ours, theirs, NOW, ACTION, REWARD, DISCOUNT, THEN)
