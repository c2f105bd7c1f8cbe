"""Partition refinement by a worklist of splitters, compiled by Numba; `bisimilarity` says what it computes.

The scheme is that of Valmari and Franceschinis (Simple O(m log n) time Markov chain lumping, TACAS 2010): of the
classes into which one has been split all but the largest are splitters, and a splitter looks at its predecessors only.
They compare weights for equality. With a tolerance the largest class is left out only where a bound proves that it
could not tell any two states apart, and all splitters of a round cut the classes that stood at its beginning, so that
their order does not matter.
"""

from typing import no_type_check

import numpy as np
import scipy.sparse as sp

from mico.tabular._machine_code import machine_code

_EPS = float(np.finfo(float).eps)
_RUN = 16  # values that are sorted by insertion
_STATE = np.dtype([("value", "f8"), ("block", "i4"), ("place", "i4")])
_CLASS = np.dtype(
    [(name, "f8") for name in ("spread", "low", "high")]
    + [
        (name, "i4")
        for name in ("first", "end", "old_first", "old_end", "parent", "marked", "count", "offset", "heir", "wide")
    ]
)  # 64 bytes


# Compiled functions take plain tuples of arrays: machine code on disk that names a class of ours could not be read by a
# version that has another. Where nothing else is said they are as long as there are states:
#
# edges      start, source, weight: transitions into state y by action a are start[a * S + y] up to the next start
# partition  states and classes, a record each; elements, states in order of their classes; the number of classes [1]
# lists      states that have a value; their classes; the states that are cut; the classes that these are cut from; keys
#            of a sort and the ranges that it has yet to sort [64, 2]
# queue      classes: splitters, the largest parts of old classes, all parts, and those watched
#
# Class c holds the states elements[first : end]. Its `parent` is the class at the beginning of the round that it is a
# part of, which held elements[old_first : old_end]; `heir` is that one's largest part, while it is looked for. `spread`
# bounds how far the probabilities of moving into the class differ inside any class; in `wide` classes rewards differ by
# more than the tolerance. `value` is that of one feature, or not a number for a state that is alone in its class;
# `count`, `low` and `high` are of the values inside a class, `offset` is their place among those that are cut.


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
    surveys = [_survey(kernel.indptr, kernel.data) for kernel in kernels]
    rounding = max(rounding for _, rounding in surveys)
    # zeros that are not written to take no memory, so that the record of a class is filled in when the class is made
    states, classes = np.zeros(size, dtype=_STATE), np.zeros(size, dtype=_CLASS)
    states["place"] = np.arange(size)
    classes[0]["end"] = classes[0]["old_end"] = size
    classes[0]["heir"], classes[0]["wide"] = -1, 1
    classes[0]["spread"] = max(spread for spread, _ in surveys) + rounding
    partition = states, classes, np.arange(size, dtype=np.int32), np.ones(1, dtype=np.int64)
    queue = tuple(np.empty(size, dtype=np.int32) for _ in range(4))
    sorting = np.empty(size), np.empty((64, 2), dtype=np.int64)
    lists = *(np.empty(size, dtype=np.int32) for _ in range(4)), *sorting
    by_action = np.array(reward.T, dtype=float, order="C")  # a copy: read-only arrays would be compiled for anew
    _refine(_edges(kernels), by_action, partition, lists, queue, (float(tolerance), rounding))
    return states["block"].copy()


def _edges(kernels: list[sp.csr_array]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    into = [sp.csc_array(kernel) for kernel in kernels]
    if len(into) == 1:
        return into[0].indptr.astype(np.int64), into[0].indices.astype(np.int32, copy=False), into[0].data
    bounds = np.cumsum([0] + [matrix.nnz for matrix in into])
    start = [matrix.indptr[:-1] + bound for matrix, bound in zip(into, bounds)]
    return (
        np.concatenate([*start, bounds[-1:]]).astype(np.int64, copy=False),
        np.concatenate([matrix.indices for matrix in into]).astype(np.int32, copy=False),
        np.concatenate([matrix.data for matrix in into]),
    )


@machine_code
@no_type_check
def _survey(start, weight):
    """How far sums of rows differ, and how far a difference of sums can be from the sum of what it leaves.

    That is by nothing where all weights are multiples of 2^-52, whose sums below 2 need 53 bits.
    """
    exact, longest, low, high = True, 0, np.inf, -np.inf
    for row in range(start.size - 1):
        total = 0.0
        for entry in range(start[row], start[row + 1]):
            total += weight[entry]
            scaled = weight[entry] * 2.0**52
            exact = exact and scaled == np.floor(scaled)
        low, high = min(low, total), max(high, total)
        longest = max(longest, start[row + 1] - start[row])
    return high - low, 0.0 if exact else 8 * _EPS * longest


@machine_code
@no_type_check
def _refine(edges, reward, partition, lists, queue, limits):
    _, classes, _, number_of_classes = partition
    splitters, largest_parts, parts, watched = queue
    tolerance, rounding = limits
    parts[0] = 0
    _cut_by_rewards(reward, parts, np.int64(1), partition, lists, tolerance)
    before, num_watched = np.int64(1), np.int64(0)
    while before < number_of_classes[0] < classes.size:
        now = number_of_classes[0]
        num_old, num_parts, num_splitters = _next_round(partition, queue, before, num_watched, rounding)
        before, num_watched = now, np.int64(0)
        _cut_by_rewards(reward, parts, num_parts, partition, lists, tolerance)
        for i in range(num_splitters + num_old):
            if i < num_splitters:
                splitter = splitters[i]
            else:
                splitter = largest_parts[i - num_splitters]
                # What moves into the largest part is what moved into the whole less what moves into the others. Where
                # that bounds differences by the tolerance, this class separates no states, now or later.
                if classes[splitter].spread * (1 + 1e-6) <= tolerance:  # the factor covers rounding of the bound
                    continue
            spread = _cut_by_class(splitter, edges, partition, lists, tolerance)
            classes[splitter].spread = spread
            if classes[splitter].heir >= 0:
                classes[classes[splitter].heir].spread += spread
                classes[splitter].heir = -1
            if spread > tolerance:
                watched[num_watched] = splitter
                num_watched += 1


@machine_code
@no_type_check
def _next_round(partition, queue, before, num_watched, rounding):
    """Queue all new classes but the largest part of each old one, and old classes that are to be watched."""
    states, classes, elements, number_of_classes = partition
    splitters, largest_parts, parts, watched = queue
    now, num_old, num_splitters = number_of_classes[0], np.int64(0), np.int64(0)
    for new in range(before, now):
        old = classes[new].parent
        if classes[old].heir < 0:
            classes[old].heir = parts[num_old] = old
            num_old += 1
        largest = classes[classes[old].heir]
        if classes[new].end - classes[new].first > largest.end - largest.first:
            classes[old].heir = new
    for i in range(num_watched):
        if classes[watched[i]].heir < 0:
            splitters[num_splitters] = watched[i]
            num_splitters += 1
    for i in range(num_old):
        largest_parts[i] = classes[parts[i]].heir
        classes[largest_parts[i]].spread = classes[parts[i]].spread + rounding
    num_parts = num_old
    for new in range(before, now):
        old = classes[classes[new].parent]
        parts[num_parts] = classes[new].parent = new
        classes[new].heir, classes[new].wide = old.heir, old.wide
        num_parts += 1
    for i in range(num_parts):
        part = classes[parts[i]]
        part.old_first, part.old_end = part.first, part.end
        if part.end - part.first == 1:
            states[elements[part.first]].value = np.nan
        if part.heir != parts[i]:
            splitters[num_splitters] = parts[i]
            num_splitters += 1
        else:
            part.heir = -1
    return num_old, num_parts, num_splitters


@machine_code
@no_type_check
def _cut_by_rewards(reward, parts, num_parts, partition, lists, tolerance):
    states, classes, elements, _ = partition
    _, _, member, _, _, _ = lists
    for n in range(num_parts):
        part = classes[parts[n]]
        first, size = part.old_first, np.int64(part.old_end - part.old_first)
        if size == 1 or not part.wide:
            continue
        widest = 0.0
        for action in range(len(reward)):
            low, high = np.inf, -np.inf
            for i in range(size):
                state = member[i] = elements[first + i]
                value = states[state].value = reward[action, state]
                low, high = min(low, value), max(high, value)
            if high - low > tolerance:
                _sort(member[0:size], states, lists)
            widest = max(widest, _cut(np.int64(0), size, (low, low, high), partition, lists, tolerance))
            for i in range(size):
                states[member[i]].value = 0.0
        part.wide = widest > tolerance


@machine_code
@no_type_check
def _cut_by_class(splitter, edges, partition, lists, tolerance):
    """Cut all classes by the probability of moving into one, and say how much it still differs inside a piece."""
    states, touched = partition[0], lists[0]
    widest = 0.0
    for action in range((edges[0].size - 1) // states.size):
        num_touched = _move_into(splitter, action * states.size, edges, partition, touched)
        spread = _cut_touched(num_touched, True, partition, lists, tolerance)
        if spread < 0:
            spread = _cut_touched(num_touched, False, partition, lists, tolerance)
        widest = max(widest, spread)
        for i in range(num_touched):
            states[touched[i]].value = 0.0
    return widest


@machine_code
@no_type_check
def _cut_touched(num_touched, pieces, partition, lists, tolerance):
    """Cut by the values of the touched states: the classes of the beginning of the round, or what is left of them.

    Gaps count that are gaps between all values of a class of the beginning. `pieces` spares those their sorting that
    are in place already, but sees the values of a piece only. Gaps so wide that not even all touched states could fill
    them by steps within the tolerance are gaps all the same; where others are met, nothing is cut and -1 returned.
    """
    classes = partition[1]
    touched, groups, member, _, _, _ = lists
    num_groups, total, widest = _group(num_touched, pieces, partition, lists), 0, 0.0
    for i in range(num_groups):
        c = classes[groups[i]]
        floor = _floor(c, pieces)
        if c.high - floor <= tolerance:
            widest = max(widest, c.high - floor)
            c.offset = -1
        else:
            c.offset = total
            total += c.count
    if total > 0:
        for i in range(num_touched):
            c = classes[_number(touched[i], pieces, partition)]
            if c.offset >= 0:
                member[c.offset] = touched[i]
                c.offset += 1
    certain = _sort_groups(num_groups, pieces, (num_touched + 2) * tolerance, partition, lists, tolerance)
    for i in range(num_groups):
        c = classes[groups[i]]
        if certain and c.offset >= 0:
            begin, end = np.int64(c.offset - c.count), np.int64(c.offset)
            widest = max(widest, _cut(begin, end, (_floor(c, pieces), c.low, c.high), partition, lists, tolerance))
        c.count = 0
    return widest if certain else -1.0


@machine_code
@no_type_check
def _sort_groups(num_groups, pieces, wide, partition, lists, tolerance):
    """Sort the members of the groups that are cut; of pieces, say if all gaps above the tolerance are wide."""
    states, classes, _, _ = partition
    _, groups, member, _, _, _ = lists
    for i in range(num_groups):
        c = classes[groups[i]]
        if c.offset >= 0:
            begin, end, below = np.int64(c.offset - c.count), np.int64(c.offset), _floor(c, pieces)
            if c.high - c.low > tolerance:
                _sort(member[begin:end], states, lists)
            else:
                end = begin + 1
            for j in range(begin, end if pieces else begin):
                value = c.low if j == begin else states[member[j]].value
                if tolerance < value - below <= wide * (1 + 1e-6):  # the factor covers rounding
                    return False
                below = value
    return True


@machine_code
@no_type_check
def _number(state, pieces, partition):
    states, classes, _, _ = partition
    return states[state].block if pieces else classes[states[state].block].parent


@machine_code
@no_type_check
def _floor(c, pieces):
    """The least value in a group: 0 where there are states that were not touched."""
    size = c.end - c.first if pieces else c.old_end - c.old_first
    return 0.0 if c.count < size else c.low


@machine_code
@no_type_check
def _move_into(splitter, base, edges, partition, touched):
    """Add up the probabilities of moving into a class, of all states that could be separated from others by them."""
    start, source, weight = edges
    states, classes, elements, _ = partition
    num_touched = 0
    for i in range(classes[splitter].old_first, classes[splitter].old_end):
        target = base + elements[i]
        for edge in range(start[target], start[target + 1]):
            state = states[source[edge]]
            if state.value == 0.0:
                touched[num_touched] = source[edge]
                num_touched += 1
            state.value += weight[edge]
    return num_touched


@machine_code
@no_type_check
def _group(num_touched, pieces, partition, lists):
    """Count the touched states by class or piece, with their least and largest values."""
    states, classes, _, _ = partition
    touched, groups, _, _, _, _ = lists
    num_groups = 0
    for i in range(num_touched):
        number, value = _number(touched[i], pieces, partition), states[touched[i]].value
        c = classes[number]
        if c.count == 0:
            groups[num_groups] = number
            num_groups += 1
            c.low, c.high = value, value
        elif value < c.low:
            c.low = value
        elif value > c.high:
            c.high = value
        c.count += 1
    return num_groups


@machine_code
@no_type_check
def _cut(begin, end, values, partition, lists, tolerance):
    """Part the members between `begin` and `end`, of one class, at wide gaps; `values` are the floor, least, largest.

    The members are sorted if they differ beyond the tolerance. States at the floor need not be among them. Returned is
    the widest range of values inside one piece.
    """
    states, member = partition[0], lists[2]
    below, low, high = values
    if high - low <= tolerance:  # the members are one piece, with or without the states at the floor
        if low - below <= tolerance:
            return high - below
        _split_off(begin, end, partition, lists)
        return high - low
    bottom, widest, piece = below, 0.0, np.int64(-1)
    for i in range(begin, end):
        value = states[member[i]].value
        if value - below > tolerance:
            if piece >= 0:
                _split_off(piece, i, partition, lists)
            widest = max(widest, below - bottom)
            bottom, piece = value, i
        below = value
    if piece >= 0:
        _split_off(piece, end, partition, lists)
    return max(widest, below - bottom)


@machine_code
@no_type_check
def _sort(member, states, lists):
    """Members in ascending order of their values, by quicksort."""
    _, _, _, _, keys, stack = lists
    for i in range(member.size):
        keys[i] = states[member[i]].value
    depth, random = 1, np.int64(1)
    stack[0, 0], stack[0, 1] = 0, member.size
    while depth > 0:
        depth -= 1
        begin, end = stack[depth, 0], stack[depth, 1]
        while end - begin > _RUN:
            random = (random * 1103515245 + 12345) & 0x7FFFFFFF  # so that no order of the values is a bad one
            pivot = keys[begin + random % (end - begin)]
            low, high, equal = begin, end - 1, True
            while low <= high:
                while keys[low] < pivot:
                    low, equal = low + 1, False
                while keys[high] > pivot:
                    high, equal = high - 1, False
                if low <= high:
                    key, state = keys[low], member[low]
                    equal = equal and key == keys[high]
                    keys[low], member[low], keys[high], member[high] = keys[high], member[high], key, state
                    low, high = low + 1, high - 1
            if equal:  # as rewards often are
                end = begin
                continue
            # the larger part waits, so that no more than log2 n ranges ever do
            upper_is_larger = end - low > high + 1 - begin
            stack[depth, 0], stack[depth, 1] = (low, end) if upper_is_larger else (begin, high + 1)
            depth += 1
            begin, end = (begin, high + 1) if upper_is_larger else (low, end)
        for i in range(begin + 1, end):
            state, key, spot = member[i], keys[i], i
            while spot > begin and keys[spot - 1] > key:
                member[spot], keys[spot] = member[spot - 1], keys[spot - 1]
                spot -= 1
            member[spot], keys[spot] = state, key


@machine_code
@no_type_check
def _split_off(begin, end, partition, lists):
    """Give the members between `begin` and `end` a class of their own in each class that has others as well."""
    states, classes, elements, number_of_classes = partition
    _, _, member, split, _, _ = lists
    num_split = 0
    for i in range(begin, end):
        state = member[i]
        number = states[state].block
        c = classes[number]
        if c.marked == 0:
            split[num_split] = number
            num_split += 1
        spot, place = c.first + c.marked, states[state].place
        other = elements[spot]
        elements[spot], elements[place] = state, other
        states[state].place, states[other].place = spot, place
        c.marked += 1
    for i in range(num_split):
        c = classes[split[i]]
        first, middle = c.first, c.first + c.marked
        c.marked = 0
        if middle < c.end:
            new = number_of_classes[0]
            number_of_classes[0] += 1
            classes[new].parent, classes[new].first, classes[new].end = c.parent, first, middle
            classes[new].heir = -1
            c.first = middle
            for j in range(first, middle):
                states[elements[j]].block = new
