"""Certified errors of quotients and of distances between two models, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import exact
from exact import assert_certified
from mico.tabular import MDP, Chain, Outcomes, make, solve
from mico.tabular.abstraction.partition import Partition, lump, quotient
from mico.tabular.metrics import METRICS
from mico.tabular.metrics._classes import solve_on_classes

pytestmark = [pytest.mark.filterwarnings("ignore::mico.tabular.ToleranceWarning"), pytest.mark.usefixtures("patience")]

ROWS = np.array([[1 / 3, 1 / 3, 1 / 3], [0.1, 0.2, 0.7], [0.3, 0.0, 0.7 + 5e-7]])
OTHERS = np.array([[0.9, 0.1, 0.0], [0.0, 2 / 3, 1 / 3], [1 / 7, 2 / 7, 4 / 7]])
PAIR = np.array([[0.1, 0.9], [2 / 3, 1 / 3]])
TWO = Partition(np.array([0, 0, 1]))

discounts = pytest.mark.parametrize("discount", [0.3, 1 - 1e-6])
offsets = pytest.mark.parametrize("offset", [0.0, 1e9])


def means(rows):
    """Of classes {0, 1} and {2}, exactly."""
    into = np.stack([rows[:, 0] + rows[:, 1], rows[:, 2]], axis=1)
    return np.stack([(into[0] + into[1]) / 2, into[2]])


def off(found, wanted):
    dense = found.toarray() if sp.issparse(found) else found
    return np.abs(exact.fractions(dense) - wanted)


def off_apart(relative, reward):
    """The most that a difference of rewards is off."""
    found = exact.fractions(relative)
    return np.abs((found[:, None] - found[None, :]) - (reward[:, None] - reward[None, :])).max()


@offsets
@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array])
def test_quotients_say_how_their_means_are_rounded(stored, offset):
    reward = offset + np.array([0.1, 0.7, 1 / 3])
    mean = np.array([(Fraction(reward[0]) + Fraction(reward[1])) / 2, Fraction(reward[2])])
    small = quotient(Chain(stored(ROWS), reward, 0.9), TWO)
    assert 0 < off(small.transition, means(exact.rows(ROWS))).sum(axis=1).max() <= Fraction(small.rounding.transition)
    assert off_apart(small.relative, mean) <= 2 * Fraction(small.rounding.reward) < 1e-14
    mdp = MDP([sp.csr_array(ROWS), sp.csr_array(OTHERS)], np.stack([reward, reward], axis=1), 0.9)
    small = quotient(mdp, TWO)
    assert 0 < off(small.kernels[1], means(exact.rows(OTHERS))).sum(axis=1).max() <= Fraction(small.rounding.transition)
    assert off_apart(small.relative[:, 0], mean) <= 2 * Fraction(small.rounding.reward) < 1e-14


def test_means_over_many_states_are_rounded_by_more():
    """A hundred states that are drawn alike: sums of a hundred rewards and of a hundred rows."""
    rng = np.random.default_rng(0)
    rows, reward = rng.random((101, 101)), rng.random(101)
    rows /= rows.sum(axis=1, keepdims=True)
    chain, classes = Chain(rows, reward, 0.9), Partition(np.array([0] * 100 + [1]))
    small = quotient(chain, classes)
    given = exact.fractions(reward)
    mean = np.array([given[:100].sum() / 100, given[100]])
    assert 0 < off_apart(small.relative, mean) <= 2 * Fraction(small.rounding.reward) < 1e-13
    own = chain.rounding.transition  # rows of the chain are as they are: only the means' own rounding is left
    scaled = exact.fractions(chain.transition)
    wanted = np.stack([scaled[:100].sum(axis=0) / 100, scaled[100]])
    wanted = np.stack([wanted[:, :100].sum(axis=1), wanted[:, 100]], axis=1)
    assert 0 < off(small.transition, wanted).sum(axis=1).max() <= Fraction(small.rounding.transition - own)


def test_quotients_keep_what_is_drawn():
    """State 0 gets 0 or 2 and state 1 surely 1: a state drawn from both gets 0, 1 or 2."""
    columns = np.array([[0, 0, 2], [0, 0, 2], [1, 0, 2], [2, 0, 2]]).T
    mdp = MDP.from_outcomes(Outcomes(*columns, [0.5, 0.5, 1.0, 1.0], [0.0, 2.0, 1.0, 0.0]), 3, 1, 0.5)
    law = quotient(mdp, TWO).chain(reward="sampled").law
    np.testing.assert_allclose(law.weights.toarray(), [[0.25, 0.5, 0.25], [1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(law.levels, [0.0, 1.0, 2.0])


@pytest.mark.parametrize("what", ["reward", "rows"])
def test_lumped_states_that_are_not_quite_the_same(what):
    """The rounding says how far each state is from its class."""
    apart = 2.0**-42
    rows, reward = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]]), np.array([1.0, 1.0, 0.0])
    if what == "reward":
        reward[1] += apart
    else:
        rows[1] += [apart, 0, -apart]
    for model in (Chain(rows, reward, 0.5), MDP(rows[:, None], reward[:, None], 0.5)):
        small = lump(model, TWO)
        found = small.transition if isinstance(small, Chain) else small.kernels[0]
        into = np.stack([rows[:, 0] + rows[:, 1], rows[:, 2]], axis=1)
        moved = off(found[TWO.block], exact.fractions(into)).sum(axis=1).max()
        paid = off(small.relative.ravel()[TWO.block], exact.fractions(reward)).max()
        assert moved <= Fraction(small.rounding.transition)
        assert paid <= Fraction(small.rounding.reward)
        assert max(moved, paid) >= Fraction(apart) / 2


# States 0 and 1 are bisimilar, though they go to each other with other probabilities.
TWINS = np.array([[0.1, 0.2, 0.3, 0.4], [0.25, 0.05, 0.3, 0.4], [0.0, 1 / 3, 0.0, 2 / 3], [0.6, 0.1, 0.0, 0.3]])
AGAIN = np.array([[0.0, 0.5, 0.5, 0.0], [0.5, 0.0, 0.5, 0.0], [0.1, 0.2, 0.0, 0.7], [0.0, 0.0, 0.0, 1.0]])


@pytest.mark.parametrize("discount", [0.3, 0.99])
@pytest.mark.parametrize("nearly", [0.0, 2.0**-41])
def test_metrics_of_states_that_are_solved_as_classes(discount, nearly):
    rows, pay = TWINS.copy(), np.array([0.1, 0.1 + nearly, 0.7, 1 / 3])
    chain, mdp = (
        Chain(rows, pay, discount),
        MDP(np.stack([rows, AGAIN], axis=1), np.stack([pay, pay], axis=1), discount),
    )
    kernels, reward = [exact.rows(rows), exact.rows(AGAIN)], exact.fractions(np.stack([pay, pay]))
    wanted = {
        "pi-bisimulation": (chain, exact.bisimulation(kernels[:1], reward[:1], discount, gaps_of(pay))),
        "bisimulation": (mdp, exact.bisimulation(kernels, reward, discount, gaps_of(pay))),
        "lax-bisimulation": (mdp, exact.bisimulation(kernels, reward, discount, gaps_of(pay), lax=True)),
    }
    for name, (model, matrix) in wanted.items():
        found = solve_on_classes(METRICS[name].solve, model, 1e-9)
        assert found.matrix[0, 1] == 0
        assert_certified(found.matrix, matrix, found.error, 1e-9)
        assert_certified(METRICS[name].solve(model, 1e-9).matrix, matrix, 1e-9)


def gaps_of(reward):
    return np.abs(reward[:, None] - reward[None, :])


def test_the_error_of_classes_that_are_nearly_the_same():
    """Paths that end: the solver leaves out nothing, so the error is that of the classes."""
    apart = 2.0**-42
    rows = np.array([[0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    for move in (0, 1):
        reward = np.array([0.0, apart if move == 0 else 0.0, 1.0, 0.0])
        rows[1, 2:] = [0.5 + move * apart, 0.5 - move * apart]
        found = solve_on_classes(METRICS["reward-law"].solve, Chain(rows, reward, 0.5), 1e-11)
        wanted = exact.reward_law(exact.rows(rows), exact.fractions(reward), 0.5, 3)
        assert found.matrix[0, 1] == 0 < wanted[0, 1]
        assert_certified(found.matrix, wanted, found.error, 1e-11)


def test_nothing_is_merged_that_would_cost_the_tolerance():
    chain = Chain(np.eye(3), [1.0, 1.0 + 2.0**-42, 0.0], 0.5)
    assert solve("pi-bisimulation", chain, tolerance=1e-9).matrix[0, 1] == 0
    assert solve("pi-bisimulation", chain, tolerance=1e-13).matrix[0, 1] == pytest.approx(2.0**-41, rel=1e-3)


@pytest.mark.parametrize("name", ["pi-bisimulation", "bisimulation", "lax-bisimulation", "reward-law"])
def test_a_problem_with_many_classes_of_states(name):
    """Four rooms without a wall have mirror images; all states against all states."""
    grid = make("open-grid", height=6, width=6, discount=0.9)
    kind = METRICS[name]
    direct = kind.solve(kind.subject(grid), 1e-9)
    found = solve_on_classes(kind.solve, kind.subject(grid), 1e-9)
    np.testing.assert_allclose(found.matrix, direct.matrix, rtol=0, atol=2e-9)
    assert found.error <= 1e-9


def blocks(one, other):
    size = len(one) + len(other)
    rows = np.full((size, size), Fraction(0), dtype=object)
    rows[: len(one), : len(one)], rows[len(one) :, len(one) :] = one, other
    return rows


@discounts
@offsets
def test_between_two_chains(discount, offset):
    """MICo by its own equation for the block across, without either model's own distances."""
    one, other = offset + np.array([0.1, 0.7, 1 / 3]), offset + np.array([5.1, 0.0])
    first, second = exact.rows(ROWS), exact.rows(PAIR)
    gap = np.abs(exact.fractions(one)[:, None] - exact.fractions(other)[None, :])
    pairs = np.multiply.outer(first, second).transpose(0, 2, 1, 3).reshape(6, 6)
    wanted = exact.value(pairs, gap.ravel(), discount).reshape(3, 2)
    most = 1e-11 / (1 - discount) ** 2
    chains = Chain(ROWS, one, discount), Chain(PAIR, other, discount)
    found = solve("mico", chains[0], other=chains[1], tolerance=1e-15)
    assert_certified(found.matrix, wanted, found.error, most)
    own = [
        np.diagonal(exact.mico(rows, exact.gaps(exact.fractions(pay)), discount)) / 2
        for rows, pay in ((first, one), (second, other))
    ]
    found = solve("reduced-mico", chains[0], other=chains[1], tolerance=1e-15)
    assert_certified(found.matrix, wanted - own[0][:, None] - own[1][None, :], found.error, most)
    found = solve("pi-bisimulation", chains[0], other=chains[1], tolerance=1e-15)
    pay = exact.fractions(np.concatenate([one, other]))
    both = exact.bisimulation([blocks(first, second)], pay[None], discount, gaps_of(np.concatenate([one, other])))
    assert_certified(found.matrix, both[:3, 3:], found.error, most)


@offsets
def test_between_two_mdps(offset):
    one, other = (
        offset + np.array([[0.1, 0.7], [0.7, 1 / 3], [1 / 3, 0.0]]),
        offset + np.array([[5.1, 0.0], [0.0, 2.5]]),
    )
    mdp = MDP(np.stack([ROWS, OTHERS], axis=1), one, 0.9)
    second = MDP(np.stack([PAIR, PAIR[::-1]], axis=1), other, 0.9)
    kernels = [blocks(exact.rows(ROWS), exact.rows(PAIR)), blocks(exact.rows(OTHERS), exact.rows(PAIR[::-1]))]
    reward, hint = exact.fractions(np.concatenate([one, other]).T), gaps_of(np.concatenate([one, other])[:, 0])
    for name in ("bisimulation", "lax-bisimulation"):
        wanted = exact.bisimulation(kernels, reward, 0.9, hint, lax=name.startswith("lax"))
        found = solve(name, mdp, other=second, tolerance=1e-14)
        assert_certified(found.matrix, wanted[:3, 3:], found.error, 1e-10)
        back = solve(name, second, other=mdp, tolerance=1e-10)
        assert_certified(back.matrix, wanted[3:, :3], back.error, 1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_a_model_and_itself(name):
    """Distances between a model and a copy of it are those inside the model."""
    for model in (make("four-rooms", discount=0.9), make("garnet", num_states=7, num_actions=3, seed=0, discount=0.9)):
        between, inside = solve(name, model, other=model), solve(name, model)
        assert between.matrix.shape == (model.num_states,) * 2
        np.testing.assert_allclose(between.matrix, inside.matrix, rtol=0, atol=between.error + inside.error)


def test_between_draws_of_rewards():
    """A coin against its sure mean, in states that stay: half a unit for ever, with draws; nothing, with means."""
    coin = MDP.from_outcomes(Outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 1.0]), 1, 1, 0.5)
    sure = MDP.from_outcomes(Outcomes([0], [0], [0], [1.0], [0.5]), 1, 1, 0.5)
    assert solve("mico", coin, other=sure, reward="sampled").matrix[0, 0] == pytest.approx(1.0)
    assert solve("mico", coin, other=sure).matrix[0, 0] == pytest.approx(0.0, abs=1e-12)


def test_lax_bisimulation_matches_different_numbers_of_actions():
    """One action that is one of two: the other one is a unit from it."""
    one, two = MDP([[[1.0]]], [[0.0]], 0.5), MDP([[[1.0], [1.0]]], [[0.0, 1.0]], 0.5)
    assert solve("lax-bisimulation", one, other=two).matrix[0, 0] == pytest.approx(2.0)
    with pytest.raises(ValueError, match="other must have the 1 actions of model, got 2"):
        solve("bisimulation", one, other=two)


def test_models_that_do_not_fit():
    chain = Chain(np.eye(2), [0.0, 1.0], 0.9)
    with pytest.raises(ValueError, match=r"other must have the discount of model, 0\.9, got 0\.5"):
        solve("mico", chain, other=Chain(np.eye(3), [0.0, 1.0, 2.0], 0.5))
    with pytest.raises(ValueError, match="other_policy must be None where there is no other model, got 'uniform'"):
        solve("mico", chain, other_policy="uniform")
    with pytest.raises(ValueError, match="method must be 'auto' or 'dense' between two models, got 'factored'"):
        solve("mico", chain, other=chain, method="factored")
    with pytest.raises(ValueError, match=r"other: .*got list"):
        solve("mico", chain, other=[1])
    with pytest.raises(ValueError, match="other: policy must be None for a Chain"):
        solve("mico", chain, other=chain, other_policy="uniform")
