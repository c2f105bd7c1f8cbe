"""The losses of agents from their heads' outputs in NumPy, where they vanish, and how agents act."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.agents import VALUE_AGENTS
from mico.deep.agents.iqn import QuantileHead
from mico.deep.agents.value_agent import Transition, greedy
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.types import Representations, Views
from small_runs import small_agent, small_batch, small_run, two_networks

pytestmark = pytest.mark.usefixtures("quick_compilation")
KEY = jax.random.key(3)
SIZE, ACTIONS = 6, 3
NETWORK = NetworkConfig("table", width=SIZE, hidden=5)
every_agent = pytest.mark.parametrize("name", VALUE_AGENTS)


def heads(agent, size=1.0):
    """Online and target, weights times `size` so that greedy actions and clips differ."""
    keys = jax.random.split(KEY)
    made = [agent.make_head(SIZE, ACTIONS, NETWORK, key=key) for key in keys]
    return [jax.tree.map(lambda weight: size * weight, head) for head in made]


def example(seed, discount=0.8):
    rng = np.random.default_rng(seed)
    views = Representations(*jnp.asarray(rng.normal(size=(3, SIZE))))
    return views, Transition(jnp.int32(rng.integers(ACTIONS)), jnp.asarray(rng.normal()), jnp.asarray(discount))


def softmax(x):
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def pinball(theta, tau, goal, kappa):
    """Huber's quantile error: the mean over targets, the sum over predictions."""
    u = goal[None, :] - theta[:, None]
    inside = np.abs(u) <= kappa
    size = np.where(inside, u**2 / 2, kappa * (np.abs(u) - kappa / 2)) / kappa if kappa else np.abs(u)
    return (np.where(u < 0, 1 - tau[:, None], tau[:, None]) * size).mean(axis=1).sum()


def dqn(agent, head, target, views, action, reward, discount):
    q, q_next = np.asarray(head(views.online))[:, 0], np.asarray(target(views.target_next))[:, 0]
    u = abs(reward + discount * q_next.max() - q[action])
    return u**2 if agent.error == "squared" else u**2 / 2 if u <= 1 else u - 0.5


def rainbow(agent, head, target, views, action, reward, discount):
    atoms = np.linspace(-agent.support, agent.support, agent.num_atoms)
    laws = softmax(np.asarray(target(views.target_next)))
    law = laws[np.argmax(laws @ atoms)]
    goal = np.zeros(agent.num_atoms)
    for atom, mass in zip(atoms, law, strict=True):
        place = np.interp(reward + discount * atom, atoms, np.arange(atoms.size))
        goal[int(np.floor(place))] += mass * (1 - place % 1)
        goal[int(np.ceil(place))] += mass * (place % 1)
    return -(goal * np.log(softmax(np.asarray(head(views.online))[action]))).sum()


def qr_dqn(agent, head, target, views, action, reward, discount):
    theta, later = np.asarray(head(views.online))[action], np.asarray(target(views.target_next))
    tau = (2 * np.arange(agent.num_quantiles) + 1) / (2 * agent.num_quantiles)
    return pinball(theta, tau, reward + discount * later[later.mean(axis=1).argmax()], agent.kappa)


def drawn(agent):
    """Fractions of the prediction and of its target, and the key of those of the policy."""
    of_online, of_target, of_policy = jax.random.split(KEY, 3)
    counts = (of_online, agent.num_quantiles), (of_target, agent.num_target_quantiles)
    return *(jax.random.uniform(key, (count,)) for key, count in counts), of_policy


def value(agent, head, phi, key):
    return np.asarray(head(phi, jax.random.uniform(key, (agent.num_policy_quantiles,)))).mean(axis=0)


def iqn(agent, head, target, views, action, reward, discount):
    tau, tau_next, of_policy = drawn(agent)
    best = value(agent, target, views.target_next, of_policy).argmax()
    goal = reward + discount * np.asarray(target(views.target_next, tau_next))[:, best]
    return pinball(np.asarray(head(views.online, tau))[:, action], np.asarray(tau), goal, agent.kappa)


def m_iqn(agent, head, target, views, action, reward, discount):
    tau, tau_next, of_policy = drawn(agent)
    now, then = jax.random.split(of_policy)
    heat = agent.temperature
    policy = softmax(value(agent, target, views.target, now) / heat)
    bonus = np.clip(heat * np.log(policy[action]), agent.clip, 0)
    later = softmax(value(agent, target, views.target_next, then) / heat)
    soft = np.asarray(target(views.target_next, tau_next)) - heat * np.log(later)
    goal = reward + agent.munchausen * bonus + discount * (later * soft).sum(axis=1)
    return pinball(np.asarray(head(views.online, tau))[:, action], np.asarray(tau), goal, agent.kappa)


NAIVE = {"dqn": dqn, "rainbow": rainbow, "qr-dqn": qr_dqn, "iqn": iqn, "m-iqn": m_iqn}
VARIANTS = [
    ("dqn", {}),
    ("dqn", {"error": "huber"}),
    ("rainbow", {}),
    ("rainbow", {"num_atoms": 21, "support": 0.7}),
    ("qr-dqn", {}),
    ("qr-dqn", {"num_quantiles": 1, "kappa": 0.1}),
    ("qr-dqn", {"kappa": 0.0}),
    ("iqn", {}),
    ("iqn", {"kappa": 0.2, "num_quantiles": 2, "num_target_quantiles": 7}),
    ("m-iqn", {"temperature": 0.5}),
    ("m-iqn", {"clip": -0.1, "munchausen": 0.4, "temperature": 0.2}),
]


def test_every_agent_has_a_naive_loss():
    assert set(NAIVE) == set(VALUE_AGENTS) == {name for name, _ in VARIANTS}


@pytest.mark.parametrize(("name", "fields"), VARIANTS)
def test_losses_against_numpy(name, fields):
    with jax.enable_x64(True):
        agent = small_agent(name, **fields)
        loss = jax.jit(lambda head, target, views, transition: agent.td_loss(head, target, views, transition, KEY))
        for seed in range(4):
            head, target = heads(agent, size=(1.0, 3.0)[seed % 2])
            views, (action, reward, discount) = example(seed, discount=(0.8, 0.0)[seed // 3])
            found = loss(head, target, views, Transition(action, reward, discount))
            expected = NAIVE[name](agent, head, target, views, int(action), float(reward), float(discount))
            assert expected > 1e-3
            np.testing.assert_allclose(found, expected, rtol=1e-9)


@every_agent
def test_action_values_against_numpy(name):
    with jax.enable_x64(True):
        agent, (views, _) = small_agent(name), example(0)
        head, phi = heads(agent)[0], views.online
        expected = {
            "dqn": lambda: np.asarray(head(phi))[:, 0],
            "rainbow": lambda: softmax(np.asarray(head(phi))) @ np.linspace(-2, 2, 5),
            "qr-dqn": lambda: np.asarray(head(phi)).mean(axis=1),
            "iqn": lambda: value(agent, head, phi, KEY),
            "m-iqn": lambda: value(agent, head, phi, KEY),
        }[name]()
        np.testing.assert_allclose(agent.q_values(head, phi, KEY), expected, rtol=1e-10)


def constant(head, bias):
    """A head that says the same of every state."""
    weights, structure = jax.tree.flatten(head)
    flat = [jnp.zeros_like(weight) for weight in weights[:-1]]
    return jax.tree.unflatten(structure, [*flat, jnp.broadcast_to(bias, weights[-1].shape)])


@every_agent
def test_losses_vanish_where_the_return_is_certain(name):
    """Every state worth 1 and a reward of 1 − γ; M-IQN's three equal actions add (α − γ)·τ·log ⅓ to the target."""
    agent = small_agent(name, **({"temperature": 0.3} if name == "m-iqn" else {}))
    head, _ = heads(agent)
    certain = jnp.tile(jnp.where(jnp.arange(5) == 3, 0.0, -50.0), ACTIONS)  # all mass on the atom 1 of −2, −1 … 2
    head = constant(head, certain if name == "rainbow" else jnp.ones(()))
    views, transition = example(0)
    reward = 1 - 0.8
    if name == "m-iqn":
        reward -= (0.9 - 0.8) * 0.3 * np.log(1 / 3)
    at_rest = transition._replace(reward=jnp.asarray(reward, jnp.float32))
    assert agent.td_loss(head, head, views, at_rest, KEY) == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(agent.q_values(head, views.online, KEY), 1, rtol=1e-6)
    astray = at_rest._replace(reward=at_rest.reward + 0.5)
    assert agent.td_loss(head, head, views, astray, KEY) > 0.01


@pytest.mark.parametrize(("precision", "digits"), [("float32", (0, 1e-5)), ("bfloat16", (1e-4, 0.03))])
def test_an_implicit_head_against_numpy(precision, digits):
    """The largest error, of the largest value; bfloat16 keeps 8 bits."""
    network, gaps, largest = replace(NETWORK, precision=precision), [], []
    leaves, structure = jax.tree.flatten(QuantileHead(SIZE, ACTIONS, network, 4, key=KEY))
    rng = np.random.default_rng(0)
    head = jax.tree.unflatten(structure, [jnp.asarray(rng.normal(size=leaf.shape), jnp.float32) for leaf in leaves])
    phi, tau = rng.normal(size=SIZE).astype(np.float32), np.array([0.1, 0.5, 0.99], np.float32)
    layers = head.embedding, head.head.hidden, head.head.output
    (embed, shift), hidden, output = ((np.asarray(layer.weight), np.asarray(layer.bias)) for layer in layers)
    for fraction, found in zip(tau, np.asarray(head(jnp.asarray(phi), jnp.asarray(tau))), strict=True):
        waves = np.cos(np.pi * np.array([1, 2, 3, 4]) * fraction)
        gated = phi * np.maximum(embed @ waves + shift, 0)
        expected = output[0] @ np.maximum(hidden[0] @ gated + hidden[1], 0) + output[1]
        gaps.append(np.abs(found - expected).max())
        largest.append(np.abs(expected).max())
    assert digits[0] <= max(gaps) / max(largest) <= digits[1]


@pytest.mark.parametrize("choice", ["each", "shared"])
def test_fractions_are_drawn_for_each_sample_or_shared(choice):
    """The losses of a batch are those of its transitions one by one, with a key for each or the same for all."""
    run = small_run(small_agent("iqn", fractions=choice), seed=0)
    params, target = two_networks(run)
    batch = small_batch(run.env.spec)
    seen = Views(run.agent, params, target, batch)
    found, other = run.agent.loss(params, target, seen, batch, KEY)
    count = batch.reward.size
    keys = jax.random.split(KEY, count) if choice == "each" else [KEY] * count
    for row in range(count):
        view = Representations(seen.online[row], seen.target[row], seen.target_next[row])
        transition = Transition(batch.action[row], batch.reward[row], batch.discount[row])
        expected = run.agent.td_loss(params.head, target.head, view, transition, keys[row])
        np.testing.assert_allclose(found[row], expected, rtol=1e-5)
    assert other == 0


def test_actions_are_greedy_but_for_the_share_of_random_ones():
    q = jnp.asarray([0.1, 0.7, -0.2, 0.7])
    count = 20_000
    keys = jax.random.split(KEY, count)
    often = jax.jit(lambda epsilon: jnp.bincount(jax.vmap(lambda key: greedy(q, epsilon, key))(keys), length=4))
    np.testing.assert_array_equal(often(0.0), [0, count, 0, 0])
    for epsilon in (0.1, 0.4, 1.0):
        share = np.full(4, epsilon / 4) + np.array([0, 1 - epsilon, 0, 0])
        strays = np.sqrt(share * (1 - share) / count)
        assert (np.abs(often(epsilon) / count - share) < 4.5 * strays).all()
