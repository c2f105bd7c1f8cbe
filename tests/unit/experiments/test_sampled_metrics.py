"""Sampled bisimulation against closed forms and enumeration; n-step MICo against sums over all pairs of paths.

With steps 1/(1 + (1 − γ)k) and γ = .6, an entry whose targets have the standard deviation σ is after k sweeps
within about 1.25·σ/√k of its limit, in standard deviation: .024 for a fair coin between 0 and 1.5 after 1,500.
"""

import itertools
from math import comb, factorial, prod

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from mico.experiments.sampled_metrics import n_step_mico, sampled_bisimulation
from mico.tabular import Chain, garnet, make, random_policy, solve
from references import fixed_point, paths, transport_cost_of_parts

quick = pytest.mark.usefixtures("unchecked")  # checks of types take most of the time of many small steps

LAST = np.array([1_500])
MIXING = Chain([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.4, 0.2, 0.4]], [0.0, 3.0, 1.0], 0.6)


def estimate(chain, m, *, moments=LAST, seed=0, self_distance="sampled"):
    return sampled_bisimulation(chain, m, moments, seed=seed, self_distance=self_distance)[-1]


def types(row, m):
    """All empirical distributions of m draws from the row, with their probabilities."""
    for counts in itertools.product(range(m + 1), repeat=row.size):
        if sum(counts) == m:
            ways = factorial(m) // prod(factorial(count) for count in counts)
            yield np.array(counts) / m, ways * np.prod(row ** np.array(counts))


def limit(chain, m, *, self_distance):
    """The fixed point of |r_x − r_y| + γ E W_d of empirical distributions, by enumeration of these and matchings."""
    rows = chain.dense_transition()
    drawn = [[(one, p) for one, p in types(row, m) if p > 0] for row in rows]

    def update(d):
        new = np.zeros_like(d)
        for x, y in itertools.product(range(len(d)), repeat=2):
            if x != y or self_distance == "sampled":
                both = itertools.product(drawn[x], drawn[y])
                mean = sum(p * q * transport_cost_of_parts(one, two, d, m) for (one, p), (two, q) in both)
                new[x, y] = abs(chain.reward[x] - chain.reward[y]) + chain.discount * mean
        return new

    return fixed_point(update, chain.num_states, chain.discount, 1e-3)


@quick
@pytest.mark.parametrize("m", [1, 2, 8])
def test_a_coin_is_no_distance_from_itself_but_sampled_it_is(m):
    chain = make("coin-chain", discount=0.6).mdp.chain()
    found = estimate(chain, m)
    # Heads and tails are 2.5 apart; the shares of heads in two samples differ by C(2m, m)/4^m on average.
    assert found[0, 0] == pytest.approx(1.5 * comb(2 * m, m) / 4**m, abs=0.1)
    assert found[0, 1] == pytest.approx(0.75, abs=0.1)
    assert found[2, 3] == pytest.approx(2.5, abs=0.02)
    assert found[2, 2] == found[1, 2] == 0
    assert estimate(chain, m, moments=np.array([20]), self_distance="zero")[0, 0] == 0


@quick
@pytest.mark.parametrize("self_distance", ["sampled", "zero"])
def test_two_like_coins_never_look_alike(self_distance):
    rows = [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5], [0, 0, 1, 0], [0, 0, 0, 1]]
    chain = Chain(rows, [0, 0, 0, 1], 0.6)
    assert solve("pi-bisimulation", chain).matrix[0, 1] == 0
    found = estimate(chain, 4, self_distance=self_distance)
    assert found[0, 1] == pytest.approx(1.5 * comb(8, 4) / 4**4, abs=0.1)


@quick
def test_two_states_with_one_sample_are_at_their_mico_distance():
    found = estimate(make("two-state", discount=0.6).mdp.chain(), 1)
    assert found[0, 1] == pytest.approx(1 / (1 - 0.3), abs=0.1)
    assert found[0, 0] == pytest.approx(0.3 / ((1 - 0.3) * (1 - 0.15)), abs=0.1)
    assert found[1, 1] == 0


@quick
@pytest.mark.parametrize(("m", "self_distance"), [(1, "sampled"), (1, "zero"), (3, "sampled"), (3, "zero")])
def test_limits_by_enumeration(m, self_distance):
    wanted = limit(MIXING, m, self_distance=self_distance)
    assert estimate(MIXING, m, self_distance=self_distance) == pytest.approx(wanted, abs=0.1)


def test_limits_lie_between_bisimulation_and_mico_and_fall_with_more_samples():
    bisimulation, mico = (solve(name, MIXING).matrix for name in ("pi-bisimulation", "mico"))
    one, two, three = (limit(MIXING, m, self_distance="sampled") for m in (1, 2, 3))
    np.testing.assert_allclose(one, mico, atol=2e-3)
    assert (two < one - 0.1).all()
    assert (three < two - 0.05).all()
    assert (bisimulation < three - 0.2).all()
    known = limit(MIXING, 1, self_distance="zero")
    apart = ~np.eye(3, dtype=bool)
    assert (known < mico - 0.2)[apart].all()
    assert (bisimulation < known - 0.2)[apart].all()


@quick
def test_deterministic_chains_need_one_sample():
    chain = Chain(np.roll(np.eye(4), 1, axis=1), [0.0, 1.0, 0.3, 0.3], 0.5)
    exact = solve("pi-bisimulation", chain).matrix
    assert estimate(chain, 1) == pytest.approx(exact, abs=5e-3)


def test_tables_of_earlier_moments_are_those_of_shorter_runs():
    chain = garnet(4, 2, seed=0).mdp.chain()
    trace = sampled_bisimulation(chain, 2, np.array([1, 7, 30]), seed=3, self_distance="sampled")
    assert trace.shape == (3, 4, 4)
    for moment, table in zip((1, 7, 30), trace):
        np.testing.assert_array_equal(estimate(chain, 2, moments=np.array([moment]), seed=3), table)
        np.testing.assert_array_equal(table, table.T)
    np.testing.assert_allclose(trace[0], chain.reward_gap())  # the first step is whole, and distances were zero
    assert not np.array_equal(estimate(chain, 2, moments=np.array([30]), seed=4), trace[2])


def test_bad_arguments_are_named(unchecked):
    chain = make("two-state").mdp.chain()
    with pytest.raises(ValueError, match="m and moments must be at least 1, but are 0 and 5"):
        estimate(chain, 0, moments=np.array([5]))
    with pytest.raises(ValueError, match="self_distance must be 'sampled' or 'zero', not 'one'"):
        estimate(chain, 1, self_distance="one")


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("name", ["garnet", "grid"])
def test_n_step_distances_by_pairs_of_paths(name, horizon):
    mdp = garnet(3, 2, seed=1).mdp if name == "garnet" else make("open-grid", height=2, width=2).mdp
    policy = random_policy(mdp, seed=2)
    futures = [np.array(paths(mdp, policy, x, horizon)).T for x in range(mdp.num_states)]
    gap, ends = np.zeros((mdp.num_states,) * 2), np.zeros((mdp.num_states,) * 2)
    for x, (p, gain, end) in enumerate(futures):
        np.add.at(ends[x], end.astype(int), p)
        for y, (q, other, _) in enumerate(futures):
            gap[x, y] = p @ np.abs(gain[:, None] - other) @ q
    wanted = solve_discrete_lyapunov(np.sqrt(mdp.discount**horizon) * ends, gap)
    np.testing.assert_allclose(n_step_mico(mdp, policy, horizon), wanted, atol=1e-8)


def test_a_coin_as_reward_over_one_and_two_steps():
    mdp = make("random-reward").mdp
    assert n_step_mico(mdp, np.ones((1, 1)), 1) == pytest.approx(0.5 / 0.1)
    # Sums 0, 1, γ and 1 + γ, each with probability ¼, differ by (4 + 2γ)/8 on average.
    assert n_step_mico(mdp, np.ones((1, 1)), 2) == pytest.approx((4 + 2 * 0.9) / 8 / (1 - 0.81))


def test_longer_horizons_lie_between_differences_of_values_and_mico():
    mdp = garnet(4, 2, seed=3).mdp
    policy = random_policy(mdp, seed=0)
    value = mdp.chain(policy).value()
    exact = solve("mico", mdp, policy, reward="sampled").matrix
    np.testing.assert_allclose(n_step_mico(mdp, policy, 1), exact, atol=1e-7)
    for horizon in (2, 4):
        found = n_step_mico(mdp, policy, horizon)
        assert (np.abs(value[:, None] - value) <= found + 1e-9).all()
        assert (found < exact).all()
