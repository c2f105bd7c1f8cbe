"""Whole updates of every agent in NumPy and float64, without JAX: losses, gradients, Adam, targets and priorities.

Parameters are arrays by name, as in "encoder.layers[0].weight". Value agents' derivatives are complex steps: a number
moves by 10⁻³⁰ along the imaginary axis, and the derivative is the imaginary part of the loss, to all digits. Those of
soft actor-critic, whose losses stand in `plain_actor`, are central differences.
"""

import re
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from plain_actor import pieces

STEP, WIDTH = 1e-30, 1e-5
ACTIONS = 4  # of value agents
BETAS = 0.9, 0.999


class Learner(NamedTuple):
    """What changes with an update, and how many there were."""

    params: dict[str, np.ndarray]
    target: dict[str, np.ndarray]
    mean: dict[str, np.ndarray]
    square: dict[str, np.ndarray]
    count: int


class Losses(NamedTuple):
    """The loss that is minimised, its terms, and the priorities of the samples."""

    total: float
    td: float
    metric: float
    priorities: np.ndarray


def start(params, target):
    nothing = {name: np.zeros_like(array) for name, array in params.items()}
    return Learner(params, target, nothing, nothing, 0)


def update(name, agent, metric, learner, batch, draws):
    """One update of the agent of this name, by a batch and the agent's random draws."""
    weight = batch.weight if agent.importance == "weighted" else np.ones(len(batch.reward))
    alpha = 0.0 if metric is None else metric.alpha

    def terms(params):
        losses, other = LOSSES[name](agent, params, learner, batch, draws)
        shaping = 0.0 if metric is None else mico(agent, metric, params, learner.target, batch)
        return losses, shaping, (1 - alpha) * ((weight * losses).mean() + other) + alpha * shaping

    losses, shaping, total = map(np.real, terms(learner.params))
    slopes = central_differences if name == "sac" else complex_steps
    new = adam(agent, learner, slopes(lambda params: terms(params)[2], learner.params))
    combined = losses if agent.priorities == "td" else (1 - alpha) * weight * losses + alpha * shaping
    return new, Losses(total, losses.mean(), shaping, np.sqrt(combined + 1e-10))


def complex_steps(loss, params):
    return differentiate(params, lambda moved: loss(moved).imag / STEP, [STEP * 1j])


def central_differences(loss, params):
    return differentiate(params, lambda up, down: (loss(up) - loss(down)).real / (2 * WIDTH), [WIDTH, -WIDTH])


def differentiate(params, slope, changes):
    """By each number of each array: the slope from the parameters with this number changed in one or more ways."""
    found = {name: np.zeros_like(array) for name, array in params.items()}
    for name, array in params.items():
        for index in np.ndindex(array.shape):
            moved = [np.array(array, dtype=np.result_type(change, array)) for change in changes]
            for each, change in zip(moved, changes, strict=True):
                each[index] += change
            found[name][index] = slope(*({**params, name: each} for each in moved))
    return found


def adam(agent, learner, gradient):
    """Kingma and Ba (2015), epsilon beside the root."""
    (b1, b2), count = BETAS, learner.count + 1
    mean = {name: b1 * learner.mean[name] + (1 - b1) * g for name, g in gradient.items()}
    square = {name: b2 * learner.square[name] + (1 - b2) * g**2 for name, g in gradient.items()}
    params = {
        name: old
        - agent.learning_rate
        * (mean[name] / (1 - b1**count))
        / (np.sqrt(square[name] / (1 - b2**count)) + agent.adam_epsilon)
        for name, old in learner.params.items()
    }
    return Learner(params, follow(agent, learner.target, params), mean, square, count)


def follow(agent, target, params):
    """Value agents' targets stay until they are copied; SAC's is a moving average."""
    rate = getattr(agent, "target_rate", 0.0)
    return {name: (1 - rate) * old + rate * params[name] for name, old in target.items()}


# Networks


def relu(x):
    return np.where(x.real > 0, x, 0)


def dense(params, name, x):
    return x @ params[f"{name}.weight"].T + params[f"{name}.bias"]


def project(params, name, x):
    """A dense layer, a layer norm and a tanh."""
    x = dense(params, f"{name}.dense", x)
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6)
    return np.tanh(x * params[f"{name}.norm.weight"] + params[f"{name}.norm.bias"])


def features(params, observation):
    """Two dense layers."""
    x = np.asarray(observation, float)
    for layer in range(2):
        x = relu(dense(params, f"encoder.layers[{layer}]", x))
    return x


def encode(params, observation):
    x = features(params, observation)
    return project(params, "encoder.projection", x) if "encoder.projection.dense.weight" in params else x


def head(params, phi, num_actions, name="head"):
    """Numbers [B, A, K]."""
    out = dense(params, f"{name}.output", relu(dense(params, f"{name}.hidden", phi)))
    return out.reshape(*phi.shape[:-1], num_actions, -1)


def implicit(params, phi, tau):
    """IQN's quantiles [B, N, A] of representations [B, D] at fractions [B, N]."""
    cosines = params["head.embedding.weight"].shape[1]
    waves = np.cos(np.pi * np.arange(1, cosines + 1) * tau[..., None])
    gated = phi[:, None, :] * relu(dense(params, "head.embedding", waves))
    return dense(params, "head.head.output", relu(dense(params, "head.head.hidden", gated)))


# TD losses of each sample, and what else is minimised


def huber(error, kappa=1.0):
    size = np.sign(error.real) * error
    return np.where(np.abs(error.real) <= kappa, error**2 / 2, kappa * (size - kappa / 2))


def dqn(agent, params, learner, batch, draws):
    target = learner.target
    q = head(params, encode(params, batch.observation), ACTIONS)[..., 0]
    later = head(target, encode(target, batch.next_observation), ACTIONS)[..., 0].max(axis=1)
    error = batch.reward + batch.discount * later - of_action(q, batch.action)
    return huber(error) if agent.error == "huber" else error**2, 0.0


def rainbow(agent, params, learner, batch, draws):
    target = learner.target
    atoms = np.linspace(-agent.support, agent.support, agent.num_atoms)
    laws = softmax(head(target, encode(target, batch.next_observation), ACTIONS))
    law = of_action(laws, (laws @ atoms).argmax(axis=1))
    goal = np.zeros((len(law), agent.num_atoms))
    for row in range(len(law)):
        for atom, mass in zip(atoms, law[row], strict=True):
            place = np.interp(batch.reward[row] + batch.discount[row] * atom, atoms, np.arange(atoms.size))
            below = int(min(place, atoms.size - 2))
            goal[row, below] += mass * (1 - (place - below))
            goal[row, below + 1] += mass * (place - below)
    logits = of_action(head(params, encode(params, batch.observation), ACTIONS), batch.action)
    centred = logits - logits.real.max(axis=1, keepdims=True)
    return -(goal * (centred - np.log(np.exp(centred).sum(axis=1, keepdims=True)))).sum(axis=1), 0.0


def qr_dqn(agent, params, learner, batch, draws):
    target = learner.target
    theta = of_action(head(params, encode(params, batch.observation), ACTIONS), batch.action)
    later = head(target, encode(target, batch.next_observation), ACTIONS)
    goal = of_action(later, later.mean(axis=2).argmax(axis=1))
    tau = np.tile((2 * np.arange(agent.num_quantiles) + 1) / (2 * agent.num_quantiles), (len(theta), 1))
    return regression(agent, theta, tau, batch.reward[:, None] + batch.discount[:, None] * goal), 0.0


def iqn(agent, params, learner, batch, draws):
    target = learner.target
    after = encode(target, batch.next_observation)
    best = implicit(target, after, draws["policy"]).mean(axis=1).argmax(axis=1)
    goal = of_action(implicit(target, after, draws["target"]).swapaxes(1, 2), best)
    return _implicit(agent, params, batch, draws, batch.reward[:, None] + batch.discount[:, None] * goal)


def m_iqn(agent, params, learner, batch, draws):
    target = learner.target
    heat, after = agent.temperature, encode(target, batch.next_observation)
    now = softmax(implicit(target, encode(target, batch.observation), draws["policy now"]).mean(axis=1) / heat)
    then = softmax(implicit(target, after, draws["policy then"]).mean(axis=1) / heat)
    bonus = agent.munchausen * np.clip(heat * np.log(of_action(now, batch.action)), agent.clip, 0)
    soft = implicit(target, after, draws["target"]) - heat * np.log(then)[:, None, :]
    value = (then[:, None, :] * soft).sum(axis=2)
    return _implicit(agent, params, batch, draws, (batch.reward + bonus)[:, None] + batch.discount[:, None] * value)


def _implicit(agent, params, batch, draws, goal):
    quantiles = implicit(params, encode(params, batch.observation), draws["online"]).swapaxes(1, 2)
    return regression(agent, of_action(quantiles, batch.action), draws["online"], goal), 0.0


def regression(agent, theta, tau, goal):
    """Huber's quantile error: the mean over targets, the sum over predictions."""
    error = goal[:, None, :] - theta[:, :, None]
    share = np.where(error.real < 0, 1 - tau[:, :, None], tau[:, :, None])
    return (share * huber(error, agent.kappa) / agent.kappa).mean(axis=2).sum(axis=1)


def sac(agent, params, learner, batch, draws):
    trees = [nest(each) for each in (params, learner.target, learner.params)]
    for tree in trees:
        tree.head.log_std = agent.log_std
    found = pieces(agent, *trees[:2], batch, draws, still=trees[2])
    return found.critic, found.actor + found.temperature


def nest(params):
    """Parameters as `plain_actor` reads them: attributes and lists."""
    tree: dict[str, Any] = {}
    for name, array in params.items():
        *path, last = re.findall(r"[^.\[\]]+", name)
        inner = tree
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = array

    def build(inner):
        if not isinstance(inner, dict):
            return inner
        if all(key.isdigit() for key in inner):
            return [build(inner[str(key)]) for key in range(len(inner))]
        return SimpleNamespace(**{key: build(value) for key, value in inner.items()})

    return build(tree)


def of_action(values, action):
    return values[np.arange(len(values)), action]


def softmax(x):
    weight = np.exp(x - x.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


LOSSES = {"dqn": dqn, "rainbow": rainbow, "qr-dqn": qr_dqn, "iqn": iqn, "m-iqn": m_iqn, "sac": sac}


# MICo


def distances(x, y, beta):
    """U of every pair, the angle by its cosine."""
    lengths = [np.sqrt((rows**2).sum(axis=1)) for rows in (x, y)]
    cosine = np.clip((x @ y.T / np.outer(*lengths)).real, -1, 1)
    change = (x @ y.T / np.outer(*lengths)).imag
    slope = -1 / np.sqrt(np.where(cosine**2 < 1 - 1e-13, 1 - cosine**2, np.inf))
    angle = np.arccos(cosine) + 1j * slope * change
    return (lengths[0][:, None] ** 2 + lengths[1] ** 2) / 2 + beta * angle


def mico(agent, metric, params, target, batch):
    """The mean over all ordered pairs; the second state is the target network's."""
    windows = batch.first if metric.horizon == "one-step" else batch
    bootstrap = agent.discount if metric.horizon == "one-step" else float(batch.bootstrap)
    online, still = encode(params, batch.observation), encode(target, batch.observation)
    reward, after = np.asarray(windows.reward), encode(target, windows.next_observation)
    if metric.terminals == "absorbing":
        sink = np.zeros_like(batch.observation[:1])
        after = np.where(np.asarray(windows.terminal)[:, None], encode(target, sink), after)
        online, still = np.vstack([online, encode(params, sink)]), np.vstack([still, encode(target, sink)])
        after, reward = np.vstack([after, encode(target, sink)]), np.append(reward, 0.0)
    goal = np.abs(reward[:, None] - reward) + bootstrap * distances(after, after, metric.beta).real
    return huber(goal - distances(online, still, metric.beta)).mean()
