"""Partition refinement by a worklist of splitters, compiled by Numba; `mico.tabular.relation` says what it computes.

The scheme is that of Valmari and Franceschinis (Simple O(m log n) time Markov chain lumping, TACAS 2010): of the
classes into which one has been split all but the largest are splitters, and a splitter looks at its predecessors only.
They compare weights for equality. With a tolerance the largest class is left out only where a bound proves that it
could not tell any two states apart, and all splitters of a round cut the classes that stood at its beginning, so that
their order does not matter.
"""

from collections.abc import Callable
from typing import NamedTuple, no_type_check

import numpy as np
import scipy.sparse as sp
from numba import njit

_EPS = float(np.finfo(float).eps)
_RUN = 16  # values that are sorted by insertion


def _compiled(function: Callable) -> Callable:
    """Compile a function when it is first called, and keep the machine code on disk where there is room for it."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # no folder can be written: neither that of this file nor one of the user
        return njit(function)


class _Edges(NamedTuple):
    """Transitions by action and target: those into y by action a are start[a * S + y] up to the next start."""

    start: np.ndarray
    source: np.ndarray
    weight: np.ndarray


class _Classes(NamedTuple):
    """A refinable partition: class c holds the states elements[first[c] : end[c]].

    `parent` is the class of the beginning of the round that a class is a part of, which held
    elements[old_first : old_end]. `spread` bounds how far probabilities of moving into a class differ inside any class,
    `wide` marks classes in which rewards differ by more than the tolerance, `single` states alone in their class.
    """

    number: np.ndarray
    elements: np.ndarray
    place: np.ndarray
    block: np.ndarray
    first: np.ndarray
    end: np.ndarray
    marked: np.ndarray
    parent: np.ndarray
    old_first: np.ndarray
    old_end: np.ndarray
    spread: np.ndarray
    wide: np.ndarray
    single: np.ndarray


class _Work(NamedTuple):
    """Values of one feature by state, the states that have one, and these by class."""

    value: np.ndarray
    touched: np.ndarray
    groups: np.ndarray
    count: np.ndarray
    low: np.ndarray
    high: np.ndarray
    offset: np.ndarray
    member: np.ndarray
    split: np.ndarray


class _Queue(NamedTuple):
    """Classes that a round looks at; `heir` is the largest of the classes that one has been split into."""

    splitter: np.ndarray
    largest: np.ndarray
    changed: np.ndarray
    watched: np.ndarray
    heir: np.ndarray


def refine(kernels: list[sp.csr_array], reward: np.ndarray, tolerance: float) -> np.ndarray:
    """Refine the classes by reward until no class falls apart.

    Args:
        kernels: The transition matrix [S, S] of each action.
        reward: Rewards [S, A].
        tolerance: Two consecutive values of a feature that are farther apart than this part a class.

    Returns:
        A label of the class of each state [S].
    """
    size = len(reward)
    sums = [kernel.sum(axis=1) for kernel in kernels]
    rounding = max(_rounding(kernel) for kernel in kernels)
    classes, work, queue = _one_class(size), _work(size), _Queue(*(np.full(size, -1, dtype=np.int32) for _ in range(5)))
    classes.spread[0] = max(float(np.ptp(total)) for total in sums) + rounding
    _refine(_edges(kernels), np.ascontiguousarray(reward.T), classes, work, queue, float(tolerance), rounding)
    return classes.block


def _rounding(kernel: sp.csr_array) -> float:
    """How far a difference of sums can be from the sum of what it leaves: by nothing if all sums are exact."""
    scaled = kernel.data * 2.0**52
    if np.array_equal(scaled, np.rint(scaled)):  # sums below 2 of such multiples need 53 bits
        return 0.0
    return 8 * _EPS * int(np.diff(kernel.indptr).max())


def _edges(kernels: list[sp.csr_array]) -> _Edges:
    into = [sp.csc_array(kernel) for kernel in kernels]
    bounds = np.cumsum([0] + [matrix.nnz for matrix in into])
    start = [matrix.indptr[:-1] + bounds[action] for action, matrix in enumerate(into)]
    return _Edges(
        np.concatenate([*start, bounds[-1:]]).astype(np.int64),
        _joined([matrix.indices for matrix in into], np.int32),
        _joined([matrix.data for matrix in into], np.float64),
    )


def _joined(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    if len(parts) == 1:
        return np.array(parts[0], dtype=dtype, copy=None)
    return np.concatenate(parts).astype(dtype, copy=False)


def _one_class(size: int) -> _Classes:
    index = np.arange(size, dtype=np.int32)
    zeros = {
        name: np.zeros(size, dtype=np.int32) for name in ("block", "first", "end", "marked", "old_first", "old_end")
    }
    classes = _Classes(
        number=np.ones(1, dtype=np.int64),
        elements=index,
        place=index.copy(),
        parent=index.copy(),
        spread=np.zeros(size),
        wide=np.ones(size, dtype=np.bool_),
        single=np.zeros(size, dtype=np.bool_),
        **zeros,
    )
    classes.end[0] = classes.old_end[0] = size
    return classes


def _work(size: int) -> _Work:
    integers = (np.zeros(size, dtype=np.int32) for _ in range(6))
    touched, groups, count, offset, member, split = integers
    return _Work(np.zeros(size), touched, groups, count, np.zeros(size), np.zeros(size), offset, member, split)


@_compiled
@no_type_check
def _refine(edges, reward, classes, work, queue, tolerance, rounding):
    queue.changed[0] = 0
    _cut_by_rewards(reward, classes, work, queue.changed[:1], tolerance)
    before, num_watched = np.int64(1), np.int64(0)
    while before < classes.number[0] < classes.block.size:
        now = classes.number[0]
        num_old, num_changed, num_splitters = _next_round(classes, queue, before, num_watched, rounding)
        before, num_watched = now, np.int64(0)
        _cut_by_rewards(reward, classes, work, queue.changed[:num_changed], tolerance)
        for i in range(num_splitters + num_old):
            if i < num_splitters:
                splitter = queue.splitter[i]
            else:
                splitter = queue.largest[i - num_splitters]
                # What moves into the largest class is what moved into the whole less what moves into the others. Where
                # that bounds differences by the tolerance, this class tells no states apart, now or later.
                if classes.spread[splitter] * (1 + 1e-6) <= tolerance:  # the factor covers rounding of the bound
                    continue
            spread = _cut_by_class(splitter, edges, classes, work, tolerance)
            classes.spread[splitter] = spread
            if queue.heir[splitter] >= 0:
                classes.spread[queue.heir[splitter]] += spread
                queue.heir[splitter] = -1
            if spread > tolerance:
                queue.watched[num_watched] = splitter
                num_watched += 1


@_compiled
@no_type_check
def _next_round(classes, queue, before, num_watched, rounding):
    """Queue all new classes but the largest part of each old one, and old classes that are to be watched."""
    heir, changed, now = queue.heir, queue.changed, classes.number[0]
    num_old, num_splitters = np.int64(0), np.int64(0)
    for new in range(before, now):
        old = classes.parent[new]
        if heir[old] < 0:
            heir[old] = changed[num_old] = old
            num_old += 1
        largest = heir[old]
        if classes.end[new] - classes.first[new] > classes.end[largest] - classes.first[largest]:
            heir[old] = new
    for watched in queue.watched[:num_watched]:
        if heir[watched] < 0:
            queue.splitter[num_splitters] = watched
            num_splitters += 1
    for i in range(num_old):
        old = changed[i]
        queue.largest[i] = heir[old]
        classes.spread[heir[old]] = classes.spread[old] + rounding
    num_changed = num_old
    for new in range(before, now):
        old = classes.parent[new]
        changed[num_changed], classes.parent[new] = new, new
        heir[new], classes.wide[new] = heir[old], classes.wide[old]
        num_changed += 1
    for number in changed[:num_changed]:
        first, end = classes.first[number], classes.end[number]
        classes.old_first[number], classes.old_end[number] = first, end
        if end - first == 1:
            classes.single[classes.elements[first]] = True
        if heir[number] != number:
            queue.splitter[num_splitters] = number
            num_splitters += 1
        else:
            heir[number] = -1
    return num_old, num_changed, num_splitters


@_compiled
@no_type_check
def _cut_by_rewards(reward, classes, work, numbers, tolerance):
    for number in numbers:
        first, end = classes.old_first[number], classes.old_end[number]
        if end - first == 1 or not classes.wide[number]:
            continue
        widest = 0.0
        for action in range(len(reward)):
            low, high = np.inf, -np.inf
            for i in range(end - first):
                state = work.member[i] = classes.elements[first + i]
                value = work.value[state] = reward[action, state]
                low, high = min(low, value), max(high, value)
            widest = max(widest, _cut(np.int64(0), np.int64(end - first), (low, low, high), classes, work, tolerance))
            for i in range(end - first):
                work.value[work.member[i]] = 0.0
        classes.wide[number] = widest > tolerance


@_compiled
@no_type_check
def _cut_by_class(splitter, edges, classes, work, tolerance):
    """Cut all classes by the probability of moving into one, and say how much it still differs inside a piece."""
    size, widest = classes.block.size, 0.0
    for action in range((edges.start.size - 1) // size):
        touched = work.touched[: _move_into(splitter, edges.start[action * size :], edges, classes, work)]
        groups = work.groups[: _group(touched, classes, work)]
        total = 0
        for number in groups:
            if work.count[number] < classes.old_end[number] - classes.old_first[number]:
                floor = 0.0  # other states of the class move there with probability 0
            else:
                floor = work.low[number]
            if work.high[number] - floor <= tolerance:
                widest = max(widest, work.high[number] - floor)
                work.offset[number] = -1
            else:
                work.offset[number] = total
                total += work.count[number]
        if total > 0:
            for state in touched:
                number = classes.parent[classes.block[state]]
                if work.offset[number] >= 0:
                    work.member[work.offset[number]] = state
                    work.offset[number] += 1
        for number in groups:
            if work.offset[number] >= 0:
                end, low = np.int64(work.offset[number]), work.low[number]
                whole = work.count[number] == classes.old_end[number] - classes.old_first[number]
                values = (low if whole else 0.0, low, work.high[number])
                widest = max(widest, _cut(np.int64(end - work.count[number]), end, values, classes, work, tolerance))
            work.count[number] = 0
        for state in touched:
            work.value[state] = 0.0
    return widest


@_compiled
@no_type_check
def _move_into(splitter, start, edges, classes, work):
    """Add up the probabilities of moving into a class, of all states that could be told apart from others by them."""
    num_touched = 0
    for state in classes.elements[classes.old_first[splitter] : classes.old_end[splitter]]:
        for edge in range(start[state], start[state + 1]):
            source = edges.source[edge]
            if work.value[source] == 0.0:
                if classes.single[source]:
                    continue
                work.touched[num_touched] = source
                num_touched += 1
            work.value[source] += edges.weight[edge]
    return num_touched


@_compiled
@no_type_check
def _group(touched, classes, work):
    """Count the states by class, with their least and largest values."""
    num_groups = 0
    for state in touched:
        number, value = classes.parent[classes.block[state]], work.value[state]
        if work.count[number] == 0:
            work.groups[num_groups] = number
            num_groups += 1
            work.low[number] = work.high[number] = value
        else:
            work.low[number] = min(work.low[number], value)
            work.high[number] = max(work.high[number], value)
        work.count[number] += 1
    return num_groups


@_compiled
@no_type_check
def _cut(begin, end, values, classes, work, tolerance):
    """Part the members between `begin` and `end`, of one class, at wide gaps; `values` are the floor, least, largest.

    States at the floor need not be among the members. Returned is the widest range of values inside one piece.
    """
    below, low, high = values
    if high - low <= tolerance:  # the members are one piece, with or without the states at the floor
        if low - below <= tolerance:
            return high - below
        _split_off(begin, end, classes, work)
        return high - low
    _sort(work.member[begin:end], work.value)
    bottom, widest, piece = below, 0.0, np.int64(-1)
    for i in range(begin, end):
        value = work.value[work.member[i]]
        if value - below > tolerance:
            if piece >= 0:
                _split_off(piece, i, classes, work)
            widest = max(widest, below - bottom)
            bottom, piece = value, i
        below = value
    if piece >= 0:
        _split_off(piece, end, classes, work)
    return max(widest, below - bottom)


@_compiled
@no_type_check
def _sort(member, value):
    """Members in ascending order of their values: runs sorted by insertion, then merged two by two."""
    size = member.size
    keys, other, other_keys = np.empty(size), np.empty(size, np.int32), np.empty(size)
    for i in range(size):
        keys[i] = value[member[i]]
    for begin in range(0, size, _RUN):
        for i in range(begin + 1, min(begin + _RUN, size)):
            state, key, spot = member[i], keys[i], i
            while spot > begin and keys[spot - 1] > key:
                member[spot], keys[spot] = member[spot - 1], keys[spot - 1]
                spot -= 1
            member[spot], keys[spot] = state, key
    width = _RUN
    while width < size:
        for begin in range(0, size, 2 * width):
            middle, end = min(begin + width, size), min(begin + 2 * width, size)
            left, right = begin, middle
            for i in range(begin, end):
                if left < middle and (right == end or keys[left] <= keys[right]):
                    other[i], other_keys[i] = member[left], keys[left]
                    left += 1
                else:
                    other[i], other_keys[i] = member[right], keys[right]
                    right += 1
        for i in range(size):
            member[i], keys[i] = other[i], other_keys[i]
        width *= 2


@_compiled
@no_type_check
def _split_off(begin, end, classes, work):
    """Give the members between `begin` and `end` a class of their own in each class that has others as well."""
    num_split = 0
    for state in work.member[begin:end]:
        number = classes.block[state]
        if classes.marked[number] == 0:
            work.split[num_split] = number
            num_split += 1
        spot = classes.first[number] + classes.marked[number]
        other, place = classes.elements[spot], classes.place[state]
        classes.elements[spot], classes.elements[place] = state, other
        classes.place[state], classes.place[other] = spot, place
        classes.marked[number] += 1
    for number in work.split[:num_split]:
        first, middle = classes.first[number], classes.first[number] + classes.marked[number]
        classes.marked[number] = 0
        if middle < classes.end[number]:
            new = classes.number[0]
            classes.number[0] += 1
            classes.parent[new] = classes.parent[number]
            classes.first[new], classes.end[new], classes.first[number] = first, middle, middle
            for state in classes.elements[first:middle]:
                classes.block[state] = new
