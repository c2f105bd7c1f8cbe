"""MICo without a matrix of pairs, against the dense solver: every entry within the error that comes with it."""

import numpy as np
import pytest
from hypothesis import given, settings

from chains import CHAINS, bump, every_chain, ring
from mico.tabular import MDP, Chain, ToleranceWarning, factored_mico, garnet, solve
from mico.tabular.outcomes import RewardLaw
from strategies import mdps, sparse

BOTH = ("mico", "reduced-mico")
CLOSE = 1e-8  # what the dense solutions are exact to


def dense(chain, metric="mico"):
    return solve(metric, chain, tolerance=CLOSE, reward="mean" if chain.law is None else "sampled").matrix


def check_against_dense(found, chain):
    for metric in BOTH:
        off = np.abs(found.factors.rows(np.arange(chain.num_states), metric) - dense(chain, metric)).max()
        assert off <= found.error + CLOSE


@every_chain
@pytest.mark.parametrize("tolerance", [0.3, 1e-2, 1e-6])
def test_within_the_error_of_the_dense_solution(chain, tolerance):
    found = factored_mico(chain, tolerance=tolerance)
    assert 0 <= found.error <= tolerance
    check_against_dense(found, chain)


@pytest.mark.parametrize("share", [0.0, 4e-18, 1e-170])
def test_rewards_that_are_never_or_hardly_ever_paid(share):
    """The second is what a softmax of 0 and −40 gives: beside 1 it is nothing."""
    weights = np.array([[0.5, 0.5 - share, share], [1 - share, 0.0, share]])
    levels = np.array([-1.0, 1.0, 2.0])
    for sign in (1.0, -1.0):  # at the upper end of the rewards and at the lower one
        order = np.argsort(sign * levels)
        law = RewardLaw(sign * levels[order], weights[:, order])
        chain = Chain([[0.5, 0.5], [0.2, 0.8]], law.weights @ law.levels, 0.9, law=law)
        check_against_dense(factored_mico(chain), chain)


def test_shares_of_rewards_that_add_up_to_more_than_1_by_rounding():
    for seed in range(740, 750):
        rng = np.random.default_rng(seed)
        rewards = rng.choice(rng.random(40), (10, 2, 10))
        chain = MDP(garnet(10, 2, seed=seed).mdp.transition, rewards, 0.9).chain(reward="sampled")
        check_against_dense(factored_mico(chain), chain)


@every_chain
def test_every_question_has_the_same_answer(chain):
    everyone = np.arange(chain.num_states)
    for metric in BOTH:
        found, exact = factored_mico(chain, metric=metric, tolerance=1e-6), dense(chain, metric)
        factors, near = found.factors, {"rtol": 0, "atol": found.error + CLOSE}
        np.testing.assert_allclose(factors.self_distance, np.diag(dense(chain)), **near)
        assert factors.num_states == chain.num_states
        assert 0 <= factors.rank <= chain.num_states
        np.testing.assert_allclose(found.pairs(everyone, everyone[::-1]), exact[everyone, everyone[::-1]], **near)
        np.testing.assert_allclose(found.pairs(everyone[:, None], everyone), exact, **near)
        np.testing.assert_allclose(found.row(everyone[-1]), exact[-1], **near)
        np.testing.assert_allclose(found.row([[0, everyone[-1]]]), exact[None, [0, -1]], **near)
        assert np.shape(found.pairs(0, 0)) == ()
        for x in everyone[:3]:
            if chain.num_states == 1:
                continue
            count = min(5, chain.num_states - 1)
            states, distances = found.neighbours(int(x), count)
            assert x not in states
            assert len(set(states.tolist())) == count
            assert (np.diff(distances) >= 0).all()
            np.testing.assert_allclose(distances, exact[x, states], **near)
            nearest = np.sort(np.delete(exact[x], x))[:count]
            np.testing.assert_allclose(distances, nearest, **near)


@every_chain
def test_embedding_is_the_best_of_its_size(chain):
    """Classical scaling: the leading axes of the centred Gram matrix of ΠU."""
    found, size = factored_mico(chain, tolerance=1e-7), chain.num_states
    centre = np.eye(size) - 1 / size
    gram = -centre @ dense(chain, "reduced-mico") @ centre / 2
    spectrum = np.sort(np.maximum(np.linalg.eigvalsh(gram), 0))[::-1]
    for k in (1, 2, size, size + 3):
        points, kept = found.scaling(k)
        np.testing.assert_array_equal(points, found.embedding(k))
        assert kept == pytest.approx(spectrum[:k].sum() / spectrum.sum() if spectrum[0] > 1e-5 else kept, abs=1e-4)
        assert points.shape == (size, k)
        np.testing.assert_allclose(points.mean(axis=0), 0, rtol=0, atol=1e-9)
        np.testing.assert_allclose((points**2).sum(axis=0)[:size], spectrum[:k], rtol=0, atol=1e-5)
        left = np.linalg.norm(gram - points @ points.T)  # the least that rank k can leave (Eckart and Young)
        assert left == pytest.approx(np.linalg.norm(spectrum[k:]), abs=1e-5)
    apart = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(apart, dense(chain, "reduced-mico"), rtol=0, atol=2e-7)


@settings(max_examples=40)
@given(sample=mdps())
def test_random_mdps(sample):
    for chain in (sample.mdp.chain(sample.policy), sparse(sample.mdp).chain(sample.policy)):
        tolerance = 1e-7 * sample.scale
        found = factored_mico(chain, tolerance=tolerance)
        assert found.error <= tolerance
        for metric in BOTH:
            exact = solve(metric, chain, tolerance=1e-9 * sample.scale)
            off = np.abs(found.factors.rows(np.arange(chain.num_states), metric) - exact.matrix).max()
            assert off <= found.error + exact.error


@pytest.mark.parametrize("levels", [1, 2, 5, 17])
@pytest.mark.parametrize("kind", ["mean", "sampled"])
def test_rounding_rewards_to_levels_is_part_of_the_error(levels, kind):
    rng = np.random.default_rng(levels)
    prices = rng.normal(size=(20, 2, 20)) if kind == "sampled" else rng.normal(size=(20, 2))
    chain = MDP(rng.dirichlet(np.full(20, 0.3), size=(20, 2)), prices, 0.8).chain(reward=kind)
    span = np.ptp(chain.reward if kind == "mean" else chain.law.levels)
    with pytest.warns(ToleranceWarning):
        found = factored_mico(chain, tolerance=1e-6, levels=levels)
    check_against_dense(found, chain)
    assert found.error <= 4 * (span / levels / 2) / 0.2 + 1e-6  # |ΔΠU| ≤ 4‖Δr‖/(1−γ)


def test_levels_that_suffice_change_nothing():
    chain = CHAINS["garnet"]
    one, other = factored_mico(chain), factored_mico(chain, levels=30)
    np.testing.assert_array_equal(one.row(0), other.row(0))
    assert one.error == other.error


def test_fewer_levels_have_smaller_rank_and_larger_errors():
    chain = Chain(np.random.default_rng(0).dirichlet(np.ones(30), size=30), np.arange(30.0) ** 1.5, 0.9)
    exact = factored_mico(chain, tolerance=1e-6)
    with pytest.warns(ToleranceWarning):
        rough = factored_mico(chain, tolerance=1e-6, levels=3)
    assert rough.factors.rank < exact.factors.rank
    assert rough.iterations < exact.iterations
    assert rough.error > exact.error


@pytest.mark.parametrize("capacity", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ["grid", "garnet", "cycle", "funnel", "sampled rewards"])
def test_too_small_a_basis_gives_a_warning_and_an_honest_error(name, capacity):
    chain = CHAINS[name]
    with pytest.warns(ToleranceWarning, match="more than the tolerance 1e-09"):
        found = factored_mico(chain, tolerance=1e-9, max_basis=capacity)
    check_against_dense(found, chain)
    assert 1e-9 < found.error < 1e4


@pytest.mark.parametrize("tolerance", [1e-14, 1e-30])
def test_a_tolerance_out_of_reach_gives_a_warning_and_an_honest_error(tolerance):
    chain = CHAINS["garnet"]
    with pytest.warns(ToleranceWarning):
        found = factored_mico(chain, tolerance=tolerance)
    exact = solve("mico", chain, tolerance=1e-12)
    off = np.abs(found.row(np.arange(30)) - exact.matrix).max()
    assert off <= found.error + exact.error
    assert found.error < 1e-6


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e9, 1e160, 1e300])
def test_rewards_of_any_size(scale):
    for name in ("grid", "garnet", "star, rewards at all leaves"):
        chain = CHAINS[name]
        found = factored_mico(Chain(chain.transition, scale * chain.reward, chain.discount), tolerance=1e-6 * scale)
        assert found.error <= 1e-6 * scale
        assert np.abs(found.row(0) / scale - dense(chain)[0]).max() <= found.error / scale + 1e-8


def test_rewards_nearer_than_the_tolerance_count_as_one():
    noise = 1e-9 * np.random.default_rng(0).random(40)
    found = factored_mico(Chain(ring(40), bump(40, 3) + noise, 0.9), tolerance=1e-5)
    assert found.error <= 1e-5
    assert found.factors.rank <= 40
    assert np.abs(found.row(0) - dense(Chain(ring(40), bump(40, 3) + noise, 0.9))[0]).max() <= found.error


def test_large_and_sparse():
    """A long ring needs no matrix of pairs; U by sums over the two deterministic walks."""
    size, discount = 20_000, 0.9
    found = factored_mico(Chain(ring(size), bump(size, 5), discount), tolerance=1e-6)
    when = (5 - np.arange(size)) % size  # steps until the reward, which then pays once in `size` steps
    paid = np.where(when < 400, discount ** np.minimum(when, 400), 0.0)
    expected = np.where(np.arange(size) == 2, 0.0, paid + paid[2])
    assert np.abs(found.row(2) - expected).max() <= found.error + 1e-12
    assert found.error <= 1e-6


@pytest.mark.parametrize("name", ["grid", "garnet", "star, reward at a leaf", "constant reward", "one state, sampled"])
def test_jax_agrees(name):
    pytest.importorskip("jax")
    chain = CHAINS[name]
    found = factored_mico(chain, tolerance=1e-7, backend="jax")
    assert found.error <= 1e-7
    check_against_dense(found, chain)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0.0}, "tolerance must be positive.* 0.0"),
        ({"tolerance": -1.0}, "tolerance must be positive.* -1.0"),
        ({"tolerance": float("nan")}, "tolerance must be positive.* nan"),
        ({"tolerance": float("inf")}, "tolerance must be positive.* inf"),
        ({"levels": 0}, "levels must be at least 1, but is 0"),
        ({"levels": -2}, "levels must be at least 1, but is -2"),
        ({"levels": 2.5}, "levels must be a whole number, not 2.5"),
        ({"max_basis": 0}, "max_basis must be at least .*, but is 0"),
        ({"max_basis": -3}, "max_basis must be at least .*, but is -3"),
        ({"max_basis": 2.5}, "max_basis must be a whole number, not 2.5"),
        ({"backend": "torch"}, "backend must be .*, got 'torch'"),
        ({"metric": "bisimulation"}, "metric must be 'mico' or 'reduced-mico', got 'bisimulation'"),
    ],
)
def test_options_that_are_refused(options, message):
    for name in ("garnet", "constant reward"):
        with pytest.raises(ValueError, match=message):
            factored_mico(CHAINS[name], **options)


@pytest.mark.usefixtures("unchecked")
def test_questions_that_are_refused():
    found = factored_mico(CHAINS["garnet"])
    for ask, message in (
        (lambda: found.pairs(0, 30), r"y holds 30..30, but states are 0..29"),
        (lambda: found.pairs([-1, 3], 0), r"x holds -1..3, but states are 0..29"),
        (lambda: found.row(0.5), "x must hold states as integers, not float64"),
        (lambda: found.row([0, 99]), r"x holds 0..99, but states are 0..29"),
        (lambda: found.factors.pairs(0, 1, "lax"), "metric must be 'mico' or 'reduced-mico', got 'lax'"),
        (lambda: found.factors.rows(0, "U"), "metric must be 'mico' or 'reduced-mico', got 'U'"),
        (lambda: found.neighbours(0, 0), r"k must lie in 1..29, but is 0"),
        (lambda: found.neighbours(0, 30), r"k must lie in 1..29, but is 30"),
        (lambda: found.neighbours(30, 1), r"x must lie in 0..29, but is 30"),
        (lambda: found.neighbours(0.5, 1), "x must be a whole number, not 0.5"),
        (lambda: found.neighbours([0, 1], 1), "x must be a whole number, not"),
        (lambda: found.neighbours(0, 1.5), "k must be a whole number, not 1.5"),
        (lambda: found.embedding(0), "k must be at least 1, but is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


@pytest.mark.parametrize("discount", [np.nextafter(1, 0), 1 - 4e-16])
def test_discounts_that_rounding_cannot_tell_from_one_are_refused(discount):
    chain = CHAINS["garnet"]
    with pytest.raises(ValueError, match=f"discount must be at most .* but is {discount}"):
        factored_mico(Chain(chain.transition, chain.reward, discount))
