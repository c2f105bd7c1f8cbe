"""Rewards far from 0: only their differences count, and the error holds against exact fractions."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from mico.tabular import MDP, factored_mico, solve

S, A, DISCOUNT = 4, 5, 0.875
OFFSETS = [0.0, 1e3, -1e6, 1e9, 1e12]


def exact(array):
    return np.vectorize(Fraction, otypes=[object])(array)


def gaps(reward):
    return np.abs(reward[:, None] - reward[None, :])


def made(offset, *, priced=False):
    """All actions lead everywhere alike, so that what comes later is alike; rewards by state and action."""
    rng = np.random.default_rng(0)
    reward = offset + rng.random((S, A, S) if priced else (S, A))
    return MDP(np.full((S, A, S), 1 / S), reward, DISCOUNT), exact(reward)


def by_hand(reward):
    """Every metric of `made`, of exact rewards [S, A]: later differences add up to 0 under the best coupling."""
    rest = Fraction(DISCOUNT) / (1 - Fraction(DISCOUNT))
    now, actions = gaps(reward.sum(axis=1) / A), [gaps(reward[:, action]) for action in range(A)]
    pairs = np.abs(reward[:, None, :, None] - reward[None, :, None, :])
    alone = now.sum() / S**2 * rest
    return {
        "mico": now + alone,
        "reduced-mico": now,
        "pi-bisimulation": now,
        "bisimulation": np.maximum.reduce(actions),
        "lax-bisimulation": np.maximum(pairs.min(axis=3).max(axis=2), pairs.min(axis=2).max(axis=2)),
        "reward-law": now,
    }


def assert_certified(found, wanted, error):
    off = np.abs(exact(found) - wanted).max()
    assert off <= Fraction(error)
    assert error <= 1e-10


@pytest.mark.parametrize(("name", "offset"), list(product(by_hand(exact(np.zeros((S, A)))), OFFSETS)))
@pytest.mark.parametrize("priced", [False, True])
def test_the_error_holds_however_far_rewards_are_from_zero(name, offset, priced):
    mdp, reward = made(offset, priced=priced)
    wanted = by_hand(reward.sum(axis=2) / S if priced else reward)[name]
    solution = solve(name, mdp, tolerance=1e-11)
    assert_certified(solution.matrix, wanted, solution.error)


@pytest.mark.parametrize("offset", OFFSETS)
def test_draws_of_rewards_far_from_zero(offset):
    mdp, reward = made(offset)
    now = np.abs(reward[:, None, :, None] - reward[None, :, None, :]).sum(axis=(2, 3)) / A**2
    wanted = now + now.sum() / S**2 * Fraction(DISCOUNT) / (1 - Fraction(DISCOUNT))
    solution = solve("mico", mdp, tolerance=1e-11, reward="sampled")
    assert_certified(solution.matrix, wanted, solution.error)


@pytest.mark.parametrize("offset", OFFSETS)
def test_factors_of_rewards_far_from_zero(offset):
    mdp, reward = made(offset)
    found = factored_mico(mdp.chain(), tolerance=1e-11)
    for name in ("mico", "reduced-mico"):
        assert_certified(found.factors.rows(np.arange(S), name), by_hand(reward)[name], found.error)


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_discount_of_its_own_changes_nothing_else(offset):
    mdp, reward = made(offset, priced=True)
    solution = solve("mico", mdp.with_discount(0.0), tolerance=1e-11)
    assert_certified(solution.matrix, gaps(reward.sum(axis=(1, 2)) / (A * S)), solution.error)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_a_policy_that_does_not_mix_has_no_reward_rounded(offset):
    mdp, _ = made(offset)
    assert mdp.chain(np.eye(A)[[0, 1, 2, 3]]).rounding.reward == 0
    assert mdp.chain().rounding.reward > 0


@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_what_is_rounded_is_within_what_is_said(offset, deterministic, sparse):
    """The chain that a policy makes, against the same sums of fractions; both are scaled to sum to 1."""
    rng = np.random.default_rng(1)
    kernel, reward = rng.dirichlet(np.ones(7), (7, A)), offset + rng.random((7, A))
    policy = np.eye(A)[rng.integers(A, size=7)] if deterministic else rng.dirichlet(np.ones(A), 7)
    mdp = MDP([sp.csr_array(kernel[:, a]) for a in range(A)] if sparse else kernel, reward, DISCOUNT)
    chain = mdp.chain(policy)
    scaled = lambda rows: rows / rows.sum(axis=-1, keepdims=True)  # noqa: E731
    weights = scaled(exact(policy))
    wanted = (weights[:, :, None] * scaled(exact(kernel))).sum(axis=1)
    off = np.abs(exact(chain.dense_transition()) - wanted).sum(axis=1).max()
    assert 0 < off <= Fraction(chain.rounding.transition) < 1e-14
    mean = (weights * exact(reward)).sum(axis=1)
    differences = exact(chain.relative)[:, None] - exact(chain.relative)[None, :]
    assert np.abs(differences - (mean[:, None] - mean[None, :])).max() <= 2 * Fraction(chain.rounding.reward)
