"""Replayed batches of random representations, and losses over their pairs one pair at a time, in float64."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from mico.deep.types import ActorLatents, Batch, FirstStep, FirstTransition, Sink, Spec, Views

FIELDS = {
    "pairs": ("all", "shuffled"),
    "self_pairs": ("include", "exclude"),
    "second": ("target", "frozen", "online"),
    "error": ("huber", "squared"),
    "horizon": ("n-step", "one-step"),
    "terminals": ("bootstrap", "absorbing"),
}
READINGS = [dict(zip(FIELDS, values, strict=True)) for values in itertools.product(*FIELDS.values())]
SPECS = {"discrete": Spec((1,), "float32", 3), "continuous": Spec((1,), "float32", 0, 2)}
SIZES = (0.0, 1e-20, 1e-10, 1.0, 1e10, 1e15)


class GivenViews(Views):
    """Views that are given, not computed; a tree of arrays, so that losses have gradients by them."""

    def __init__(self, **views):
        vars(self).update(views)

    def _replace(self, **views):
        return GivenViews(**(vars(self) | views))


jax.tree_util.register_pytree_with_keys(
    GivenViews,
    lambda views: ([(jax.tree_util.GetAttrKey(name), view) for name, view in vars(views).items()], (*vars(views),)),
    lambda names, given: GivenViews(**dict(zip(names, given, strict=True))),
)


def replayed(seed=0, size=5, width=4, spec=SPECS["discrete"]):
    keys = iter(jax.random.split(jax.random.key(seed), 12))
    rows = lambda: jax.random.normal(next(keys), (size, width))  # noqa: E731
    numbers = lambda: 2 * jax.random.normal(next(keys), (size,))  # noqa: E731
    terminal = jnp.arange(size) % 2 == 0
    at_once = terminal & (jnp.arange(size) > 1)  # the window of the first row ended, its first step did not
    first = FirstStep(numbers(), rows(), at_once, jnp.float32(0.9))
    views = dict(zip(("online", "target", "target_next"), (rows(), rows(), rows()), strict=True))
    views |= {"first_step": first, "sink": Sink(rows()[0], rows()[0])}
    observation, reward, bootstrap = jnp.zeros((size, 1)), numbers(), jnp.float32(0.9**3)
    views |= {"online_next": rows(), "actor": ActorLatents(rows(), rows())}
    action = jnp.tanh(rows()[:, : spec.action_size])
    if spec.num_actions:
        action = jnp.arange(size, dtype=jnp.int32) % spec.num_actions
    discount = jnp.where(terminal, 0.0, bootstrap)
    weight, first = jnp.ones(size), FirstTransition(first.reward, observation, first.terminal)
    batch = Batch(observation, action, reward, observation, terminal, discount, bootstrap, weight, first)
    return GivenViews(**views), batch


def odd_rows(size, dtype=jnp.float32, width=8):
    """Equal, opposite, zero and parallel vectors of one size."""
    x = size * jax.random.normal(jax.random.key(0), (2, width))
    return jnp.stack([x[0], x[0], -x[0], jnp.zeros(width), x[1], 1e-3 * x[1]]).astype(dtype)


def naive_loss(loss, measure, immediate, views, batch, order):
    """The mean over pairs, from the formulas of one pair; `order` is whom each is shuffled to."""
    first = loss.horizon == "one-step"
    reward = list(np.asarray(views.first_step.reward if first else batch.reward))
    bootstrap = float(views.first_step.bootstrap if first else batch.bootstrap)
    after = list(np.asarray(views.first_step.target_next if first else views.target_next))
    terminal = views.first_step.terminal if first else batch.terminal
    online, target = list(np.asarray(views.online)), list(np.asarray(views.target))
    if loss.terminals == "absorbing":
        after = [np.asarray(views.sink.target) if end else row for end, row in zip(terminal, after, strict=True)]
        online, target = [*online, np.asarray(views.sink.online)], [*target, np.asarray(views.sink.target)]
        after, reward = [*after, np.asarray(views.sink.target)], [*reward, 0.0]
    after, online, target = np.asarray([after, online, target], dtype=float)
    pairs = itertools.product(range(len(reward)), repeat=2) if loss.pairs == "all" else enumerate(order)
    errors = []
    for i, j in pairs:
        if i == j and loss.self_pairs == "exclude":
            continue
        goal = immediate(abs(float(reward[i]) - float(reward[j]))) + bootstrap * measure(after[i], after[j])
        error = goal - measure(online[i], target[j] if loss.second == "target" else online[j])
        small = abs(error) <= 1
        errors.append(error**2 if loss.error == "squared" else error**2 / 2 if small else abs(error) - 0.5)
    return np.mean(errors)


def both_losses(loss, measure, immediate=lambda gap: gap):
    """Ours and the naive one, of the same replayed batch."""
    key = jax.random.key(0)
    views, batch = replayed()
    order = np.asarray(jax.random.permutation(key, batch.reward.size + (loss.terminals == "absorbing")))
    return loss.loss(None, views, batch, key), naive_loss(loss, measure, immediate, views, batch, order)
