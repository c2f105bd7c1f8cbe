"""TD losses by hand and against loops in float64; gradients reach the online values alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.agents import td

pytestmark = pytest.mark.usefixtures("quick_compilation")

ACTIONS, WIDTH = 3, 5
ATOMS = jnp.linspace(-2.0, 2.0, WIDTH)
RNG = np.random.default_rng(0)


def numbers(*shape, scale=1.0):
    return jnp.asarray(scale * RNG.normal(size=shape), jnp.float32)


def scalar(x):
    return jnp.asarray(x, jnp.int32 if isinstance(x, int) else jnp.float32)


def floats(*values):
    return [np.asarray(value, dtype=float) for value in values]


def softmax(x):
    weights = [np.exp(value - max(x)) for value in x]
    return [weight / sum(weights) for weight in weights]


def naive_huber(error, delta):
    return error**2 / 2 if abs(error) <= delta else delta * (abs(error) - delta / 2)


def naive_projection(moved, probabilities, atoms):
    """Each moved atom shares its mass between the two atoms around it, in proportion to how near they are."""
    moved, probabilities, atoms = floats(moved, probabilities, atoms)
    found = np.zeros(len(atoms))
    for place, mass in zip(moved, probabilities, strict=True):
        position = (min(max(place, atoms[0]), atoms[-1]) - atoms[0]) / (atoms[1] - atoms[0])
        below = min(int(position), len(atoms) - 2)
        found[below] += mass * (below + 1 - position)
        found[below + 1] += mass * (position - below)
    return found


def naive_quantile(quantiles, tau, targets, kappa):
    total = 0.0
    for theta, fraction in zip(*floats(quantiles, tau), strict=True):
        for goal in floats(targets)[0]:
            error = goal - theta
            size = naive_huber(error, kappa) / kappa if kappa else abs(error)
            total += abs(fraction - (1 if error < 0 else 0)) * size / len(targets)
    return total


def naive_quantile_slope(quantiles, tau, targets, kappa):
    """By differences: no error is as near to 0 or ± κ as the step."""
    (theta,), step = floats(quantiles), 1e-4
    moves = step * np.eye(len(theta))
    return [
        (naive_quantile(theta + move, tau, targets, kappa) - naive_quantile(theta - move, tau, targets, kappa))
        / (2 * step)
        for move in moves
    ]


def naive_munchausen(reward, discount, z_next, q_next, q, action, temperature, scale, clip):
    z_next, q_next, q = floats(z_next, q_next, q)
    bonus = max(clip, min(0.0, temperature * np.log(softmax(q / temperature)[action])))
    policy = softmax(q_next / temperature)
    value = sum(p * (z - temperature * np.log(p)) for p, z in zip(policy, z_next, strict=True))
    return reward + scale * bonus + discount * value


@pytest.mark.parametrize(("error", "expected"), [("squared", 12.25), ("huber", 3.0)])
def test_q_learning_by_hand(error, expected):
    """The target is 1 + .5·4 = 3 and the value taken −.5; a greedy action of x' other than the one taken."""
    q, q_next = jnp.asarray([9.0, -0.5, 2.0]), jnp.asarray([4.0, -1.0, 3.0])
    assert td.q_learning(q, scalar(1), scalar(1.0), scalar(0.5), q_next, error) == pytest.approx(expected)


def test_q_learning_after_a_terminal_is_towards_the_reward():
    q, q_next = numbers(ACTIONS), numbers(ACTIONS, scale=100)
    found = td.q_learning(q, scalar(2), scalar(0.7), scalar(0.0), q_next, "squared")
    assert found == pytest.approx((0.7 - float(q[2])) ** 2, rel=1e-5)


@pytest.mark.parametrize(
    ("reward", "discount"), [(0.3, 0.9), (-5.0, 0.9), (7.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.25, 0.5)]
)
def test_projection_against_a_loop(reward, discount):
    probabilities = jax.nn.softmax(numbers(WIDTH))
    found = td.project(reward + discount * ATOMS, probabilities, ATOMS)
    np.testing.assert_allclose(found, naive_projection(reward + discount * ATOMS, probabilities, ATOMS), atol=1e-6)
    assert found.sum() == pytest.approx(1.0, rel=1e-5)


def test_projection_by_hand():
    """Mass ½ at .25 goes ¾ to 0 and ¼ to 1; mass ½ beyond the last atom goes to it."""
    found = td.project(jnp.asarray([0.25, 9.0]), jnp.asarray([0.5, 0.5]), ATOMS)
    np.testing.assert_allclose(found, [0, 0, 0.375, 0.125, 0.5], atol=1e-6)


def test_projection_keeps_means_inside_the_support():
    atoms = jnp.linspace(-10.0, 10.0, 51)
    probabilities = jax.nn.softmax(numbers(51))
    moved = 0.3 + 0.9 * atoms
    assert (td.project(moved, probabilities, atoms) * atoms).sum() == pytest.approx(
        float((probabilities * moved).sum()), abs=1e-4
    )


@pytest.mark.parametrize("seed", range(4))
def test_categorical_against_loops(seed):
    rng = np.random.default_rng(seed)
    logits, logits_next = rng.normal(size=(2, ACTIONS, WIDTH)).astype(np.float32)
    action, reward, discount = int(rng.integers(ACTIONS)), float(rng.normal()), 0.9
    laws = [softmax(row) for row in floats(logits_next)[0]]
    means = [sum(p * z for p, z in zip(law, np.asarray(ATOMS), strict=True)) for law in laws]
    target = naive_projection(reward + discount * np.asarray(ATOMS), laws[int(np.argmax(means))], ATOMS)
    expected = -sum(m * np.log(p) for m, p in zip(target, softmax(floats(logits)[0][action]), strict=True))
    found = td.categorical(
        jnp.asarray(logits), scalar(action), scalar(reward), scalar(discount), jnp.asarray(logits_next), ATOMS
    )
    assert found == pytest.approx(expected, rel=1e-5)


def test_categorical_is_least_at_the_projected_target():
    """At $p = m$ the gradient $p - m$ of the cross-entropy vanishes."""
    logits_next = numbers(ACTIONS, WIDTH)
    law = np.asarray(jax.nn.softmax(logits_next))
    target = naive_projection(0.2 + 0.5 * ATOMS, law[(law @ np.asarray(ATOMS)).argmax()], ATOMS)
    logits = jnp.log(jnp.asarray(np.tile(target, (ACTIONS, 1)) + 1e-12, jnp.float32))
    gradient = jax.grad(td.categorical)(logits, scalar(0), scalar(0.2), scalar(0.5), logits_next, ATOMS)
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0, 5.0])
def test_quantile_huber_against_loops(monkeypatch, kappa, device):
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    quantiles, tau, targets = numbers(4, scale=2), jnp.asarray([0.1, 0.4, 0.6, 0.95]), numbers(7, scale=2)
    found, gradient = jax.jit(jax.value_and_grad(td.quantile_huber))(quantiles, tau, targets, kappa)
    assert found == pytest.approx(naive_quantile(quantiles, tau, targets, kappa), rel=1e-5)
    np.testing.assert_allclose(gradient, naive_quantile_slope(quantiles, tau, targets, kappa), atol=1e-5)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_the_gradient_of_quantiles_keeps_nothing_of_the_size_of_all_pairs(monkeypatch, device):
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    quantiles, tau, targets = numbers(20), jnp.linspace(0.1, 0.9, 20), numbers(30)
    _, backwards = jax.vjp(lambda theta: td.quantile_huber(theta, tau, targets, 1.0), quantiles)
    assert max(leaf.size for leaf in jax.tree.leaves(backwards)) <= 20


def test_quantile_huber_by_hand():
    """u is 2 and −½ for the quantile 1 at τ = ¼: (¼·1.5 + ¾·⅛)/2 with κ = 1, (¼·2 + ¾·½)/2 with κ = 0."""
    arrays = jnp.asarray([1.0]), jnp.asarray([0.25]), jnp.asarray([3.0, 0.5])
    assert td.quantile_huber(*arrays, 1.0) == pytest.approx((0.25 * 1.5 + 0.75 * 0.125) / 2)
    assert td.quantile_huber(*arrays, 0.0) == pytest.approx((0.25 * 2 + 0.75 * 0.5) / 2)


def test_quantile_loss_is_least_at_the_quantiles():
    """With κ = 0 the slope at a point is what lies below it minus τ."""
    targets = jnp.arange(10.0)
    tau = jnp.asarray([0.3, 0.3, 0.3])
    gradient = jax.grad(td.quantile_huber)(jnp.asarray([1.5, 2.5, 3.5]), tau, targets, 0.0)
    np.testing.assert_allclose(gradient, [0.2 - 0.3, 0.3 - 0.3, 0.4 - 0.3], atol=1e-6)


def test_quantile_target_takes_the_greedy_action_of_the_values_given():
    z_next = jnp.asarray([[1.0, 2.0], [30.0, 40.0], [5.0, 6.0]])
    found = td.quantile_target(scalar(1.0), scalar(0.5), z_next, jnp.asarray([0.0, -1.0, 2.0]))
    np.testing.assert_allclose(found, [3.5, 4.0])


@pytest.mark.parametrize("temperature", [0.03, 1.0])
@pytest.mark.parametrize("action", range(ACTIONS))
def test_munchausen_target_against_loops(temperature, action):
    z_next, q_next, q = numbers(ACTIONS, 4), numbers(ACTIONS, scale=0.1), numbers(ACTIONS, scale=2)
    arguments = (z_next, q_next, q)
    for reward, discount, scale, clip in ((0.5, 0.9, 0.9, -1.0), (-1.0, 0.0, 0.5, -0.2)):
        found = td.munchausen_target(
            scalar(reward), scalar(discount), *arguments, scalar(action), temperature, scale, clip
        )
        expected = naive_munchausen(reward, discount, *arguments, action, temperature, scale, clip)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_munchausen_target_by_hand():
    """Two equal actions: τ log ½ now and later, and the mean of their quantiles."""
    z_next, equal = jnp.asarray([[1.0], [3.0]]), jnp.asarray([7.0, 7.0])
    half = 0.3 * np.log(0.5)
    found = td.munchausen_target(scalar(1.0), scalar(0.5), z_next, equal, equal, scalar(1), 0.3, 0.9, -1.0)
    np.testing.assert_allclose(found, [1 + 0.9 * half + 0.5 * (2 - half)], rtol=1e-6)


def test_munchausen_target_is_finite_at_large_values_and_clips():
    """An action worse by 2,000 with τ = .03: its log-policy is clipped, and the soft value is the greedy one."""
    q = jnp.asarray([1e3, -1e3])
    found = td.munchausen_target(scalar(0.0), scalar(1.0), q[:, None], q, q, scalar(1), 0.03, 0.9, -1.0)
    np.testing.assert_allclose(found, [1e3 - 0.9], rtol=1e-6)


LOSSES = {
    "squared": lambda on, off: td.q_learning(on[:, 0], scalar(1), off[0, 1], scalar(0.9), off[:, 0], "squared"),
    "huber": lambda on, off: td.q_learning(on[:, 0], scalar(1), off[0, 1], scalar(0.9), off[:, 0], "huber"),
    "categorical": lambda on, off: td.categorical(on, scalar(1), off[0, 1], scalar(0.9), off, ATOMS),
    "quantile": lambda on, off: td.quantile_huber(on[1], jnp.linspace(0.1, 0.9, WIDTH), off[0], 1.0),
}
TARGETS = {
    "greedy": lambda off: td.quantile_target(off[0, 0], scalar(0.9), off, off[:, 1]),
    "munchausen": lambda off: td.munchausen_target(
        off[0, 0], scalar(0.9), off, off[:, 1], off[:, 2], scalar(1), 0.5, 0.9, -9.0
    ),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("size", [0.0, 1.0, 1e15])
def test_gradients_are_finite_and_reach_the_action_taken_alone(name, size):
    on, off = numbers(2, ACTIONS, WIDTH) * size
    gradient, of_target = jax.grad(LOSSES[name], argnums=(0, 1))(on, off)
    np.testing.assert_array_equal(of_target, 0)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[jnp.asarray([0, 2])], 0)
    if size == 1.0:
        assert np.abs(gradient[1]).max() > 1e-3


@pytest.mark.parametrize("name", TARGETS)
def test_targets_pass_no_gradient(name):
    off = numbers(ACTIONS, WIDTH)
    assert np.abs(TARGETS[name](off + 1.0) - TARGETS[name](off)).max() > 1e-3
    np.testing.assert_array_equal(jax.grad(lambda x: TARGETS[name](x).sum())(off), 0)


@pytest.mark.parametrize("name", LOSSES)
def test_many_transitions_are_single_ones(name):
    on, off = numbers(2, 4, ACTIONS, WIDTH)
    many = jax.jit(jax.vmap(LOSSES[name]))(on, off)
    np.testing.assert_allclose(many, [LOSSES[name](a, b) for a, b in zip(on, off, strict=True)], rtol=1e-5)


def test_a_fleet_may_vary_kappa():
    quantiles, tau, targets = numbers(4), jnp.linspace(0.1, 0.9, 4), numbers(6)
    kappas = jnp.asarray([0.0, 0.5, 1.0])
    losses, gradients = jax.vmap(jax.value_and_grad(td.quantile_huber), (None, None, None, 0))(
        quantiles, tau, targets, kappas
    )
    for kappa, loss, gradient in zip(map(float, kappas), losses, gradients, strict=True):
        assert loss == pytest.approx(naive_quantile(quantiles, tau, targets, kappa), rel=1e-5)
        np.testing.assert_allclose(gradient, naive_quantile_slope(quantiles, tau, targets, kappa), atol=1e-5)
