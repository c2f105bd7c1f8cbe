"""The network simplex method for transport between many pairs of small distributions, compiled by Numba.

Each pair has a tree over its sources and targets, its basis: mass moves along the tree's arcs, and potentials f, g with
f_i + g_j = d_ij on them follow from it. A pivot brings in an arc that would cost less, f_i + g_j > d_ij, and drops one
of the circle that this closes. A tree is kept from one call to the next, so that costs that changed a little take few
pivots. Arcs without mass point to the root (strongly feasible trees: Cunningham, A network simplex method, 1976), so
that pivots that move nothing do not go round in circles.
"""

from typing import no_type_check

import numpy as np

from mico.tabular._machine_code import machine_code

_EPS = float(np.finfo(float).eps)
_SAME = 1e-15  # probabilities nearer than this are the same number, rounded differently
_PIVOTS = 1000  # for each node; rounding alone could make a pair need so many

# Compiled functions take plain tuples of arrays.
#
# rows       starts, columns in ascending order, and values of the distributions, a sparse matrix
# pairs      the two rows of pair k are first[k] and second[k]
# trees      the nodes of pair k are start[k] up to start[k + 1]: sources[k] sources, then targets. Each has a state,
#            its mass, the number of its parent inside the pair (-1: the root, which is the first source), the weight
#            that moves between it and the parent, and the column of these two states in a matrix over the pairs x < y
#            (the root: weight 0 in column 0)
# scratch    of one thread, for one pair: potentials and sums of the nodes; their depth, first child, next and previous
#            sibling; a stack; the costs of all arcs


@machine_code
@no_type_check
def count(rows, pairs, sources, nodes, begin, end):
    """Count the states from which mass leaves, and those where it leaves or arrives, of the pairs begin..end."""
    start, column, value = rows
    first, second = pairs
    for k in range(begin, end):
        i, i_end, j, j_end = start[first[k]], start[first[k] + 1], start[second[k]], start[second[k] + 1]
        left = arriving = 0
        while i < i_end or j < j_end:
            in_first = i < i_end and (j == j_end or column[i] <= column[j])
            in_second = j < j_end and (i == i_end or column[j] <= column[i])
            gap = 0.0
            if in_first:
                gap, i = value[i], i + 1
            if in_second:
                gap, j = gap - value[j], j + 1
            left += gap > _SAME
            arriving += gap < -_SAME
        if left == 0 or arriving == 0:  # nothing to move, or only what rounding left on one side
            left = arriving = 0
        sources[k], nodes[k] = left, left + arriving


@machine_code
@no_type_check
def plant(rows, pairs, trees, order, moved, begin, end):
    """Start with the trees that match states in the given order, the lowest with the lowest.

    Returns how much mass of a pair was left out at most, because rounding alone made it differ.
    """
    start, column, value = rows
    first, second = pairs
    tree_start, sources, state, mass, _, _, _ = trees
    most = 0.0
    for k in range(begin, end):
        source, target = tree_start[k], tree_start[k] + sources[k]
        i, i_end, j, j_end = start[first[k]], start[first[k] + 1], start[second[k]], start[second[k] + 1]
        leaving = arriving = lost = 0.0
        while i < i_end or j < j_end:
            in_first = i < i_end and (j == j_end or column[i] <= column[j])
            in_second = j < j_end and (i == i_end or column[j] <= column[i])
            gap, place = 0.0, column[i] if in_first else column[j]
            if in_first:
                gap, i = value[i], i + 1
            if in_second:
                gap, j = gap - value[j], j + 1
            if abs(gap) <= _SAME or sources[k] == 0:
                lost += abs(gap)
            elif gap > 0:
                state[source], mass[source] = order[place], gap
                source, leaving = source + 1, leaving + gap
            else:
                state[target], mass[target] = order[place], -gap
                target, arriving = target + 1, arriving - gap
        for node in range(tree_start[k] + sources[k], tree_start[k + 1]):
            mass[node] *= leaving / arriving
        moved[k] = leaving
        most = max(most, lost + abs(leaving - arriving))
        if sources[k] > 0:
            _match(k, trees, order.size)
    return most


@machine_code
@no_type_check
def _match(k, trees, size):
    start, sources, _, mass, parent, weight, _ = trees
    at, m = start[k], sources[k]
    last_source, last_target = m - 1, start[k + 1] - at - 1
    i, j, child = 0, m, m
    left, open_ = mass[at], mass[at + m]
    parent[at], parent[at + m] = -1, 0
    while i < last_source or j < last_target:
        if i == last_source or (j < last_target and left > open_):
            weight[at + child] = open_
            left -= open_
            j += 1
            child, parent[at + j], open_ = j, i, mass[at + j]
        else:  # also where both are used up: an arc without mass may only lead from a source to its parent
            weight[at + child] = left
            open_ -= left
            i += 1
            child, parent[at + i], left = i, j, mass[at + i]
    weight[at + child] = left
    _set_columns(k, trees, size)


@machine_code
@no_type_check
def _set_columns(k, trees, size):
    start, _, state, _, parent, weight, column = trees
    at = start[k]
    weight[at] = column[at] = 0
    for node in range(at + 1, start[k + 1]):
        one, other = np.int64(state[node]), np.int64(state[at + parent[node]])
        x, y = min(one, other), max(one, other)
        column[node] = x * (2 * size - x - 1) // 2 + y - x - 1


@machine_code
@no_type_check
def bound(d, trees, low, scratch, begin, end):
    """Lower bounds on the Kantorovich distances of pairs for the costs d, from their trees.

    Returns how far the margins of a tree's weights are from the masses at most.
    """
    worst = 0.0
    for k in range(begin, end):
        low[k] = _dual(k, d, trees, scratch)
        worst = max(worst, _defect(k, trees, scratch))
    return worst


@machine_code
@no_type_check
def improve(d, trees, which, low, scratch, begin, end):
    """Pivot until the trees of the chosen pairs are optimal for the costs d; bounds and defect as in `bound`."""
    worst = 0.0
    for i in range(begin, end):
        k = which[i]
        if trees[1][k] > 0:
            _optimise(k, d, trees, scratch)
            _set_columns(k, trees, len(d))
            low[i] = _dual(k, d, trees, scratch)
            worst = max(worst, _defect(k, trees, scratch))
    return worst


@machine_code
@no_type_check
def _dual(k, d, trees, scratch):
    r"""$\sum_j \nu_j g_j + \sum_i \mu_i \min_j (d_{ij} - g_j) \le W_d$, whatever g, less what rounding can do to it."""
    start, sources, state, mass, parent, _, _ = trees
    potential, stack = scratch[0], scratch[6]
    at, m, nodes = start[k], sources[k], start[k + 1] - start[k]
    if m == 0:
        return 0.0
    potential[0] = 0.0
    for node in range(1, nodes):
        potential[node] = np.nan
    for node in range(1, nodes):
        depth = 0
        while np.isnan(potential[node]):
            stack[depth] = node
            depth, node = depth + 1, parent[at + node]
        while depth > 0:
            depth -= 1
            above, node = node, stack[depth]
            potential[node] = d[state[at + node], state[at + above]] - potential[above]
    lowest = potential[m]
    for j in range(m + 1, nodes):
        lowest = min(lowest, potential[j])
    total = largest = 0.0
    for j in range(m, nodes):
        potential[j] -= lowest  # from 0, so that sums are of numbers of the size of the costs
        total += mass[at + j] * potential[j]
        largest = max(largest, potential[j])
    size = total
    for i in range(m):
        costs, best = d[state[at + i]], np.inf
        for j in range(m, nodes):
            best = min(best, costs[state[at + j]] - potential[j])
        total += mass[at + i] * best
        size += mass[at + i] * (abs(best) + 2 * largest)  # also for masses that sum to one total up to rounding
    return total - (nodes + 4) * _EPS * size


@machine_code
@no_type_check
def _defect(k, trees, scratch):
    start, _, _, mass, parent, weight, _ = trees
    total, at, nodes = scratch[1], start[k], start[k + 1] - start[k]
    for node in range(nodes):
        total[node] = -mass[at + node]
    for node in range(1, nodes):
        total[node] += weight[at + node]
        total[parent[at + node]] += weight[at + node]
    missing = 0.0
    for node in range(nodes):
        missing += abs(total[node])
    return missing


@machine_code
@no_type_check
def _optimise(k, d, trees, scratch):
    """Pivot, each time by the cheapest arc of the next source that has one, until no source has one."""
    start, sources, state, _, parent, weight, _ = trees
    potential, child, cost = scratch[0], scratch[3], scratch[7]
    at, m, nodes = start[k], sources[k], start[k + 1] - start[k]
    targets, largest = nodes - m, 0.0
    for i in range(m):
        costs = d[state[at + i]]
        for j in range(targets):
            cost[i * targets + j] = costs[state[at + m + j]]
            largest = max(largest, cost[i * targets + j])
    parents, weights = parent[at : at + nodes], weight[at : at + nodes]
    child[:nodes] = -1
    for node in range(1, nodes):
        _hang(node, parents[node], scratch)
    potential[0] = 0.0
    _update_below(0, m, parents, scratch)
    tight = nodes * _EPS * largest
    i = settled = pivots = 0
    while settled < m and pivots < _PIVOTS * nodes:
        best, entering = np.inf, 0
        for j in range(targets):
            reduced = cost[i * targets + j] - potential[m + j]
            if reduced < best:
                best, entering = reduced, j
        if best - potential[i] < -tight:
            moved = _pivot(i, m + entering, m, parents, weights, scratch)
            _update_below(moved, m, parents, scratch)
            settled, pivots = 0, pivots + 1  # and come back to this source, which may have more
        else:
            settled += 1
        i = i + 1 if i + 1 < m else 0


@machine_code
@no_type_check
def _pivot(i, j, m, parents, weights, scratch):
    """Bring in the arc from i to j and drop the last of those whose weight falls to zero first, from the root's side.

    Returns the top of the part of the tree that hangs elsewhere now.
    """
    depth, one, other = scratch[2], i, j
    least, last, above_i, above_j = np.inf, np.inf, i, j  # on the ways up from i and from j
    while one != other:
        if depth[one] >= depth[other]:
            if one < m and weights[one] < least:
                least, above_i = weights[one], one
            one = parents[one]
        else:
            if other >= m and weights[other] <= last:
                last, above_j = weights[other], other
            other = parents[other]
    moved, top = min(least, last), one
    node = i
    while node != top:
        weights[node] += -moved if node < m else moved
        node = parents[node]
    node = j
    while node != top:
        weights[node] += moved if node < m else -moved
        node = parents[node]
    bottom, above, end = (j, i, above_j) if last <= least else (i, j, above_i)
    node, carried = bottom, moved
    while True:  # what hung below `end` hangs from the other end of the arc
        old, weight = parents[node], weights[node]
        _unhang(node, old, scratch)
        _hang(node, above, scratch)
        parents[node], weights[node] = above, carried
        if node == end:
            return bottom
        above, carried, node = node, weight, old


@machine_code
@no_type_check
def _hang(node, parent, scratch):
    child, after, before = scratch[3], scratch[4], scratch[5]
    after[node], before[node] = child[parent], -1
    if child[parent] >= 0:
        before[child[parent]] = node
    child[parent] = node


@machine_code
@no_type_check
def _unhang(node, parent, scratch):
    child, after, before = scratch[3], scratch[4], scratch[5]
    if before[node] >= 0:
        after[before[node]] = after[node]
    else:
        child[parent] = after[node]
    if after[node] >= 0:
        before[after[node]] = before[node]


@machine_code
@no_type_check
def _update_below(top, m, parents, scratch):
    """The potentials and depths of a node and all below it, from those of its parent."""
    potential, _, depth, child, after, _, stack, cost = scratch
    targets = parents.size - m
    stack[0], waiting = top, 1
    while waiting > 0:
        waiting -= 1
        node = stack[waiting]
        above = parents[node]
        if above < 0:
            depth[node] = 0
        else:
            i, j = min(node, above), max(node, above)
            potential[node] = cost[i * targets + j - m] - potential[above]
            depth[node] = depth[above] + 1
        below = child[node]
        while below >= 0:
            stack[waiting] = below
            waiting, below = waiting + 1, after[below]
