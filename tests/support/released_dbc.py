"""DBC and DBC+MICo as MICo's authors released them, in NumPy and float64, from a reading of their code."""

import numpy as np

from plain_actor import features, projected


def dense(layer, x):
    return np.asarray(layer.weight, dtype=float) @ x + np.asarray(layer.bias, dtype=float)


def regression(model, x):
    """A dense layer, a layer norm (with the epsilon of the layer), a ReLU, a dense layer."""
    x = dense(model.hidden, x)
    x = (x - x.mean()) / np.sqrt(x.var() + model.norm.eps)
    return dense(model.output, np.maximum(x * np.asarray(model.norm.weight) + np.asarray(model.norm.bias), 0))


def law(models, size, z, action):
    """Mean and deviation of the next latent; a model that is not probabilistic has deviation 0."""
    found = regression(models.dynamics, np.concatenate([z, action]))
    if len(found) == size:
        return found, np.zeros(size)
    return found[:size], 1e-4 + (10 - 1e-4) / (1 + np.exp(-found[size:]))


def angle(x, y):
    cosine = x @ y / np.sqrt((x @ x) * (y @ y))
    return np.arctan2(np.sqrt(1 - cosine**2), cosine)


def model_losses(params, target, batch, noise, still):
    """Squared errors of the reward, of the actor's latent alone, and of a drawn next latent."""
    errors = []
    for index in range(len(batch.reward)):
        z, later = fixed(still, batch.observation[index]), fixed(target, batch.next_observation[index])
        mean, deviation = law(params.metric, len(z), z, batch.action[index])
        of_reward = (regression(params.metric.reward, z)[0] - batch.reward[index]) ** 2
        errors.append(((mean + deviation * noise[index] - later) ** 2).mean() + of_reward)
    return np.mean(errors)


def bisimulation_loss(params, batch, order, discount, still):
    """Of pairs of learnt latents, whose target is made of the fixed latents' models, both without a gradient."""
    learnt, laws = [], []
    for index in range(len(batch.reward)):
        learnt.append(critic_z(params, batch.observation[index]))
        z = fixed(still, batch.observation[index])
        laws.append(law(still.metric, len(z), z, batch.action[index]))
    errors = []
    for i, j in enumerate(order):
        (mean, deviation), (other_mean, other_deviation) = laws[i], laws[j]
        apart = np.sqrt(((mean - other_mean) ** 2).sum()) + np.sqrt(((deviation - other_deviation) ** 2).sum())
        target = abs(batch.reward[i] - batch.reward[j]) + discount * apart
        errors.append((np.abs(learnt[i] - learnt[j]).sum() - target) ** 2)
    return np.mean(errors)


def mico_loss(params, batch, order, discount, still):
    """Of pairs of learnt latents: U with gradients through both, to the reward gap and the bare angle later."""
    learnt = [critic_z(params, observation) for observation in batch.observation]
    later = [critic_z(still, observation) for observation in batch.next_observation]
    errors = []
    for i, j in enumerate(order):
        online = (learnt[i] @ learnt[i] + learnt[j] @ learnt[j]) / 2 + 0.1 * angle(learnt[i], learnt[j])
        error = abs(abs(batch.reward[i] - batch.reward[j]) + discount * angle(later[i], later[j]) - online)
        errors.append(error**2 / 2 if error <= 1 else error - 0.5)
    return np.mean(errors)


def critic_z(params, observation):
    return projected(params.encoder.projection, features(params, observation))


def fixed(params, observation):
    """The actor's projection of the features, from which nothing learns."""
    return projected(params.head.projection, features(params, observation))
