"""The MICo distance from sampled transitions: TD(0) on pairs, n-step, off-policy, and over state–action pairs."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

from mico._checks import install_hint

try:  # before jaxtyping's Array, which is JAX's
    import jax
    import jax.numpy as jnp
    from jax import lax
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"mico.tabular.sampling needs JAX: {install_hint('deep')}", name="jax") from error

import numpy as np
from jaxtyping import Array, Float, Int, Key

from mico.tabular._validation import check_finite, check_whole, checked_discount, checked_policy, numbers
from mico.tabular.sampling.logs import Transitions, checked_transitions

_BLOCK = 1 << 14  # pairs drawn at once: memory stays bounded, and the draws of one seed do not depend on `updates`


@final
@dataclass(frozen=True)
class Schedule:
    r"""How many updates, and their step $\epsilon = (1 + c\,k)^{-p}$ after $k$ visits of the pair.

    `scale` is $c$, by default $1 - \gamma^n$, because with plain $1/k$ the error falls only as $k^{-(1-\gamma)}$;
    `scale=1` with an `exponent` p below 1 gives polynomial steps. Robbins–Monro asks for $1/2 < p \le 1$. The table is
    kept at `checkpoints` evenly spaced moments, the last one being the end.
    """

    updates: int
    scale: float | None = None
    exponent: float = 1.0
    checkpoints: int = 1

    def __post_init__(self) -> None:
        check_whole("updates", self.updates, 1)
        if self.scale is not None and not 0 < self.scale < np.inf:
            raise ValueError(f"scale must be positive, but is {self.scale}")
        if not 0.5 < self.exponent <= 1:
            raise ValueError(f"exponent must lie in (1/2, 1], but is {self.exponent}")
        check_whole("checkpoints", self.checkpoints, 1, self.updates)


class OnlineEstimate(NamedTuple):
    """The table, how often each entry was updated, and the table after `updates[k]` updates in `trace[k]`."""

    value: Float[np.ndarray, "N N"]
    visits: Int[np.ndarray, "N N"]
    trace: Float[np.ndarray, "K N N"]
    updates: Int[np.ndarray, " K"]


class _Windows(NamedTuple):
    """Runs of consecutive transitions: from `here` to `there`, gaining `gain`, with importance `weight`.

    The windows that share no entry with window i are the `others[i]` that follow from `after[i]` on, cyclically.
    """

    here: Int[np.ndarray, " M"]
    there: Int[np.ndarray, " M"]
    gain: Float[np.ndarray, " M"]
    weight: Float[np.ndarray, " M"]
    after: Int[np.ndarray, " M"]
    others: Int[np.ndarray, " M"]


class _Rule(NamedTuple):
    discount: float
    scale: float
    exponent: float


def online_mico(
    transitions: Transitions,
    num_states: int,
    discount: float,
    schedule: Schedule,
    *,
    seed: int,
    horizon: int = 1,
    initial: Any = None,
) -> OnlineEstimate:
    r"""$U(x,y) \leftarrow (1-\epsilon)\,U(x,y) + \epsilon\,(|r - \tilde r| + \gamma U(x', y'))$ on random logged pairs.

    Pairs are ordered and only the entry (x, y) moves, as in the paper. With `horizon` n the rewards become discounted
    sums over n steps and $\gamma$ becomes $\gamma^n$, whose fixed point $U_n$ lies between $|\Delta V|$ and $U$.
    Ratios of the log multiply the step, $\epsilon \rho_x \rho_y$, so that the fixed point is that of the policy of
    interest. Where rewards depend on the action or the next state, the limit is the metric of $\mathbb E|R_x - R_y|$.
    Entries without visits keep `initial`, [S, S], by default 0.
    """
    check_whole("seed", seed, 0)
    discount, log = checked_discount(discount), checked_transitions(transitions, num_states)
    windows = _windows(log, log.state, log.next_state, discount, horizon, given=0)
    return _estimate(windows, _checked_initial(initial, num_states), discount**horizon, schedule, seed)


def online_state_action_mico(
    transitions: Transitions,
    policy: Any,
    discount: float,
    schedule: Schedule,
    *,
    seed: int,
    horizon: int = 1,
    initial: Any = None,
) -> OnlineEstimate:
    r"""$U((x,a),(y,b)) \leftarrow |r - \tilde r| + \gamma U((x',a'),(y',b'))$ in steps; (x, a) stands at x·A + a.

    The next actions $a', b'$ are drawn from `policy`, [S, A], once for each entry of the log. So with `horizon` 1 any
    behaviour will do, without ratios; with a longer one the ratios of the steps after the first count.
    """
    check_whole("seed", seed, 0)
    shape = np.shape(policy)
    if len(shape) != 2:
        raise ValueError(f"policy must have shape [S, A], but has {list(shape)}")
    probs = checked_policy(policy, shape)
    discount, log = checked_discount(discount), checked_transitions(transitions, *shape)
    next_action = np.random.default_rng(seed).multinomial(1, probs[log.next_state]).argmax(axis=1)
    here, there = log.state * shape[1] + log.action, log.next_state * shape[1] + next_action
    windows = _windows(log, here, there, discount, horizon, given=1)
    return _estimate(windows, _checked_initial(initial, shape[0] * shape[1]), discount**horizon, schedule, seed)


def _checked_initial(initial: Any, size: int) -> Float[np.ndarray, "N N"]:
    if initial is None:
        return np.zeros((size, size))
    table = numbers("initial", initial)
    if table.shape != (size, size):
        raise ValueError(f"initial has shape {list(table.shape)}, not {[size, size]}")
    check_finite("initial", table)
    return table


def _windows(
    log: Transitions,
    here: Int[np.ndarray, " T"],
    there: Int[np.ndarray, " T"],
    discount: float,
    horizon: int,
    *,
    given: int,
) -> _Windows:
    """All windows of `horizon` entries of one trajectory; the first `given` actions are not weighted."""
    check_whole("horizon", horizon, 1)
    reward, ratio = np.asarray(log.reward), np.asarray(log.ratio)
    trajectory = np.cumsum(np.asarray(log.last)) - np.asarray(log.last)
    starts = np.flatnonzero(trajectory[: max(0, len(here) - horizon + 1)] == trajectory[horizon - 1 :])
    gain, weight = np.zeros(starts.size), np.ones(starts.size)
    for k in range(horizon):
        gain += discount**k * reward[starts + k]
        weight *= ratio[starts + k] if k >= given else 1.0
    # A pair stands for two independent draws. One transition used twice has one next state and one reward: it is the
    # diagonal coupling, which makes self-distances too small. So the two windows of a pair never share an entry.
    # Windows of one trajectory still depend on each other a little, which fades as the log grows.
    before = np.searchsorted(starts, starts - horizon, side="right")
    after = np.searchsorted(starts, starts + horizon, side="left")
    others = starts.size - (after - before)
    if starts.size < 2 or others.min() < 1:
        raise ValueError(
            f"too few windows of horizon {horizon} ({starts.size}): each needs another without common entries"
        )
    return _Windows(here[starts], there[starts + horizon - 1], gain, weight, after, others)


def _estimate(
    windows: _Windows, initial: Float[np.ndarray, "N N"], discount: float, schedule: Schedule, seed: int
) -> OnlineEstimate:
    edges = schedule.updates * np.arange(schedule.checkpoints + 1) // schedule.checkpoints
    scale = 1 - discount if schedule.scale is None else schedule.scale
    # Sequential updates of single numbers: a CPU is the quick machine for them.
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        rule = _Rule(discount, scale, schedule.exponent)
        table, trace = _learn(windows, initial, edges, jax.random.key(seed), rule)
        table, trace = np.asarray(table), np.asarray(trace)
    return OnlineEstimate(trace[-1], table[..., 1].astype(np.int64), trace, edges[1:])


@jax.jit
def _learn(
    windows: _Windows, initial: Float[Array, "N N"], edges: Int[Array, " E"], key: Key[Array, ""], rule: _Rule
) -> tuple[Float[Array, "N N 2"], Float[Array, "K N N"]]:
    """Updates `edges[k]` to `edges[k + 1]`, then a copy of the values, for each k."""
    starts, stops = edges[:-1], edges[1:]

    def update(table, pair):
        one, two, gap, weight = pair
        at, then = (windows.here[one], windows.here[two]), (windows.there[one], windows.there[two])
        value, visits = table[at]
        # The cap keeps a large ratio from overshooting early on; as steps shrink it no longer acts.
        step = jnp.minimum(1, weight * (1 + rule.scale * visits) ** -rule.exponent)
        value += step * (gap + rule.discount * table[then][0] - value)
        return table.at[at].set(jnp.stack([value, visits + 1]), mode="promise_in_bounds")

    def block(b, tables):
        """Each part of a block that lies between two edges; what a part that goes on leaves is overwritten."""
        pairs, begin = _pairs(windows, jax.random.fold_in(key, b)), b * _BLOCK

        def part(k, tables):
            table, trace = tables
            lower, upper = jnp.maximum(starts[k] - begin, 0), jnp.minimum(stops[k] - begin, _BLOCK)
            table = lax.fori_loop(lower, upper, lambda k, t: update(t, [column[k] for column in pairs]), table)
            return table, trace.at[k].set(table[..., 0])

        first, end = jnp.searchsorted(stops, begin, side="right"), jnp.searchsorted(starts, begin + _BLOCK)
        return lax.fori_loop(first, end, part, tables)

    # Values and visits side by side in one array: XLA updates it in place, where two arrays would be copied each time.
    table = jnp.stack([initial, jnp.zeros_like(initial)], axis=-1)
    trace = jnp.zeros((stops.size, *initial.shape))
    return lax.fori_loop(0, -(-stops[-1] // _BLOCK), block, (table, trace))


def _pairs(windows: _Windows, key: Key[Array, ""]) -> tuple[Array, Array, Array, Array]:
    one_key, two_key = jax.random.split(key)
    one = jax.random.randint(one_key, (_BLOCK,), 0, windows.here.size)
    two = (windows.after[one] + jax.random.randint(two_key, (_BLOCK,), 0, windows.others[one])) % windows.here.size
    return one, two, jnp.abs(windows.gain[one] - windows.gain[two]), windows.weight[one] * windows.weight[two]
