"""Random MDPs of a few fixed shapes for property tests, with what breaks solvers: ties, zeros, copies, odd scales."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from mico.tabular import MDP

PARTS = 8  # in `mdps(rows=("parts",))`, probabilities of chains are multiples of 1/8
STATES, ACTIONS, DISCOUNTS = (1, 2, 3, 5, 8), (1, 2, 3), (0.0, 0.5, 0.9, 0.99)
ROWS = ("dense", "sparse", "deterministic", "parts")
REWARDS = ("normal", "negative", "binary", "constant", "huge", "tiny")

seeds = st.integers(0, 2**32 - 1)


class Sample(NamedTuple):
    mdp: MDP
    policy: np.ndarray
    rng: np.random.Generator

    @property
    def scale(self) -> float:
        """What numbers of this MDP are large or small against: how far apart values can be."""
        reward = self.mdp.reward
        return float(np.ptp(reward) or np.abs(reward).max() or 1.0) / (1 - self.mdp.discount)


def transition_rows(rng, kind, shape):
    """Distributions over the last axis of the shape."""
    *lead, size = shape
    if kind == "dense":
        return rng.dirichlet(np.ones(size), size=lead)
    if kind == "deterministic":
        return np.eye(size)[rng.integers(size, size=lead)]
    if kind == "parts":
        return rng.multinomial(PARTS // 2, rng.dirichlet(np.ones(size), size=lead)) / (PARTS // 2)
    weight = rng.random(shape) * (rng.random(shape) < 0.4)
    weight[..., 0] += weight.sum(axis=-1) == 0
    return weight / weight.sum(axis=-1, keepdims=True)


def rewards(rng, kind, shape):
    draws = rng.normal(size=shape)
    return {
        "normal": draws,
        "negative": -np.abs(draws),
        "binary": (draws > 0).astype(float),
        "constant": np.full(shape, draws.flat[0]),
        "huge": 1e7 * draws,
        "tiny": 1e-7 * draws,
    }[kind]


def policies(rng, kind, shape):
    states, actions = shape
    if kind == "deterministic":
        return np.eye(actions)[rng.integers(actions, size=states)]
    if kind == "halves":
        return rng.multinomial(2, np.full(actions, 1 / actions), size=states) / 2
    return rng.dirichlet(np.ones(actions), size=states)


@st.composite
def mdps(draw, *, states=STATES, actions=ACTIONS, discounts=DISCOUNTS, rows=ROWS, pay=REWARDS, twins=None):
    """An MDP and a policy; `twins=True` makes the last state a copy of the first, None leaves it to chance."""
    shape = draw(st.sampled_from(states)), draw(st.sampled_from(actions))
    kind = draw(st.sampled_from(rows))
    rng = np.random.default_rng(draw(seeds))
    transition = transition_rows(rng, kind, (*shape, shape[0]))
    reward = rewards(rng, draw(st.sampled_from(pay)), shape)
    policy = policies(rng, "halves" if kind == "parts" else draw(st.sampled_from(("any", "deterministic"))), shape)
    if draw(st.booleans()):
        transition[0] = np.eye(shape[0])[0]  # absorbing under every action
    if draw(st.booleans()) if twins is None else twins:
        transition[-1], reward[-1], policy[-1] = transition[0], reward[0], policy[0]
    return Sample(MDP(transition, reward, draw(st.sampled_from(discounts))), policy, rng)


def sparse(mdp):
    """The same MDP as one sparse matrix an action."""
    return MDP([sp.csr_array(kernel) for kernel in mdp.kernels], mdp.reward, mdp.discount)
