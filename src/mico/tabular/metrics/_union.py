"""Two models side by side as one, for distances between the states of the one and of the other."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from mico.tabular._rounding import UNIT, Rounding
from mico.tabular._validation import Matrix
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP
from mico.tabular.outcomes import RewardLaw


def union(one: MDP | Chain, other: MDP | Chain, *, pad_actions: bool = False) -> MDP | Chain:
    """The disjoint union: the states of the one, then those of the other; no transition leads across.

    With `pad_actions` the model with fewer actions gets copies of its first, which a Hausdorff distance does not see.
    """
    if one.discount != other.discount:
        raise ValueError(f"other must have the discount of model, {one.discount}, got {other.discount}")
    if isinstance(one, Chain) and isinstance(other, Chain):
        relative, rounding = _rewards(one, other, one.relative, other.relative)
        law = None
        if one.law is not None and other.law is not None:
            law, relative = _laws(one.law, other.law), np.concatenate([one.reward, other.reward])
        return Chain(_blocks(one.transition, other.transition), relative, one.discount, law=law, rounding=rounding)
    if isinstance(one, Chain) or isinstance(other, Chain):
        raise ValueError("other must be a Chain where model is one, and an MDP where model is one")
    return _union_of_mdps(one, other, pad_actions=pad_actions)


def _union_of_mdps(one: MDP, other: MDP, *, pad_actions: bool) -> MDP:
    actions = max(one.num_actions, other.num_actions)
    if one.num_actions != other.num_actions and not pad_actions:
        raise ValueError(f"other must have the {one.num_actions} actions of model, got {other.num_actions}")
    taken = [[action if action < mdp.num_actions else 0 for action in range(actions)] for mdp in (one, other)]
    relative, rounding = _rewards(one, other, one.relative[:, taken[0]], other.relative[:, taken[1]])
    pairs = [(one.kernels[a], other.kernels[b]) for a, b in zip(*taken, strict=True)]
    kernels: Any = [_blocks(a, b) for a, b in pairs]
    return MDP(
        kernels if sp.issparse(kernels[0]) else np.stack(kernels, axis=1), relative, one.discount, rounding=rounding
    )


def _rewards(one: Any, other: Any, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, Rounding]:
    """Rewards without one constant for both, and the rounding of both models.

    The constants' difference and its addition are off by a unit of the largest reward each; one is to spare.
    """
    apart = other.middle - one.middle
    relative = np.concatenate([first, second + apart])
    shift = 3 * UNIT * max(abs(apart), float(np.abs(relative).max())) if apart else 0.0
    reward = max(one.rounding.reward, other.rounding.reward) + shift
    return relative, Rounding(reward, max(one.rounding.transition, other.rounding.transition))


def _blocks(one: Matrix, other: Matrix) -> Matrix:
    if sp.issparse(one) or sp.issparse(other):
        return sp.csr_array(sp.block_diag((one, other), format="csr"))
    size = len(one) + len(other)
    rows = np.zeros((size, size))
    rows[: len(one), : len(one)], rows[len(one) :, len(one) :] = one, other
    return rows


def _laws(one: RewardLaw, other: RewardLaw) -> RewardLaw:
    levels, level = np.unique(np.concatenate([one.levels, other.levels]), return_inverse=True)
    weights = sp.coo_array(sp.block_diag((one.weights, other.weights)))
    row, column = weights.coords
    shape = (weights.shape[0], levels.size)
    return RewardLaw(levels, sp.csr_array((weights.data, (row, level[column])), shape=shape))
