"""A solution: the same answers whether it holds a matrix or factors, and what it says of itself."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from mico.tabular import (
    MDP,
    METRICS,
    Chain,
    Problem,
    ToleranceWarning,
    garnet,
    make,
    optimal_policy,
    solve,
    solve_policies,
    uniform_policy,
)
from mico.tabular.metrics import solution as solutions

ROOMS = make("mirrored-rooms")
STATES = ROOMS.num_states


@pytest.fixture(scope="module", params=["mico", "reduced-mico"])
def both(request):
    return tuple(solve(request.param, ROOMS, method=method, tolerance=1e-9) for method in ("dense", "factored"))


def test_rows_pairs_and_the_matrix_agree(both):
    for one in both:
        matrix = one.matrix
        assert matrix.shape == (STATES, STATES)
        assert not matrix.flags.writeable
        everyone = np.arange(STATES)
        np.testing.assert_allclose(one.row(everyone), matrix, rtol=0, atol=1e-12)
        np.testing.assert_allclose(one.row(4), matrix[4], rtol=0, atol=1e-12)
        np.testing.assert_allclose(one.pairs(everyone[:, None], everyone), matrix, rtol=0, atol=1e-12)
        assert float(one.pairs(3, 7)) == pytest.approx(matrix[3, 7], abs=1e-12)
        assert np.ndim(one.pairs(3, 7)) == 0


def test_the_two_methods_agree_within_their_certified_errors(both):
    dense, factored = both
    assert (dense.method, factored.method) == ("dense", "factored")
    assert max(dense.error, factored.error) <= 1e-9
    np.testing.assert_allclose(dense.matrix, factored.matrix, rtol=0, atol=dense.error + factored.error)


def test_neighbours_are_the_nearest_others_by_sorting(both):
    for one in both:
        for x, k in ((0, 1), (4, 7), (30, STATES - 1)):
            near = one.neighbours(x, k)
            row = one.row(x)
            expected = sorted((y for y in range(STATES) if y != x), key=lambda y: (row[y], y))[:k]
            assert near.index.tolist() == expected
            np.testing.assert_array_equal(near.distance, row[expected])


def test_what_is_given_back_is_a_copy(both):
    for one in both:
        before = one.row(0)
        one.row(0)[:] = -1
        np.testing.assert_array_equal(one.row(0), before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.row(31), "x holds 31..31, but states are 0..30"),
        (lambda s: s.row(-1), "x holds -1..-1"),
        (lambda s: s.row(0.5), "x must hold states as integers, not float64"),
        (lambda s: s.row("goal"), "x must hold states as integers"),
        (lambda s: s.pairs(0, 31), "y holds 31..31"),
        (lambda s: s.pairs([0, 1], [0, 1, 2]), r"x and y must have shapes that broadcast, got \[2\] and \[3\]"),
        (lambda s: s.neighbours(0, 0), r"k must lie in 1..30, but is 0"),
        (lambda s: s.neighbours(0, 31), r"k must lie in 1..30, but is 31"),
        (lambda s: s.neighbours(31, 1), r"x must lie in 0..30, but is 31"),
        (lambda s: s.plot_from(31), r"x must lie in 0..30, but is 31"),
        (lambda s: s.plot_from(0, colours="log"), "colours must be 'auto', 'linear' or 'rank', got 'log'"),
    ],
)
def test_states_that_do_not_exist_are_refused(unchecked, both, call, message):
    for one in both:
        with pytest.raises(ValueError, match=message):
            call(one)


def test_a_solution_knows_what_it_is_of():
    found = solve("mico", ROOMS, "optimal", tolerance=1e-6)
    assert (found.metric, found.reward, found.tolerance, found.num_states) == ("mico", "mean", 1e-6, STATES)
    assert found.model is ROOMS
    assert found.layout is ROOMS.layout
    np.testing.assert_array_equal(found.policy, optimal_policy(ROOMS.mdp))
    assert 0 <= found.error <= 1e-6
    assert found.iterations > 0
    assert solve("bisimulation", ROOMS).policy is None
    assert solve("mico", ROOMS.mdp.chain()).policy is None
    assert solve("mico", ROOMS.mdp).layout is None
    np.testing.assert_array_equal(solve("mico", ROOMS).policy, uniform_policy(ROOMS.mdp))


def test_the_representation_is_one_short_line():
    found = solve("mico", ROOMS)
    assert repr(found).startswith("Solution('mico', 31 states, discount 0.9, dense, error ")
    assert len(repr(found)) < 80
    assert "factored" in repr(solve("mico", ROOMS, method="factored"))
    assert "1 state," in repr(solve("mico", make("random-reward")))


def test_models_are_a_problem_its_mdp_and_its_chain():
    of_all = [solve("mico", model).matrix for model in (ROOMS, ROOMS.mdp, ROOMS.mdp.chain())]
    for other in of_all[1:]:
        np.testing.assert_array_equal(other, of_all[0])


def test_policies_by_name_are_the_arrays_that_they_stand_for():
    problem = make("bound-example")
    assert problem.policy is not None
    for name, array in (
        ("uniform", np.full((2, 2), 0.5)),
        ("optimal", optimal_policy(problem)),
        ("problem", problem.policy),
        (None, np.full((2, 2), 0.5)),
    ):
        np.testing.assert_array_equal(solve("mico", problem, name).matrix, solve("mico", problem.mdp, array).matrix)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve("mico", ROOMS, "problem"), "policy must be .* got 'problem': this one has no policy"),
        (lambda: solve("mico", ROOMS.mdp, "problem"), "policy must be .* got 'problem'"),
        (lambda: solve("mico", ROOMS, "best"), r"policy must be 'uniform', .* or an array \[S, A\], got 'best'"),
        (lambda: solve("mico", ROOMS, method="sparse"), "method must be 'auto', 'dense' or 'factored', got 'sparse'"),
        (lambda: solve("bisimulation", ROOMS, method="factored"), "method must be 'auto' or 'dense' for bisimulation"),
        (lambda: solve_policies("bisimulation", ROOMS, np.ones((1, 31, 4)) / 4), "metric must be one of a policy"),
        (lambda: solve_policies("mico", ROOMS.mdp.chain(), np.ones((1, 31, 4)) / 4), "model must be a Problem or"),
        (lambda: solve("mico", ROOMS, np.ones((2, 31, 4)) / 4), "solve_policies takes many"),
    ],
)
def test_what_cannot_be_solved_is_refused(unchecked, call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_auto_takes_factors_for_large_models_with_few_rewards():
    grid = make("open-grid", height=32, width=32)  # 1,024 states, 2 rewards
    assert solve("mico", grid, tolerance=1e-6).method == "factored"
    assert solve("mico", make("open-grid", height=31, width=32)).method == "dense"
    assert solve("mico", garnet(40, 2, seed=0)).method == "dense"
    many = make("sparse-garnet", seed=0, num_states=1001, levels=40)
    assert solve("mico", many, tolerance=1e-3).method == "dense"


def test_auto_says_what_to_do_where_no_method_fits(monkeypatch):
    """The limits are lowered, since real ones take gigabytes."""
    monkeypatch.setattr("mico.tabular.metrics._LARGEST_DENSE", 50)
    monkeypatch.setattr("mico.tabular.metrics._SMALL", 10)
    many = garnet(51, 2, seed=0)
    with pytest.raises(ValueError, match=r"method must be given for 51 states .* 'dense' .* factored_mico"):
        solve("mico", many)
    assert solve("mico", many, method="dense").method == "dense"
    assert solve("reward-law", many).method == "dense"


def test_a_matrix_of_too_many_states_is_refused_but_rows_are_not(monkeypatch):
    monkeypatch.setattr(solutions, "LARGEST_MATRIX", STATES - 1)
    found = solve("mico", ROOMS, method="factored")
    assert found.row(0).shape == (STATES,)
    with pytest.raises(ValueError, match=r"matrix must be of at most 30 states, got 31: .* row, pairs and neighbours"):
        _ = found.matrix
    with pytest.raises(ValueError, match="matrix must be of at most"):
        found.plot(Figure().subplots())
    assert solve("mico", ROOMS, method="dense").matrix.shape == (STATES, STATES)


def test_a_matrix_that_was_solved_cannot_be_written_to():
    matrix = solve("mico", ROOMS).matrix
    with pytest.raises(ValueError, match="read-only"):
        matrix[0, 0] = 1.0


def test_one_warning_where_the_tolerance_is_out_of_reach():
    huge = MDP(ROOMS.mdp.kernels, 1e9 * ROOMS.mdp.reward, 0.9)
    for method in ("dense", "factored"):
        with pytest.warns(ToleranceWarning, match="mico: the certified error is") as caught:
            found = solve("mico", huge, tolerance=1e-12, method=method)
        assert len(caught) == 1
        assert found.error > found.tolerance


@pytest.mark.parametrize("name", METRICS)
def test_plots_show_the_distances(name):
    found = solve(name, ROOMS)
    axes = Figure().subplots(1, 2)
    assert found.plot(axes[0]) is axes[0]
    np.testing.assert_array_equal(axes[0].images[0].get_array(), found.matrix)
    assert axes[0].get_title() == name
    assert found.plot_from(3, axes[1]) is axes[1]
    assert ROOMS.layout is not None
    shown = np.ma.filled(axes[1].images[0].get_array(), np.nan)
    np.testing.assert_array_equal(shown, ROOMS.layout.paint(found.row(3)))
    assert axes[1].get_title() == f"{name}, from state 3"


def test_without_a_map_a_row_is_bars_with_the_names_of_states():
    ax = solve("mico", make("coin-chain")).plot_from(1, Figure().subplots())
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(solve("mico", make("coin-chain")).matrix[1])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["coin", "before tails", "tails", "heads"]
    assert ax.get_title() == "mico, from state before tails"


def test_without_axes_pyplot_shows_the_picture():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    before = pyplot.get_fignums()
    ax = solve("mico", ROOMS).plot()
    assert len(pyplot.get_fignums()) == len(before) + 1
    pyplot.close(ax.figure)


def test_diagnostics_take_a_solution_for_a_matrix():
    from mico.tabular.abstraction.clustering import epsilon_cover
    from mico.tabular.diagnostics import check_axioms, value_bound

    found = solve("pi-bisimulation", ROOMS)
    value = ROOMS.mdp.chain().value()
    assert check_axioms(found) == check_axioms(found.matrix)
    assert value_bound(found, value, error=found.error).broken == 0
    assert epsilon_cover(found, radius=0.1).radius == epsilon_cover(found.matrix, radius=0.1).radius


def test_every_function_of_an_mdp_takes_a_problem():
    from mico.tabular import action_values, deterministic_policy, factored_mico, optimal, optimal_value, random_policy
    from mico.tabular.abstraction.bisimilarity import bisimulation_relation, policy_bisimulation_relation
    from mico.tabular.abstraction.partition import quotient
    from mico.tabular.embeddings import mico_embedding, proto_value_functions
    from mico.tabular.sampling.simulator import simulate

    mdp, chain, value = ROOMS.mdp, ROOMS.mdp.chain(), np.arange(31.0)
    same = np.testing.assert_array_equal
    same(uniform_policy(ROOMS), uniform_policy(mdp))
    same(random_policy(ROOMS, seed=1), random_policy(mdp, seed=1))
    same(deterministic_policy(ROOMS, np.zeros(31, int)), deterministic_policy(mdp, np.zeros(31, int)))
    same(action_values(ROOMS, value), action_values(mdp, value))
    same(optimal(ROOMS)[1], optimal(mdp)[1])
    same(optimal_value(ROOMS), optimal_value(mdp))
    same(factored_mico(ROOMS).factors, factored_mico(chain).factors)
    same(factored_mico(ROOMS, "optimal").value, factored_mico(mdp.chain(optimal_policy(mdp))).value)
    same(mico_embedding(ROOMS), mico_embedding(chain))
    same(proto_value_functions(ROOMS), proto_value_functions(chain))
    assert bisimulation_relation(ROOMS, tolerance=1e-9) == bisimulation_relation(mdp, tolerance=1e-9)
    classes = policy_bisimulation_relation(ROOMS, tolerance=1e-9)
    assert classes == policy_bisimulation_relation(chain, tolerance=1e-9)
    same(quotient(ROOMS, classes).reward, quotient(mdp, classes).reward)
    same(simulate(ROOMS, num_steps=5, seed=0).state, simulate(mdp, num_steps=5, seed=0).state)
    assert np.ptp(simulate(ROOMS, "optimal", num_steps=5, seed=0).state) >= 0


@pytest.mark.parametrize("name", METRICS)
def test_metrics_take_problems_without_a_map(name):
    chain = Chain([[0.5, 0.5], [0.0, 1.0]], [1.0, 0.0], 0.9)
    problem = Problem(MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[1.0], [0.0]], 0.9))
    of_problem = solve(name, problem)
    if METRICS[name].on == "policy":
        np.testing.assert_allclose(solve(name, chain).matrix, of_problem.matrix, rtol=0, atol=1e-8)
    assert of_problem.matrix[0, 1] > 0


def test_solving_imports_neither_jax_nor_what_draws_and_transports():
    code = (
        "import sys, mico.tabular as mt; mt.solve('mico', mt.make('four-rooms')).row(0);"
        "print([name for name in ('jax', 'matplotlib', 'pandas', 'ot', 'gymnasium', 'equinox') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
