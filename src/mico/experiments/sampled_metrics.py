"""Bisimulation from sampled next states, which goes elsewhere; and the exact limit of n-step MICo."""

from collections.abc import Iterator
from itertools import islice
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from mico.tabular import MDP, Chain
from mico.tabular.metrics.mico import doubling
from mico.tabular.solvers.transport import transport_cost

SelfDistance = Literal["sampled", "zero"]
Distances = Float[np.ndarray, "S S"]
Law = tuple[np.ndarray, np.ndarray]  # values of a random number, ascending, and their probabilities

_TOLERANCE = 1e-10
_DRAWS = 500  # sweeps whose samples are drawn at once


def sampled_bisimulation(
    chain: Chain, m: int, moments: Int[np.ndarray, " K"], *, seed: int, self_distance: SelfDistance
) -> Float[np.ndarray, "K S S"]:
    r"""$d(x, y) \leftarrow (1-\epsilon) d(x, y) + \epsilon\,(|r_x - r_y| + \gamma W_d(\hat P_x, \hat P_y))$ in sweeps.

    $\hat P$ are empirical distributions of m next states, fresh for each pair and sweep; rewards are known. The steps
    are those of online MICo, $\epsilon = 1/(1 + (1-\gamma)k)$. As $W_d$ is convex, the limit lies above $d_\pi$ for
    any m. With m = 1, where $W_d(\delta_{x'}, \delta_{y'}) = d(x', y')$, it is $U$, or less if self-distances are zero.
    Returns the tables after so many sweeps as each of the `moments`, ascending, says.
    """
    if m < 1 or moments.min() < 1:
        raise ValueError(f"m and moments must be at least 1, but are {m} and {moments.min()}")
    if self_distance not in ("sampled", "zero"):
        raise ValueError(f"self_distance must be 'sampled' or 'zero', not {self_distance!r}")
    x, y = np.triu_indices(chain.num_states, 0 if self_distance == "sampled" else 1)
    gap, d, trace = np.abs(chain.reward[x] - chain.reward[y]), np.zeros((chain.num_states,) * 2), []
    sweeps = islice(_samples(chain.dense_transition(), x, y, m, seed), int(moments.max()))
    for k, (left, right) in enumerate(sweeps):
        apart = np.array([_transport(one, two, d) for one, two in zip(left, right)])
        step = 1 / (1 + (1 - chain.discount) * k)
        d[x, y] += step * (gap + chain.discount * apart - d[x, y])
        d[y, x] = d[x, y]
        if k + 1 in moments:
            trace.append(d.copy())
    return np.array(trace)


def n_step_mico(mdp: MDP, policy: Float[np.ndarray, "S A"], horizon: int) -> Distances:
    r"""The fixed point of $T_n U = \mathbb E|G_n - G'_n| + \gamma^n P^n U (P^n)^\top$, with $G_n$ the sum of n rewards.

    The law of $G_n$ is found by adding what can happen first to what can happen in n − 1 steps.
    """
    laws: list[Law] = [(np.zeros(1), np.ones(1))] * mdp.num_states
    for _ in range(horizon):
        laws = _one_step_more(mdp, policy, laws)
    gap = np.array([[_mean_gap(one, two) for two in laws] for one in laws])
    reach = np.linalg.matrix_power(mdp.chain(policy).dense_transition(), horizon)
    return doubling(reach, gap, mdp.discount**horizon, tolerance=_TOLERANCE).matrix


def _one_step_more(mdp: MDP, policy: Float[np.ndarray, "S A"], laws: list[Law]) -> list[Law]:
    """The laws of the sums in each state from those of sums of one reward fewer."""
    outcomes = mdp.outcomes()
    chance = outcomes.probability * policy[outcomes.state, outcomes.action]
    longer = []
    for x in range(mdp.num_states):
        mine = np.flatnonzero((outcomes.state == x) & (chance > 0))
        after = [laws[outcomes.next_state[k]] for k in mine]
        sums = np.concatenate([outcomes.reward[k] + mdp.discount * law[0] for k, law in zip(mine, after)])
        weights = np.concatenate([chance[k] * law[1] for k, law in zip(mine, after)])
        levels, level = np.unique(sums, return_inverse=True)
        longer.append((levels, np.bincount(level, weights)))
    return longer


def _mean_gap(one: Law, two: Law) -> float:
    r"""$\mathbb E|G - H| = \int F + H - 2FH$ of the distribution functions of independent G and H."""
    order = np.argsort(np.concatenate([one[0], two[0]]))
    f = np.concatenate([one[1], np.zeros(two[1].size)])[order].cumsum()
    h = np.concatenate([np.zeros(one[1].size), two[1]])[order].cumsum()
    return float(np.diff(np.concatenate([one[0], two[0]])[order]) @ (f + h - 2 * f * h)[:-1])


def _samples(
    rows: Distances, x: Int[np.ndarray, " K"], y: Int[np.ndarray, " K"], m: int, seed: int
) -> Iterator[tuple[Float[np.ndarray, "K S"], Float[np.ndarray, "K S"]]]:
    """Without end: the empirical distributions of m next states of each x and of each y."""
    rng = np.random.default_rng(seed)
    while True:
        left, right = (rng.multinomial(m, rows[side], size=(_DRAWS, side.size)) / m for side in (x, y))
        yield from zip(left, right)


def _transport(one: Float[np.ndarray, " S"], two: Float[np.ndarray, " S"], d: Distances) -> float:
    i, j = np.flatnonzero(one), np.flatnonzero(two)
    return transport_cost(one[i], two[j], d[np.ix_(i, j)])
