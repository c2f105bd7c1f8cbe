"""The law of an actor's actions, a tanh of a normal: its density by integration, its draws by their ranks."""

import math
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from mico.deep.agents.sac import TanhGaussian

pytestmark = pytest.mark.usefixtures("quick_compilation")
LAWS = [(0.0, 0.0), (0.7, -1.0), (-1.5, 0.5), (0.2, -4.0), (0.0, 1.0)]  # means, and logarithms of deviations
EDGES = (-1.0, -0.97, -0.5, 0.0, 0.2, 0.6, 0.995, 1.0)


@pytest.fixture
def with_noise(monkeypatch):
    """The action and the logarithm of its density in one dimension, as a function of the noise that is drawn."""
    chosen = []
    monkeypatch.setattr(jax.random, "normal", lambda key, shape: jnp.reshape(chosen[-1], shape))

    def of(law, noise):
        chosen.append(noise)
        return TanhGaussian(*law).sample(jax.random.key(0))

    return of


def cumulative(action, mean, log_deviation):
    """A tanh keeps the order, so this is the normal law's."""
    with np.errstate(divide="ignore"):
        return stats.norm.cdf(np.arctanh(action), mean, np.exp(log_deviation))


@pytest.mark.parametrize("law", LAWS)
def test_the_density_integrates_to_the_chance_of_every_interval(with_noise, law):
    with jax.enable_x64(True):
        rows = tuple(jnp.asarray([number]) for number in law)
        jitted = jax.jit(lambda noise: with_noise(rows, noise))

        def density(action):
            found, log_chance = jitted((np.arctanh(action) - law[0]) / np.exp(law[1]))
            np.testing.assert_allclose(found[0], action, atol=1e-12)
            return math.exp(log_chance)

        centre = math.tanh(law[0])
        edges = sorted({*EDGES, max(-1.0, centre - 0.05), min(1.0, centre + 0.05)})
        shares = [integrate.quad(density, low, high, limit=200)[0] for low, high in pairwise(edges)]
    np.testing.assert_allclose(shares, np.diff(cumulative(np.array(edges), *law)), atol=1e-7)
    assert sum(shares) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("mean", [-300.0, -20.0, 20.0, 300.0])
def test_far_in_the_tails_it_is_finite_though_the_action_is_all_but_1(precision, mean):
    """There 1 − tanh²(u) = 1 / cosh²(u) rounds to 0; the slope by the mean is that of 2·log cosh(u)."""
    with jax.enable_x64(precision == "float64"):
        mean, log_deviation = jnp.asarray([mean]), jnp.asarray([-0.5])
        key = jax.random.key(1)

        def log_chance(mean):
            action, found = TanhGaussian(mean, log_deviation).sample(key)
            return found, action

        (found, action), slope = jax.value_and_grad(log_chance, has_aux=True)(mean)
        noise = float(jax.random.normal(key, (1,))[0])
    u = float(mean[0]) + math.exp(-0.5) * noise
    expected = -(noise**2) / 2 - math.log(math.sqrt(2 * math.pi)) + 0.5 + 2 * math.log(math.cosh(u))
    assert 1 - 1e-6 < abs(float(action[0])) <= 1
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(slope, [2 * math.tanh(u)], rtol=1e-5)


def test_numbers_of_an_action_are_independent():
    """The density of two is the product of those of one."""
    with jax.enable_x64(True):
        mean, log_deviation, key = jnp.asarray([0.3, -1.1]), jnp.asarray([-0.2, 0.4]), jax.random.key(3)
        action, log_chance = TanhGaussian(mean, log_deviation).sample(key)
    u = np.arctanh(np.asarray(action))
    each = stats.norm.logpdf(u, mean, np.exp(log_deviation)) - np.log(1 - np.asarray(action) ** 2)
    np.testing.assert_allclose(log_chance, each.sum(), rtol=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_draws_have_the_law(law):
    mean, log_deviation = (jnp.full((4_000, 1), number) for number in law)
    actions, log_chances = TanhGaussian(mean, log_deviation).sample(jax.random.key(2))
    assert (actions.shape, log_chances.shape) == ((4_000, 1), (4_000,))
    assert stats.kstest(np.asarray(actions[:, 0], dtype=float), cumulative, args=law).pvalue > 1e-4
