"""The laws that exact metrics obey, one test each: inequalities, series, operators, and averages over Garnets."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

import references
from mico.tabular import METRICS, Chain, garnet, optimal_value, solve
from mico.tabular.diagnostics import check_axioms
from mico.tabular.metrics import mico
from strategies import mdps, policies, sparse

PRECISE = 1e-10  # of the span of values
small = {"states": (1, 2, 3, 5), "discounts": (0.5, 0.9)}


def solved(name, sample):
    policy = sample.policy if METRICS[name].on == "policy" else None
    return solve(name, sample.mdp, policy, tolerance=PRECISE * sample.scale).matrix


def apart(values):
    return np.abs(values[:, None] - values[None, :])


def reach(chain, times):
    """The laws of X_t from each state, t = 0, 1, …"""
    rows = np.eye(chain.num_states)
    for _ in range(times):
        yield rows
        rows = rows @ chain.dense_transition()


def horizon(chain, precision=1e-12):
    return 1 if chain.discount == 0 else int(np.ceil(np.log(precision * (1 - chain.discount)) / np.log(chain.discount)))


@given(sample=mdps())
def test_value_gap_below_reward_law_below_pi_bisimulation_below_mico(sample):
    """|V(x) − V(y)| ≤ W_sum ≤ d_π ≤ U."""
    chain, slack = sample.mdp.chain(sample.policy), 2 * PRECISE * sample.scale
    ladder = [apart(chain.value()), *(solved(name, sample) for name in ("reward-law", "pi-bisimulation", "mico"))]
    for below, above in itertools.pairwise(ladder):
        assert (below <= above + slack).all()


@given(sample=mdps())
def test_reduced_mico_is_below_the_reward_law_distance(sample):
    assert (solved("reduced-mico", sample) <= solved("reward-law", sample) + 2 * PRECISE * sample.scale).all()


@given(sample=mdps())
def test_mico_is_a_diffuse_metric_above_the_mean_of_self_distances(sample):
    full, slack = solved("mico", sample), 3 * PRECISE * sample.scale
    own = np.diag(full)
    assert (full >= (own[:, None] + own[None, :]) / 2 - slack).all()
    for x, y, z in itertools.product(range(sample.mdp.num_states), repeat=3):
        assert full[x, y] <= full[x, z] + full[z, y] + slack
    assert check_axioms(full, tolerance=slack).is_diffuse_metric


@given(sample=mdps())
def test_the_square_of_the_value_gap_is_bounded_by_reduced_mico(sample):
    """|ΔV|² ≤ span(r)/(1−γ)·ΠU, with the span of the chain's rewards."""
    chain = sample.mdp.chain(sample.policy)
    most = np.ptp(chain.reward) / (1 - chain.discount)
    gap = apart(chain.value())
    assert (gap**2 <= most * solved("reduced-mico", sample) + 3 * PRECISE * sample.scale**2).all()


@given(sample=mdps())
def test_optimal_value_gap_below_lax_below_bisimulation_below_the_span(sample):
    """|V*(x) − V*(y)| ≤ lax ≤ d~ ≤ span/(1−γ)."""
    slack = 2 * PRECISE * sample.scale
    most = np.full((sample.mdp.num_states,) * 2, np.ptp(sample.mdp.reward) / (1 - sample.mdp.discount))
    ladder = [
        apart(optimal_value(sample.mdp)), solved("lax-bisimulation", sample), solved("bisimulation", sample), most
    ]  # fmt: skip
    for below, above in itertools.pairwise(ladder):
        assert (below <= above + slack).all()


@pytest.mark.parametrize("name", ["reward-law", "pi-bisimulation", "bisimulation", "lax-bisimulation"])
@given(sample=mdps())
def test_distances_from_best_couplings_and_laws_are_pseudometrics(name, sample):
    assert check_axioms(solved(name, sample), tolerance=3 * PRECISE * sample.scale).is_pseudometric


@settings(max_examples=10)
@given(sample=mdps(**small))
def test_mico_is_the_discounted_gap_of_independent_rewards(sample):
    """U(x, y) = Σ γᵗ E|R_t − R'_t|, summed."""
    chain = sample.mdp.chain(sample.policy)
    total = np.zeros((chain.num_states,) * 2)
    for time, rows in enumerate(reach(chain, horizon(chain))):
        for x, y in np.ndindex(total.shape):
            total[x, y] += chain.discount**time * (rows[x] @ apart(chain.reward) @ rows[y])
    np.testing.assert_allclose(solved("mico", sample), total, rtol=0, atol=2 * PRECISE * sample.scale)


def test_mico_is_the_mean_over_simulated_pairs_of_chains():
    rng = np.random.default_rng(5)
    chain = Chain(rng.dirichlet(np.ones(3), size=3), [0.0, 1.0, 3.0], 0.6)
    exact, draws = solve("mico", chain).matrix, 40_000
    for x, y in [(0, 0), (0, 2), (1, 2)]:
        left, right, total = np.full(draws, x), np.full(draws, y), np.zeros(draws)
        for time in range(40):
            total += chain.discount**time * np.abs(chain.reward[left] - chain.reward[right])
            left, right = (
                (rng.random(draws)[:, None] > chain.transition[at].cumsum(axis=1)[:, :-1]).sum(axis=1)
                for at in (left, right)
            )
        assert total.mean() == pytest.approx(exact[x, y], abs=5 * total.std() / np.sqrt(draws))


@given(sample=mdps(states=(2, 3), discounts=(0.9,), rows=("parts", "deterministic"), pay=("binary",)))
def test_self_distance_is_zero_just_where_every_reward_to_come_is_certain(sample):
    chain = sample.mdp.chain(np.eye(sample.mdp.num_actions)[sample.policy.argmax(axis=1)])
    certain = np.ones(chain.num_states, dtype=bool)
    for rows in reach(chain, 2**chain.num_states):  # by then the set of states that can be reached has come round
        certain &= [np.ptp(chain.reward[row > 0]) == 0 for row in rows]
    own = np.diag(solve("mico", chain, tolerance=1e-11).matrix)
    np.testing.assert_array_equal(own < 1e-10, certain)


@settings(max_examples=10)
@given(sample=mdps(**small))
def test_reduced_mico_is_the_squared_distance_of_distribution_functions(sample):
    """ΠU(x, y) = Σ γᵗ ∫ (F_t^x − F_t^y)² dz."""
    chain = sample.mdp.chain(sample.policy)
    levels = np.unique(chain.reward)
    total = np.zeros((chain.num_states,) * 2)
    for time, rows in enumerate(reach(chain, horizon(chain))):
        for x, y in np.ndindex(total.shape):
            for z, step in zip(levels, np.diff(levels), strict=False):
                apart_at = rows[x][chain.reward <= z].sum() - rows[y][chain.reward <= z].sum()
                total[x, y] += chain.discount**time * step * apart_at**2
    np.testing.assert_allclose(solved("reduced-mico", sample), total, rtol=0, atol=2 * PRECISE * sample.scale)


@given(sample=mdps())
def test_the_root_of_reduced_mico_is_euclidean(sample):
    """Squared Euclidean distances, centred, are a Gram matrix: no negative eigenvalue."""
    square = solved("reduced-mico", sample)
    centre = np.eye(len(square)) - 1 / len(square)
    assert np.linalg.eigvalsh(-centre @ square @ centre / 2).min() >= -len(square) * PRECISE * sample.scale


@given(sample=mdps(rows=("deterministic",), actions=(2,)))
def test_on_deterministic_chains_all_metrics_agree(sample):
    """U = ΠU = d_π = W_sum = Σ γᵗ |r(x_t) − r(y_t)|."""
    chain = sample.mdp.chain(np.eye(2)[sample.policy.argmax(axis=1)])
    total = np.zeros((chain.num_states,) * 2)
    for x, y in np.ndindex(total.shape):
        left, right = x, y
        for time in range(horizon(chain)):
            total[x, y] += chain.discount**time * abs(chain.reward[left] - chain.reward[right])
            left, right = chain.transition[left].argmax(), chain.transition[right].argmax()
    for name in ("mico", "reduced-mico", "pi-bisimulation", "reward-law"):
        found = solve(name, chain, tolerance=PRECISE * sample.scale).matrix
        np.testing.assert_allclose(found, total, rtol=0, atol=2 * PRECISE * sample.scale)


@given(sample=mdps(rows=("dense",), twins=False))
def test_under_a_stationary_law_mico_is_the_reward_gap_over_one_minus_the_discount(sample):
    """μᵀUμ = μᵀDμ/(1−γ)."""
    chain = sample.mdp.chain(sample.policy)
    values, vectors = np.linalg.eig(chain.transition.T)
    stationary = np.real(vectors[:, np.abs(values - 1).argmin()])
    stationary /= stationary.sum()
    expected = stationary @ apart(chain.reward) @ stationary / (1 - chain.discount)
    assert stationary @ solved("mico", sample) @ stationary == pytest.approx(expected, abs=2 * PRECISE * sample.scale)


@given(sample=mdps(states=(1, 2, 3, 5)))
def test_mico_is_the_value_of_the_lifted_mdp(sample):
    full, pi = solved("mico", sample), sample.policy
    tight = {"rtol": 0, "atol": 2 * PRECISE * sample.scale}
    for mdp in (sample.mdp, sparse(sample.mdp)):
        np.testing.assert_allclose(mdp.chain(pi).lifted().value(), full.ravel(), **tight)
        np.testing.assert_allclose(mdp.lifted(pi).chain(np.kron(pi, pi)).value(), full.ravel(), **tight)


@settings(max_examples=10)
@given(sample=mdps(states=(2, 3), discounts=(0.5, 0.9)))
def test_n_step_distances_lie_between_the_value_gap_and_mico(sample):
    """U_n of T_n U = E|Σ_{k<n} γᵏ(r(X_k) − r(Y_k))| + γⁿ E U(X_n, Y_n): |ΔV| ≤ U_n ≤ U_1 = U."""
    chain, slack = sample.mdp.chain(sample.policy), 1e-9 * sample.scale
    one, gap = solved("mico", sample), apart(chain.value())
    for n in (1, 2, 3):
        returns = [list(paths(chain, x, n)) for x in range(chain.num_states)]
        first = np.zeros_like(one)
        for x, y in np.ndindex(first.shape):
            for (p, a), (q, b) in itertools.product(returns[x], returns[y]):
                first[x, y] += p * q * abs(a - b)
        power = np.linalg.matrix_power(chain.dense_transition(), n)
        size = chain.num_states
        many = np.linalg.solve(np.eye(size**2) - chain.discount**n * np.kron(power, power), first.ravel())
        many = many.reshape(size, size)
        assert (gap <= many + slack).all()
        assert (many <= one + slack).all()
        if n == 1:
            np.testing.assert_allclose(many, one, rtol=0, atol=slack)


def paths(chain, state, steps):
    """Every path of so many rewards from a state: its probability, and its discounted sum of rewards."""
    if steps == 0:
        yield 1.0, 0.0
        return
    for following, p in enumerate(chain.dense_transition()[state]):
        if p > 0 and steps > 1:
            for q, later in paths(chain, following, steps - 1):
                yield p * q, chain.reward[state] + chain.discount * later
        elif p > 0:
            yield p, chain.reward[state]


def test_on_garnets_reduced_mico_is_above_the_value_gap_only_on_average():
    """Garnet(5, 2), γ = .9, the printed rule, Dirichlet policies."""
    count = 3000
    chains = [garnet(5, 2, seed=n).mdp.chain(policies(np.random.default_rng(n), "any", (5, 2))) for n in range(count)]
    full = mico.solve_many(chains, 1e-9).matrix
    reduced = mico.reduced(full)
    gap = np.array([apart(chain.value()) for chain in chains])
    for found, mean in ((full - gap, 1.74), (reduced - gap, 0.02)):
        each = found.mean(axis=(1, 2))
        assert each.mean() == pytest.approx(mean, abs=4 * each.std() / np.sqrt(count) + 0.005)
    off_diagonal = ~np.eye(5, dtype=bool)
    below = (reduced < gap - 1e-9)[:, off_diagonal].mean()
    assert 0.43 <= below <= 0.50
    assert 0.34 <= (reduced < gap - 1e-9).mean() <= 0.49
    assert 0.30 <= ((reduced - gap).mean(axis=(1, 2)) < 0).mean() <= 0.38  # of single MDPs: about a third


def test_on_garnets_pi_bisimulation_is_close_above_the_value_gap():
    count, gaps = 250, []
    for n in range(count):
        chain = garnet(5, 2, seed=10_000 + n).mdp.chain(policies(np.random.default_rng(n), "any", (5, 2)))
        gaps.append((solve("pi-bisimulation", chain, tolerance=1e-6).matrix - apart(chain.value())).mean())
    assert np.mean(gaps) == pytest.approx(0.18, abs=4 * np.std(gaps) / np.sqrt(count) + 0.005)


@given(sample=mdps(states=(3, 5), discounts=(0.9,)))
def test_scipy_solves_the_same_equation(sample):
    exact = references.mico(sample.mdp.chain(sample.policy))
    np.testing.assert_allclose(solved("mico", sample), exact, rtol=0, atol=2 * PRECISE * sample.scale)
