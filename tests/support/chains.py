"""Chains that are hard on solvers in one way each: hubs, cycles, absorbing states, no future, rewards of every kind."""

import numpy as np
import pytest
import scipy.sparse as sp

from mico.tabular import Chain, garnet, make


def ring(size, back=0.0):
    """A walk around a ring, forwards and sometimes back."""
    here = np.arange(size)
    columns = np.concatenate([(here + 1) % size, (here - 1) % size])
    weight = np.repeat([1 - back, back], size)
    return sp.csr_array((weight, (np.tile(here, 2), columns)), shape=(size, size))


def star(leaves):
    """A hub that leads to every leaf, and leaves that lead to the hub: many rows into one column."""
    rows = np.zeros((leaves + 1, leaves + 1))
    rows[0, 1:], rows[1:, 0] = 1 / leaves, 1
    return rows


def funnel(size):
    """Every state falls into the first with probability ½ and moves on otherwise: its column sums to size/2."""
    rows = np.zeros((size, size))
    rows[:, 0] += 0.5
    rows[np.arange(size), np.minimum(np.arange(size) + 1, size - 1)] += 0.5
    return rows


def bump(size, at):
    reward = np.zeros(size)
    reward[at] = 1
    return reward


CHAINS = {
    "grid": make("open-grid", height=7, width=8).mdp.chain(),
    "grid at a large discount": make("open-grid", height=5, width=6, discount=0.99).mdp.chain(),
    "walls and slips": make("four-rooms", slip=0.2).mdp.chain(),
    "rewards of both signs": make("mirrored-rooms", dynamics="continuing").mdp.chain(),
    "garnet": garnet(30, 3, seed=1).mdp.chain(),
    "garnet at a large discount": garnet(25, 2, seed=2, discount=0.99).mdp.chain(),
    "cycle": Chain(ring(40), bump(40, 3), 0.9),
    "cycle at a large discount": Chain(ring(15), np.sin(np.arange(15)), 0.99),
    "ring": Chain(ring(60, 0.3), bump(60, 0), 0.95),
    "star, reward at the hub": Chain(star(30), bump(31, 0), 0.9),
    "star, reward at a leaf": Chain(star(30), bump(31, 7), 0.99),
    "star, rewards at all leaves": Chain(star(12), np.arange(13.0), 0.9),
    "funnel": Chain(funnel(40), bump(40, 39), 0.95),
    "absorbing": Chain(np.diag(np.ones(19), 1) + np.diag(bump(20, 19)), bump(20, 18), 0.9),
    "identity": Chain(np.eye(6), np.arange(6.0), 0.9),
    "no future": Chain(funnel(6), np.arange(6.0), 0.0),
    "two levels at every state": Chain(ring(8, 0.5), np.arange(8) % 2 - 5.0, 0.9),
    "one state": Chain([[1.0]], [3.0], 0.9),
    "constant reward": Chain(ring(7), np.full(7, 2.5), 0.9),
    "two states": Chain([[0.5, 0.5], [0, 1]], [1, 0], 0.9),
    "sampled rewards": make("four-rooms", slip=0.1).mdp.chain(reward="sampled"),
    "sampled rewards of actions": garnet(12, 3, seed=5).mdp.chain(reward="sampled"),
    "one state, sampled": make("random-reward").mdp.chain(reward="sampled"),
}

every_chain = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
