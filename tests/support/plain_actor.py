"""Soft actor-critic in NumPy, one sample after the other, from the definitions."""

from typing import NamedTuple

import numpy as np

LIMITS = {"bounded": (-10.0, 2.0), "unbounded": (-np.inf, np.inf)}  # of the logarithms of deviations


class Pieces(NamedTuple):
    """What the losses of a batch are made of."""

    critic: np.ndarray
    actor: float
    temperature: float


def features(params, observation):
    x = np.asarray(observation, dtype=float).ravel()
    for layer in params.encoder.layers:
        x = np.maximum(np.asarray(layer.weight) @ x + np.asarray(layer.bias), 0)
    return x


def projected(projection, x):
    """A dense layer, a layer norm, a tanh."""
    if projection is None:
        return x
    x = np.asarray(projection.dense.weight) @ x + np.asarray(projection.dense.bias)
    x = (x - x.mean()) / np.sqrt(((x - x.mean()) ** 2).mean() + 1e-6)
    return np.tanh(x * np.asarray(projection.norm.weight) + np.asarray(projection.norm.bias))


def perceptron(net, x):
    for layer in net.layers[:-1]:
        x = np.maximum(np.asarray(layer.weight) @ x + np.asarray(layer.bias), 0)
    return np.asarray(net.layers[-1].weight) @ x + np.asarray(net.layers[-1].bias)


def policy(head, latent):
    """Mean and deviation of each number of an action before its tanh."""
    mean, log_deviation = np.split(perceptron(head.actor, latent), 2)
    return mean, np.exp(np.clip(log_deviation, *LIMITS[head.log_std]))


def drawn(head, latent, noise):
    """An action and the logarithm of its density."""
    mean, deviation = policy(head, latent)
    action, log_chance = [], 0.0
    for m, s, n in zip(mean, deviation, noise, strict=True):
        u = m + s * n
        action.append(np.tanh(u))
        log_chance += -((u - m) ** 2) / (2 * s**2) - np.log(s * np.sqrt(2 * np.pi)) - np.log(1 - np.tanh(u) ** 2)
    return np.array(action), log_chance


def worth(head, latent, action):
    """The lesser of what two critics say."""
    return min(perceptron(critic, np.concatenate([latent, action]))[0] for critic in head.critics)


def mean_action(params, observation):
    return np.tanh(policy(params.head, projected(params.head.projection, features(params, observation)))[0])


def pieces(agent, params, target, batch, noise, still=None):
    r"""$\tfrac12\sum_k(Q_k - y)^2$ of each sample, $E[\alpha\log\pi - \min_k Q_k]$, $f\,E[-\log\pi - \bar H]$.

    f is log α, or α in the first papers on SAC. Parameters that a loss is not to change are taken from `still`: small
    changes of `params` give its gradient.
    """
    still = params if still is None else still
    critic, actor, temperature = [], [], []
    size = batch.action.shape[-1]
    for index in range(len(batch.reward)):
        now, later = batch.observation[index], batch.next_observation[index]
        goal = _goal(agent, still, target, batch, index, later, noise[0][index])
        held = features(still, now)
        seen = projected((still if agent.actor_projection == "fixed" else params).head.projection, held)
        read = seen if agent.critics_read == "actor" else projected(params.encoder.projection, features(params, now))
        joined = np.concatenate([read, batch.action[index]])
        critic.append(sum((perceptron(one, joined)[0] - goal) ** 2 for one in params.head.critics) / 2)
        action, log_chance = drawn(params.head, seen, noise[1][index])
        of_critics = still.head.projection if agent.critics_read == "actor" else still.encoder.projection
        value = worth(still.head, projected(of_critics, held), action)
        actor.append(np.exp(float(still.head.log_temperature)) * log_chance - value)
        _, held_chance = drawn(still.head, projected(still.head.projection, held), noise[1][index])
        log_alpha = float(params.head.log_temperature)
        factor = log_alpha if agent.temperature_loss == "log-temperature" else np.exp(log_alpha)
        temperature.append(factor * (-held_chance - agent.entropy * size))
    return Pieces(np.array(critic), float(np.mean(actor)), float(np.mean(temperature)))


def _goal(agent, params, target, batch, index, later, noise):
    r"""$y = c\,r + \gamma(1 - \mathrm{term})(\min_k \bar Q_k(x', a') - \alpha\log\pi(a'|x'))$."""
    of_target = projected(target.head.projection, features(target, later))
    if agent.next_action == "mean":
        action, (_, log_chance) = np.tanh(policy(target.head, of_target)[0]), drawn(target.head, of_target, noise)
    else:
        action, log_chance = drawn(params.head, projected(params.head.projection, features(params, later)), noise)
    phi = projected(target.encoder.projection, features(target, later))
    value = worth(target.head, of_target if agent.critics_read == "actor" else phi, action)
    value -= np.exp(float(params.head.log_temperature)) * log_chance
    goes_on = 0.0 if batch.terminal[index] else float(batch.bootstrap)
    return agent.reward_scale * float(batch.reward[index]) + goes_on * value
