"""Metrics of small models in exact arithmetic: floats are taken as the fractions that they are."""

import itertools
from fractions import Fraction

import numpy as np


def fractions(array):
    return np.vectorize(Fraction, otypes=[object])(np.asarray(array))


def rows(array):
    """Rows of numbers as they were given, divided by their exact sums."""
    given = fractions(array)
    return given / given.sum(axis=-1, keepdims=True)


def gaps(reward):
    return np.abs(reward[:, None] - reward[None, :])


def solve_linear(matrix, right):
    """Gauss and Jordan."""
    table, size = [[*row, value] for row, value in zip(matrix, right, strict=True)], len(matrix)
    for k in range(size):
        pivot = next(i for i in range(k, size) if table[i][k] != 0)
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [entry / table[k][k] for entry in table[k]]
        for i in range(size):
            if i != k and table[i][k] != 0:
                table[i] = [entry - table[i][k] * other for entry, other in zip(table[i], table[k], strict=True)]
    return np.array([row[-1] for row in table], dtype=object)


def value(transition, reward, discount):
    size = len(reward)
    eye = np.array([[Fraction(int(i == j)) for j in range(size)] for i in range(size)], dtype=object)
    return solve_linear(eye - Fraction(discount) * transition, reward)


def mico(transition, gap, discount):
    """The value of the lifted chain."""
    size = len(gap)
    pairs = np.multiply.outer(transition, transition).transpose(0, 2, 1, 3).reshape(size**2, size**2)
    return value(pairs, gap.ravel(), discount).reshape(size, size)


def reduced(distance):
    own = np.diagonal(distance) / 2
    return distance - own[:, None] - own[None, :]


def reward_law(transition, reward, discount, terms):
    """The first terms, of a chain in which all laws are the same after them."""
    levels = np.unique(reward)
    above = [[level * int(r > z) for z, level in zip(levels, np.diff(levels))] for r in reward]
    laws, total, scale = np.array(above, dtype=object), 0, Fraction(1)
    for _ in range(terms):
        total = total + scale * np.abs(laws[:, None] - laws[None, :]).sum(axis=-1)
        laws, scale = transition @ laws, scale * Fraction(discount)
    assert not np.abs(laws - laws[0]).any()
    return total


def couplings(mu, nu):
    """The vertices of the couplings of two distributions, as lists of (state, state, mass).

    What they share stays in place, which is best for a pseudometric, as every fixed point here is.
    """
    mu, nu = mu - np.minimum(mu, nu), nu - np.minimum(mu, nu)
    left, right = np.flatnonzero(mu), np.flatnonzero(nu)
    if not left.size:
        return [[]]
    cells = list(itertools.product(range(left.size), range(right.size)))
    found = []
    for chosen in itertools.combinations(cells, left.size + right.size - 1):
        table = [[Fraction(int(i == k)) for i, _ in chosen] for k in range(left.size)]
        table += [[Fraction(int(j == k)) for _, j in chosen] for k in range(right.size - 1)]
        try:
            mass = solve_linear(table, [*mu[left], *nu[right[:-1]]])
        except StopIteration:  # cells in a circle
            continue
        if min(mass) >= 0:
            found.append([(left[i], right[j], m) for (i, j), m in zip(chosen, mass, strict=True)])
    return found


def _cheapest(vertices, d):
    return min(vertices, key=lambda moves: sum(mass * d[i, j] for i, j, mass in moves))


def _largest(terms):
    return max(terms, key=lambda term: term[1])


def _hausdorff(terms):
    """Of terms ((a, b), …): for each action the nearest of the other state's, and the farthest of those."""
    sides = [{action: [] for action in {key[side] for key, *_ in terms}} for side in (0, 1)]
    for term in terms:
        for side in (0, 1):
            sides[side][term[0][side]].append(term)
    nearest = [min(group, key=lambda term: term[1]) for side in sides for group in side.values()]
    return _largest(nearest)


def bisimulation(kernels, reward, discount, hint, *, lax=False):
    """The fixed point over kernels [A, S, S] and rewards [A, S], by policy iteration from a hint, proven at the end."""
    actions, size = reward.shape
    compared = list(itertools.product(range(actions), repeat=2)) if lax else [(a, a) for a in range(actions)]
    pairs = list(itertools.combinations(range(size), 2))
    place = {pair: k for k, pair in enumerate(pairs)}
    vertices = {(x, y, a, b): couplings(kernels[a][x], kernels[b][y]) for x, y in pairs for a, b in compared}
    d, discount = fractions(hint), Fraction(discount)
    d = (d + d.T) / 2
    np.fill_diagonal(d, Fraction(0))
    for _ in range(50):
        matrix, right, now = [], [], {}
        for x, y in pairs:
            terms = []
            for a, b in compared:
                moves = _cheapest(vertices[x, y, a, b], d)
                gap = abs(reward[a][x] - reward[b][y])
                terms.append(((a, b), gap + discount * sum(m * d[i, j] for i, j, m in moves), gap, moves))
            _, now[x, y], gap, moves = (_hausdorff if lax else _largest)(terms)
            equation = [Fraction(int(pair == (x, y))) for pair in pairs]
            for i, j, mass in moves:
                if i != j:
                    equation[place[min(i, j), max(i, j)]] -= discount * mass
            matrix.append(equation)
            right.append(gap)
        if all(now[pair] == d[pair] for pair in pairs):
            return d
        for (x, y), entry in zip(pairs, solve_linear(matrix, right), strict=True):
            d[x, y] = d[y, x] = entry
    raise AssertionError("no fixed point within 50 rounds")


def assert_certified(found, wanted, error, most=None):
    """No entry is off by more than the error, which is itself not more than `most`."""
    off = np.max(np.abs(fractions(found) - wanted))
    assert off <= Fraction(float(error)), f"off by {float(off)}, certified {error}"
    assert most is None or error <= most
