"""Logged experience: what it holds, what makes it valid, and its weights under another policy."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from mico.tabular._validation import check_finite, check_index, check_kind, check_whole, checked_policy, numbers


class Transitions(NamedTuple):
    r"""Parallel arrays: in `state`, `action` paid `reward` and led to `next_state`.

    last: where a trajectory ends; the next entry begins another. True stands for entries that each stand alone.
    ratio: $\pi(a|x) / b(a|x)$ of the policy of interest and the one that acted. 1 stands for data of the policy itself.
    An episode that ends must lead to an absorbing state, whose own zero-reward transitions are part of the log:
    without them its distances to the other states are never learnt.
    """

    state: Int[np.ndarray, " T"]
    action: Int[np.ndarray, " T"]
    reward: Float[np.ndarray, " T"]
    next_state: Int[np.ndarray, " T"]
    last: Bool[np.ndarray, " T"] | bool = True
    ratio: Float[np.ndarray, " T"] | float = 1.0

    def with_ratio(self, target: Any, behaviour: Any) -> "Transitions":
        """Weight the log so that what `behaviour` did speaks for `target`; both are arrays [S, A]."""
        shape = np.shape(target)
        if len(shape) != 2:
            raise ValueError(f"target must have shape [S, A], but has {list(shape)}")
        rows, acted = checked_policy(target, shape), checked_policy(behaviour, shape)
        uncovered = np.argwhere((rows > 0) & (acted == 0))
        if uncovered.size:
            x, a = uncovered[0]
            raise ValueError(f"behaviour never takes action {a} in state {x}, but target does: no ratio corrects that")
        log = checked_transitions(self, *shape)
        impossible = np.flatnonzero(acted[log.state, log.action] == 0)
        if impossible.size:
            t = impossible[0]
            raise ValueError(f"action[{t}] = {log.action[t]}, which behaviour never takes in state {log.state[t]}")
        return log._replace(ratio=rows[log.state, log.action] / acted[log.state, log.action])


def checked_transitions(transitions: Transitions, num_states: int, num_actions: int | None = None) -> Transitions:
    """Vectors of one length, indices in range, finite rewards, trajectories without gaps, ratios not negative."""
    check_kind("transitions", transitions, Transitions, "Transitions")
    check_whole("num_states", num_states, 1)
    columns = {name: np.asarray(column) for name, column in transitions._asdict().items()}
    size = columns["state"].shape
    for name in ("last", "ratio"):
        if columns[name].ndim == 0:
            columns[name] = np.broadcast_to(columns[name], size)
    if any(column.shape != size for column in columns.values()) or len(size) != 1:
        shapes = ", ".join(f"{name} {list(column.shape)}" for name, column in columns.items())
        raise ValueError(f"transitions must be vectors of one length, but are {shapes}")
    for name, bound in (("state", num_states), ("next_state", num_states), ("action", num_actions)):
        if bound is not None:
            check_index(name, columns[name], bound)
            columns[name] = columns[name].astype(np.int64)  # a small type would overflow in a pair's index
    if columns["last"].dtype != bool:
        raise ValueError(f"last must hold booleans, not {columns['last'].dtype}")
    for name in ("reward", "ratio"):
        columns[name] = numbers(name, columns[name])
        check_finite(name, columns[name])
    log = Transitions(**columns)
    negative = np.flatnonzero(np.less(log.ratio, 0))
    if negative.size:
        raise ValueError(f"ratio[{negative[0]}] = {columns['ratio'][negative[0]]} is negative")
    gap = np.flatnonzero(~columns["last"][:-1] & (log.next_state[:-1] != log.state[1:]))
    if gap.size:
        t = gap[0]
        raise ValueError(
            f"next_state[{t}] = {log.next_state[t]}, but the trajectory continues in state {log.state[t + 1]}"
        )
    return log
