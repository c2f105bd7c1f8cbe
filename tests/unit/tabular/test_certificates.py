"""Certified errors against exact fractions, at tolerances below rounding: nothing but rounding is left."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import exact
from exact import assert_certified
from mico.tabular import MDP, Chain, Outcomes, factored_mico, solve
from mico.tabular._rounding import Rounding
from mico.tabular.metrics import MICoFactors, factored, mico
from mico.tabular.outcomes import RewardLaw
from mico.tabular.solvers import reward_steps
from mico.tabular.solvers.doubling import doubling
from mico.tabular.solvers.result import SolverResult

pytestmark = [pytest.mark.filterwarnings("ignore::mico.tabular.ToleranceWarning"), pytest.mark.usefixtures("patience")]

DISCOUNTS = [0.3, 0.99, 1 - 1e-6]
REWARDS = {
    "unit": [0.1, 0.7, 1 / 3],
    "far": [1e9 + 0.1, 1e9 + 0.7, 1e9 + 1 / 3],
    "tiny": [1e-9, 7e-9, 3e-9],
    "mixed": [1e-9, 1e9, 1 / 3],
}
# Thirds and tenths; the last row sums to 1 only after it was divided by its sum.
ROWS = np.array([[1 / 3, 1 / 3, 1 / 3], [0.1, 0.2, 0.7], [0.3, 0.0, 0.7 + 5e-7]])
OTHERS = np.array([[0.9, 0.1, 0.0], [0.0, 2 / 3, 1 / 3], [1 / 7, 2 / 7, 4 / 7]])

discounts = pytest.mark.parametrize("discount", DISCOUNTS)
rewards = pytest.mark.parametrize("reward", [pytest.param(np.array(r), id=name) for name, r in REWARDS.items()])


def loosest(reward, discount):
    """What an error may be at most to say anything: twelve digits of the largest distance, less those of 1 − γ."""
    return 1e-12 * np.ptp(reward) / (1 - discount) ** 2


def two_actions(reward, discount):
    """An MDP whose second action has the rewards backwards, with its exact kernels and rewards [A, S]."""
    mdp = MDP(np.stack([ROWS, OTHERS], axis=1), np.stack([reward, reward[::-1]], axis=1), discount)
    return mdp, [exact.rows(ROWS), exact.rows(OTHERS)], exact.fractions(mdp.reward.T)


@discounts
@rewards
def test_mico(reward, discount):
    wanted = exact.mico(exact.rows(ROWS), exact.gaps(exact.fractions(reward)), discount)
    tolerance = 1e-16 * np.ptp(reward)
    chain = Chain(ROWS, reward, discount)
    for name, matrix in (("mico", wanted), ("reduced-mico", exact.reduced(wanted))):
        found = solve(name, chain, tolerance=tolerance)
        assert_certified(found.matrix, matrix, found.error, loosest(reward, discount))
    factors = factored_mico(chain, tolerance=tolerance).factors
    for name, matrix in (("mico", wanted), ("reduced-mico", exact.reduced(wanted))):
        assert_certified(factors.rows(np.arange(3), name), matrix, factors.error, 100 * loosest(reward, discount))
        assert_certified(factors.pairs([0, 1], [2, 2], name), matrix[[0, 1], [2, 2]], factors.error)


@discounts
@rewards
def test_mico_of_a_policy(reward, discount):
    """The uniform policy of two actions: the chain is a mean of thirds and tenths."""
    mdp, kernels, pay = two_actions(reward, discount)
    wanted = exact.mico(sum(kernels) / 2, exact.gaps(pay.sum(axis=0) / 2), discount)
    found = solve("mico", mdp, tolerance=1e-16 * np.ptp(reward))
    assert_certified(found.matrix, wanted, found.error, loosest(reward, discount))


@discounts
@rewards
def test_bisimulation(reward, discount):
    tolerance = 1e-16 * np.ptp(reward)
    found = solve("pi-bisimulation", Chain(ROWS, reward, discount), tolerance=tolerance)
    wanted = exact.bisimulation([exact.rows(ROWS)], exact.fractions(reward)[None], discount, found.matrix)
    assert_certified(found.matrix, wanted, found.error, loosest(reward, discount))
    mdp, kernels, pay = two_actions(reward, discount)
    for name, lax in (("bisimulation", False), ("lax-bisimulation", True)):
        found = solve(name, mdp, tolerance=tolerance)
        wanted = exact.bisimulation(kernels, pay, discount, found.matrix, lax=lax)
        assert_certified(found.matrix, wanted, found.error, loosest(reward, discount))


# Every path ends in the last state after three steps, so there are three terms that differ.
AHEAD = np.array([[0.0, 1 / 3, 1 / 3, 1 / 3], [0.0, 0.0, 0.1, 0.9], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])


@discounts
@rewards
def test_reward_law_of_paths_that_end(reward, discount):
    pay = np.append(reward, reward[0])
    found = solve("reward-law", Chain(AHEAD, pay, discount), tolerance=1e-16 * np.ptp(reward))
    wanted = exact.reward_law(exact.rows(AHEAD), exact.fractions(pay), discount, 4)
    assert_certified(found.matrix, wanted, found.error, loosest(reward, discount))


@discounts
@pytest.mark.parametrize(("leave", "back"), [(1 / 3, 0.1), (0.9, 0.7), (0.1, 0.1)])
def test_reward_law_of_two_states(leave, back, discount):
    """The laws differ by |1 − a − b|^t."""
    rows = np.array([[1 - leave, leave], [back, 1 - back]])
    found = solve("reward-law", Chain(rows, [0.1, 0.7], discount), tolerance=1e-16)
    given = exact.rows(rows)
    gap = abs(Fraction(0.7) - Fraction(0.1))
    wanted = gap / (1 - Fraction(discount) * abs(given[0, 0] - given[1, 0]))
    assert_certified(found.matrix[0, 1], wanted, found.error, loosest([0.1, 0.7], discount))


def off_rows(found, wanted):
    """The most that the entries of a row are off, together."""
    return np.abs(exact.fractions(found.toarray() if sp.issparse(found) else found) - wanted).sum(axis=-1).max()


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array, sp.coo_array])
def test_rows_that_were_divided_by_their_sums(stored):
    chain = Chain(stored(ROWS), [0.0, 1.0, 2.0], 0.9)
    assert 0 < off_rows(chain.transition, exact.rows(ROWS)) <= Fraction(chain.rounding.transition) < 1e-15
    tenths = np.array([[Fraction(1, 3)] * 3, [Fraction(k, 10) for k in (1, 2, 7)], [0, 0, 1]], dtype=object)
    chain = Chain(stored(tenths.astype(float)), [0.0, 1.0, 2.0], 0.9)
    assert 0 < off_rows(chain.transition, tenths) <= Fraction(chain.rounding.transition)
    assert Chain(stored(np.eye(3)), [0.0, 1.0, 2.0], 0.9).rounding == (0, 0)


def test_entries_that_are_listed_many_times():
    """A sum of ten tenths is not 1, and a third of ninety numbers has more rounding than two probabilities suggest."""
    state, parts = np.zeros(90, dtype=int), np.full(90, 1 / 90)
    rows = sp.coo_array((np.append(parts, 1.0), (np.append(state, 1), np.append(np.arange(90) % 2, 1))), shape=(2, 2))
    chain = Chain(rows, [0.0, 1.0], 0.9)
    wanted = exact.rows([[0.5, 0.5], [0.0, 1.0]])
    assert off_rows(chain.transition, wanted) <= Fraction(chain.rounding.transition)
    assert chain.rounding.transition >= 45 * 2.0**-53


@pytest.mark.parametrize("stored", ["dense", "sparse"])
def test_mdps_and_their_action_chains(stored):
    kernels = [sp.csr_array(rows) for rows in (ROWS, OTHERS)]
    mdp = MDP(kernels if stored == "sparse" else np.stack([ROWS, OTHERS], axis=1), np.zeros((3, 2)), 0.9)
    for chain, given in zip(mdp.action_chains(), (ROWS, OTHERS), strict=True):
        assert 0 < off_rows(chain.transition, exact.rows(given)) <= Fraction(mdp.rounding.transition)
        assert mdp.rounding.transition < chain.rounding.transition < 2e-15


def test_rewards_that_are_means_of_outcomes():
    """Tenths of rewards near a billion, listed twice for one next state."""
    prices = 1e9 + np.array([0.1, 0.7, 1 / 3, 0.9])
    outcomes = Outcomes(*np.array([[0, 0, 0], [0, 0, 1], [0, 0, 1], [1, 0, 1]]).T, [0.1, 0.2, 0.7, 1.0], prices)
    mdp = MDP.from_outcomes(outcomes, 2, 1, 0.9)
    given = exact.fractions(prices)
    wanted = exact.rows([0.1, 0.2, 0.7]) @ given[:3] - given[3]
    off = abs(Fraction(mdp.relative[0, 0]) - Fraction(mdp.relative[1, 0]) - wanted)
    assert 0 < off <= 2 * Fraction(mdp.rounding.reward) < 1e-14


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_gaps_of_rewards_that_are_drawn(offset):
    rng = np.random.default_rng(3)
    levels, weights = np.sort(offset + rng.random(9)), rng.random((4, 9))
    weights /= weights.sum(axis=1, keepdims=True)
    chain = Chain(np.eye(4), weights @ levels, 0.9, law=RewardLaw(levels, sp.csr_array(weights)))
    shares = exact.rows(weights)
    wanted = shares @ exact.gaps(exact.fractions(levels)) @ shares.T
    off = np.abs(exact.fractions(chain.reward_gap()) - wanted).max()
    assert 0 < off <= 2 * Fraction(chain.rounding.reward) < 1e-13


def test_gaps_of_rewards_that_are_drawn_by_a_policy():
    """Many outcomes of few levels: what is rounded are the shares, not the sums over levels."""
    rng = np.random.default_rng(4)
    kernel, reward, policy = rng.random((3, 5, 3)), rng.integers(2, size=(3, 5, 3)) + 0.0, rng.random((3, 5))
    kernel, policy = kernel / kernel.sum(axis=2, keepdims=True), policy / policy.sum(axis=1, keepdims=True)
    chain = MDP(kernel, reward, 0.9).chain(policy, reward="sampled")
    high = (exact.rows(policy)[:, :, None] * exact.rows(kernel) * exact.fractions(reward)).sum(axis=(1, 2))
    wanted = high[:, None] + high[None, :] - 2 * high[:, None] * high[None, :]
    off = np.abs(exact.fractions(chain.reward_gap()) - wanted).max()
    assert 0 < off <= 2 * Fraction(chain.rounding.reward) < 1e-13


@discounts
@rewards
def test_lifted(reward, discount):
    """The rows and rewards of pairs, and the value of the lifted chain, which is MICo."""
    chain, rows, pay = Chain(ROWS, reward, discount), exact.rows(ROWS), exact.fractions(reward)
    pairs = np.multiply.outer(rows, rows).transpose(0, 2, 1, 3).reshape(9, 9)
    mdp, kernels, both = two_actions(reward, discount)
    gap = exact.gaps(both.sum(axis=0) / 2).ravel()
    other = np.multiply.outer(*kernels).transpose(0, 2, 1, 3).reshape(9, 9)
    for found, transition, wanted_rows, wanted in (
        (chain.lifted(), chain.lifted().transition, pairs, exact.gaps(pay).ravel()),
        (mdp.lifted(), mdp.lifted().kernels[1], other, gap),
    ):
        assert 0 < off_rows(transition, wanted_rows) <= Fraction(found.rounding.transition) < 1e-14
        lifted_reward = exact.fractions(found.reward if found.reward.ndim == 1 else found.reward[:, 0])
        assert np.abs(lifted_reward - wanted).max() <= Fraction(found.rounding.reward)


NAMES = ["mico", "reduced-mico", "pi-bisimulation", "bisimulation", "lax-bisimulation", "reward-law"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ["reward", "transition"])
def test_the_rounding_of_a_model_is_part_of_every_error(name, what):
    """A model that says that its numbers are off by some, against one where they are, as badly as they may be."""
    by, discount = 2.0**-20, 0.75
    rows = {"reward": np.eye(3), "transition": np.array([[0.5, 0.0, 0.5], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])}[what]
    moved = rows.copy()
    reward, other = np.array([1.0, 0.0, 0.5]), np.array([1.0, 0.0, 0.5])
    if what == "reward":
        other += [by, -by, 0.0]
    else:
        moved[0], moved[1] = [0.5 + by / 2, 0.0, 0.5 - by / 2], [0.0, 0.5 + by / 2, 0.5 - by / 2]
    rounding = Rounding(**{what: by})
    said = MDP(rows[:, None], reward[:, None], discount, rounding=rounding)
    meant = MDP(moved[:, None], other[:, None], discount)
    for model, of in ((said, meant), (said.chain(), meant.chain())):
        if isinstance(model, MDP) or name not in ("bisimulation", "lax-bisimulation"):
            found, wanted = solve(name, model, tolerance=1e-12), solve(name, of, tolerance=1e-12)
            off = np.abs(found.matrix - wanted.matrix).max()
            assert by / 4 < off <= found.error + 1e-12 < 1e-4
    if name in ("mico", "reduced-mico"):
        found, wanted = (factored_mico(model, tolerance=1e-12).factors for model in (said, meant))
        off = np.abs(found.rows(np.arange(3), name) - wanted.rows(np.arange(3), name)).max()
        assert by / 4 < off <= found.error + 1e-12 < 1e-4


def test_distances_asked_of_factors_are_rounded_by_what_is_said():
    """Against the same sums of products of the same factors, in fractions."""
    rng = np.random.default_rng(0)
    psi, value = rng.normal(size=(6, 9)), 20 + rng.random(6)
    factors, said = MICoFactors(psi, value, 0.0, 0), Fraction(factored._query_rounding(psi, value))
    products = exact.fractions(psi) @ exact.fractions(psi).T
    for name, own in (("mico", exact.fractions(value)), ("reduced-mico", np.diagonal(products))):
        off = np.abs(exact.fractions(factors.rows(np.arange(6), name)) - (own[:, None] + own - 2 * products)).max()
        assert 0 < off <= said


def test_steps_of_rewards_are_rounded_by_what_is_said():
    """The gaps that the features make, in fractions."""
    reward = np.random.default_rng(1).random(7)
    steps = reward_steps.reward_steps(Chain(np.eye(7), reward, 0.5), 0.0, None, np.inf)
    features, jumps = exact.fractions(steps.features), exact.fractions(np.sqrt(steps.jumps))
    total = features @ jumps
    off = np.abs(total[:, None] + total - 2 * features @ features.T - exact.gaps(exact.fractions(reward))).max()
    assert 0 < off <= 2 * Fraction(steps.rounded_by) < 1e-13


def test_self_distances_are_subtracted_with_rounding():
    drawn = np.random.default_rng(2).random((5, 5)) / 3  # of many magnitudes, so that sums of halves are rounded
    full = SolverResult(1 + (drawn + drawn.T) / 2 - np.diag(1 - np.diagonal(drawn) / 7), 0.0, 0)
    found = mico._reduced(full)
    wanted = np.maximum(exact.reduced(exact.fractions(full.matrix)), 0)
    assert 0 < np.abs(exact.fractions(found.matrix) - wanted).max() <= Fraction(found.error) < 1e-14


def test_the_residual_of_doubling_holds_in_fractions():
    """Of many equations some have a residual that is larger than what float64 sees of it."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        rows, gap = rng.random((4, 4)), rng.random((4, 4))
        rows, gap = rows / rows.sum(axis=1, keepdims=True), gap + gap.T
        found = doubling(rows, gap, 0.5, tolerance=1e-16)
        given, value = exact.rows(rows), exact.fractions(found.matrix)
        residual = exact.fractions(gap) + given @ value @ given.T / 2 - value
        assert np.abs(residual).max() <= Fraction(found.error) / 2
