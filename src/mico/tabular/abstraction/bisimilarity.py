"""The bisimulation relation of an MDP or a Markov chain by partition refinement, with an explicit tolerance."""

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from mico.tabular._validation import Matrix, checked_not_negative
from mico.tabular.abstraction.partition import Partition
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP
from mico.tabular.policies import PolicyLike, as_chain
from mico.tabular.problems.problem import Model, Problem, as_mdp

_ENTRIES = 2_000_000  # probabilities of moving into classes that are held at a time
# With fewer states NumPy's rounds take at worst about as long as importing Numba and loading what it compiled.
_COMPILED_FROM = 2_000


class _Entries(NamedTuple):
    """Features of states: `feature` of `state` is `value`; those not listed are 0, and the listed ones are then > 0."""

    state: Int[np.ndarray, " K"]
    feature: Int[np.ndarray, " K"]
    value: Float[np.ndarray, " K"]


def bisimulation_relation(mdp: MDP | Problem, *, tolerance: float) -> Partition:
    r"""Partition of the states into classes of bisimilar states, up to `tolerance`.

    The classes are the coarsest ones in which, for every action a and class c, the states agree in $r^a_x$ and
    $P^a_x(c)$. They are found in rounds: the classes by reward first; then all classes are cut at once by the
    probabilities of moving into each of them, until no class falls apart. Inside a class the values of such a feature
    are sorted, and the class is cut wherever two consecutive ones are more than `tolerance` apart. Hence

    - neither the order of states nor that of actions matters, up to rounding of sums;
    - two states are separated only by a gap wider than `tolerance` between values of states of their class, and in
      the end no class has such a gap. States of one class may differ by more, through others in between;
    - what separates two states without a tolerance does so with one that is smaller than all gaps between distinct
      values. 1e-9 is a good choice for probabilities of usual size; below rounding (1e-12, say) states may be
      separated by the last bits of a sum, and 0 is meant for models whose sums are exact.

    From 2,000 states on the refinement is compiled by Numba, once per installation in some seconds, and takes time
    near linear in the number of transitions; smaller models are refined by NumPy, which is there at once.

    Args:
        mdp: A Problem or an MDP; rewards count by their means.
        tolerance: Largest gap between consecutive values that is ignored, in units of rewards and of probabilities; 0
            or more.

    Returns:
        The classes.

    Raises:
        ValueError: If `mdp` is neither a Problem nor an MDP, or `tolerance` is negative or not finite.

    Examples:
        Two workplaces in which one action stays, the other goes to the end, with equal rewards:

        >>> stay, go = [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 1], [0, 0, 1]]
        >>> mdp = MDP(np.stack([stay, go], axis=1), [[1.0, 0.5], [1.0, 0.5], [0.0, 0.0]], discount=0.9)
        >>> bisimulation_relation(mdp, tolerance=1e-9).block
        array([0, 0, 1])
    """
    mdp = as_mdp(mdp)
    return _relation(mdp.kernels, mdp.relative, tolerance)


def policy_bisimulation_relation(model: Model, policy: PolicyLike = None, *, tolerance: float) -> Partition:
    r"""Partition of the states of a Markov chain into classes that agree in $r_x$ and $P_x(c)$ for every class c.

    This is lumpability of the chain, or π-bisimulation of an MDP under a policy. Tolerance and speed are as in
    `bisimulation_relation`.

    Args:
        model: A Chain; or a Problem or an MDP, with a policy.
        policy: As in `mico.tabular.solve`; None means uniform.
        tolerance: As in `bisimulation_relation`.

    Returns:
        The classes.

    Raises:
        ValueError: If `policy` does not fit the model, or `tolerance` is negative or not finite.

    Examples:
        >>> from mico.tabular import Chain
        >>> chain = Chain([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], reward=[0.0, 1.0, 1.0], discount=0.9)
        >>> policy_bisimulation_relation(chain, tolerance=1e-9).block
        array([0, 1, 1])
    """
    chain = as_chain(model, policy)
    return _relation([chain.transition], chain.relative[:, None], tolerance)


def relation_of(model: MDP | Chain, tolerance: float, unit: float) -> Partition:
    """The relation of an MDP, or of a chain, with rewards in a unit of their own."""
    if isinstance(model, Chain):
        return _relation([model.transition], model.relative[:, None] / unit, tolerance)
    return _relation(model.kernels, model.relative / unit, tolerance)


def _relation(kernels: list[Matrix], reward: Float[np.ndarray, "S A"], tolerance: float) -> Partition:
    tolerance = checked_not_negative("tolerance", tolerance)
    sparse = [sp.csr_array(kernel) for kernel in kernels]
    if len(reward) < _COMPILED_FROM:
        return Partition.from_labels(_refine(sp.vstack(sparse, format="csr"), reward, tolerance))
    from mico.tabular.abstraction._splitters import refine  # to import Numba takes longer than to refine a small model

    return Partition.from_labels(refine(sparse, reward, tolerance))


def _refine(kernel: sp.csr_array, reward: Float[np.ndarray, "S A"], tolerance: float) -> Int[np.ndarray, " S"]:
    """Labels of the classes, by rounds over all states; rows of `kernel` are states, action after action."""
    block, chained = _split(np.zeros(len(reward), dtype=np.int64), [_rewards(reward)], tolerance)
    new = np.full(block.max() + 1, block.max() > 0)
    while new.any():
        # A class whose values all lie within the tolerance stays whole however it shrinks, so only new classes can
        # separate its states; where values form a longer chain of small steps, every feature is looked at again.
        rewards = [_rewards(reward)] if chained else []
        moves = _moves(kernel, block, new | chained)
        refined, chained = _split(block, itertools.chain(rewards, moves), tolerance)
        block, new = refined, _new_classes(refined, block)
    return block


def _rewards(reward: Float[np.ndarray, "S A"]) -> _Entries:
    state, action = np.indices(reward.shape)
    return _Entries(state.ravel(), action.ravel(), reward.ravel())


def _moves(kernel: sp.csr_array, block: Int[np.ndarray, " S"], wanted: Bool[np.ndarray, " C"]) -> Iterator[_Entries]:
    r"""$P^a_x(c)$ for the wanted classes c, in batches of a bounded number of entries."""
    size = block.size
    load = np.bincount(block, weights=np.bincount(kernel.indices, minlength=size))
    batch = np.where(wanted, np.cumsum(np.where(wanted, load, 0)) // _ENTRIES, -1)
    for number in np.unique(batch[wanted]):
        chosen = batch == number
        inside = np.flatnonzero(chosen[block])
        column = (np.cumsum(chosen) - 1)[block[inside]]
        into = sp.csr_array((np.ones(inside.size), (inside, column)), shape=(size, int(chosen.sum())))
        mass = sp.coo_array(kernel @ into)
        row, column = (axis.astype(np.int64) for axis in mass.coords)
        yield _Entries(row % size, (row // size) * into.shape[1] + column, mass.data)


def _split(
    block: Int[np.ndarray, " S"], features: Iterable[_Entries], tolerance: float
) -> tuple[Int[np.ndarray, " S"], bool]:
    """Every class split by every feature at once, and whether some feature still spreads beyond the tolerance."""
    label, chained = block, False
    several = (np.bincount(block) > 1)[block]
    for entries in features:
        entries = _Entries(*(column[several[entries.state]] for column in entries))
        if entries.state.size:
            state, code, spreads = _pieces(entries, block, tolerance)
            label = _append_codes(label, state, code)
            chained = chained or spreads
    return np.unique(label, return_inverse=True)[1], chained


def _pieces(
    entries: _Entries, block: Int[np.ndarray, " S"], tolerance: float
) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"], bool]:
    """States above the lowest piece of their class in a feature, a code for their piece, and if a piece spreads."""
    sizes = np.bincount(block)
    group = entries.feature * sizes.size + block[entries.state]
    order = np.lexsort((entries.value, group))
    state, group, value = entries.state[order], group[order], entries.value[order]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    length = np.diff(first, append=group.size)
    below = np.roll(value, 1)
    # states of the class that are not listed stand at 0, below all the others
    below[first] = np.where(length < sizes[block[state[first]]], 0.0, value[first])
    jump = value - below > tolerance
    climbed = np.cumsum(jump)
    higher = climbed > np.repeat(climbed[first] - jump[first], length)
    opens = jump.copy()
    opens[first] = True
    bottom = np.flatnonzero(opens)
    top = np.append(bottom[1:], group.size) - 1
    spread = value[top] - np.where(jump, value, below)[bottom]
    return state[higher], np.cumsum(opens)[higher], bool((spread > tolerance).any())


def _append_codes(
    label: Int[np.ndarray, " S"], state: Int[np.ndarray, " k"], code: Int[np.ndarray, " k"]
) -> Int[np.ndarray, " S"]:
    """States keep one label iff they had one and have the same list of codes; lists are compared place by place."""
    order = np.argsort(state, kind="stable")
    state, code = state[order], code[order]
    spot = np.flatnonzero(np.diff(state, prepend=-1))
    end = np.append(spot[1:], state.size)
    label = label.copy()
    while spot.size:
        mine = state[spot]
        pairs = label[mine] * (code.max() + 1) + code[spot]
        _, number, shared = np.unique(pairs, return_inverse=True, return_counts=True)
        label[mine] = label.max() + 1 + number
        spot = spot + 1
        going = (spot < end) & (shared[number] > 1)
        spot, end = spot[going], end[going]
    return label


def _new_classes(block: Int[np.ndarray, " S"], before: Int[np.ndarray, " S"]) -> Bool[np.ndarray, " C"]:
    """Which classes are only a part of a class of before."""
    parent = np.zeros(block.max() + 1, dtype=np.int64)
    parent[block] = before
    return np.bincount(parent)[parent] > 1
