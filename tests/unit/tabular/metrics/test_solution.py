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
    same(factored_mico(ROOMS).factors.psi, factored_mico(chain).factors.psi)
    optimal_chain = mdp.chain(optimal_policy(mdp))
    same(factored_mico(ROOMS, "optimal").factors.psi, factored_mico(optimal_chain).factors.psi)
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


def other_rooms():
    """The rooms with a reward that is different and with other rows, as a model of its own."""
    rng = np.random.default_rng(0)
    return Problem(MDP(rng.dirichlet(np.ones(3), size=(3, 4)), rng.random((3, 4)), 0.9), names=("one", "two", "three"))


def between(metric="mico", policies=True):
    """A solution between two models, as a solver would make it; its numbers are those of a formula."""
    matrix = 20 + np.add.outer(np.arange(31.0), 100 * np.arange(3.0))
    other = other_rooms()
    own = {"policy": uniform_policy(ROOMS), "other_policy": uniform_policy(other)} if policies else {"policy": None}
    return solutions.Solution(
        metric, ROOMS, matrix, reward="mean", tolerance=1e-8, error=1e-9, iterations=3, other=other, **own
    )


def test_distances_between_two_models_are_asked_for_as_those_within_one():
    found = between()
    assert repr(found) == "Solution('mico', 31 states and 3 of another model, discount 0.9, dense, error 1e-09)"
    assert (found.num_states, found.num_columns) == (31, 3)
    assert found.row(4).tolist() == [24, 124, 224]
    assert float(found.pairs(30, 2)) == 250
    assert found.neighbours(0, 3).index.tolist() == [0, 1, 2]  # state 0 of the other model is another state
    frame = found.to_frame()
    assert len(frame) == 93
    assert frame.iloc[-1].tolist() == [30, "three", 250.0]
    for call in (lambda: found.pairs(0, 3), lambda: found.neighbours(0, 4), found.embedding, found.check_axioms):
        with pytest.raises(ValueError, match=r"y holds 3|k must lie in 1..3|must be asked of distances within one"):
            call()


def test_between_two_models_the_values_of_both_are_bounded():
    for policies in (True, False):
        found = between("mico" if policies else "bisimulation", policies)
        other = found.other
        values = [model.mdp.chain().value() if policies else by_sweeps(model.mdp) for model in (ROOMS, other)]
        gaps = [[found.matrix[x, y] - abs(values[0][x] - values[1][y]) for y in range(3)] for x in range(31)]
        assert found.value_bound().mean_gap == pytest.approx(np.mean(gaps))
        assert found.value_bound().broken == np.mean(np.array(gaps) < 0)


def test_pictures_between_two_models_show_the_other_ones_states():
    axes = Figure().subplots(1, 2)
    found = between()
    found.plot(axes[0])
    assert axes[0].images[0].get_array().shape == (31, 3)
    assert [tick.get_text() for tick in axes[0].get_xticklabels()] == ["one", "two", "three"]
    found.plot_from(5, axes[1])
    assert [bar.get_height() for bar in axes[1].patches] == [25, 125, 225]
    assert {bar.get_facecolor() for bar in axes[1].patches} == {axes[1].patches[0].get_facecolor()}


def by_sweeps(mdp):
    """Optimal values by value iteration."""
    value = np.zeros(mdp.num_states)
    for _ in range(400):
        value = np.max([mdp.reward[:, a] + 0.9 * (kernel @ value) for a, kernel in enumerate(mdp.kernels)], axis=0)
    return value


@pytest.mark.parametrize("name", METRICS)
def test_the_values_that_a_metric_bounds_are_its_own(name):
    found = solve(name, ROOMS)
    expected = ROOMS.mdp.chain().value() if METRICS[name].on == "policy" else by_sweeps(ROOMS.mdp)
    np.testing.assert_allclose(found.value, expected, rtol=0, atol=1e-9)
    gap = found.matrix - np.abs(np.subtract.outer(expected, expected))
    assert found.value_bound() == (pytest.approx((gap < -1e-7).mean()), pytest.approx(gap.mean()))
    if METRICS[name].on == "policy":
        np.testing.assert_array_equal(solve(name, ROOMS.mdp.chain()).value, ROOMS.mdp.chain().value())


@pytest.mark.parametrize("name", METRICS)
def test_the_axioms_of_a_solution_allow_for_its_error(name):
    from mico.tabular.diagnostics import check_axioms

    found = solve(name, ROOMS, tolerance=1e-3)
    assert found.check_axioms() == check_axioms(found.matrix, 4 * found.error)
    assert found.check_axioms(0.5).tolerance == 0.5
    assert ("pseudometric" in found.check_axioms().kinds) == (name not in ("mico", "reduced-mico"))


@pytest.mark.parametrize("name", METRICS)
def test_points_of_an_embedding_have_the_distances(name):
    found = solve(name, ROOMS)
    points = found.embedding(30)
    assert points.shape == (31, 30)
    apart = ((points[:, None] - points) ** 2).sum(axis=2)
    if name in ("mico", "reduced-mico"):
        np.testing.assert_allclose(apart, solve("reduced-mico", ROOMS).matrix, rtol=0, atol=1e-7)
        factored = solve(name, ROOMS, method="factored")
        assert factored.scaling(2).kept == pytest.approx(found.scaling(2).kept, abs=1e-6)
    lengths = (points**2).sum(axis=0)
    assert (np.diff(lengths) <= 1e-9).all()
    assert 0 < found.scaling(2).kept <= 1


def test_only_factored_solutions_have_factors():
    found = solve("reduced-mico", ROOMS, method="factored")
    np.testing.assert_allclose(found.factors.rows(3, "mico"), solve("mico", ROOMS).row(3), atol=1e-7)
    with pytest.raises(ValueError, match="factors must be asked of a factored solution, got Solution"):
        _ = solve("mico", ROOMS).factors


def test_a_table_has_a_line_for_each_pair():
    chain = make("coin-chain")
    frame = solve("mico", chain).to_frame()
    assert list(frame) == ["x", "y", "distance"]
    assert frame.loc[1, ["x", "y"]].tolist() == ["coin", "before tails"]
    np.testing.assert_array_equal(frame["distance"].to_numpy().reshape(4, 4), solve("mico", chain).matrix)
    assert solve("mico", garnet(3, 2, seed=0)).to_frame()["y"].tolist() == [0, 1, 2] * 3


SAVED = {
    "problem": lambda: solve("mico", ROOMS, "optimal"),
    "names": lambda: solve("bisimulation", make("coin-chain")),
    "policy of the problem": lambda: solve("mico", make("bound-example"), "problem"),
    "mdp": lambda: solve("lax-bisimulation", garnet(4, 2, seed=0).mdp),
    "factors": lambda: solve("reduced-mico", ROOMS, method="factored"),
    "chain": lambda: solve("pi-bisimulation", garnet(4, 2, seed=0).mdp.chain()),
    "sparse chain": lambda: solve("mico", ROOMS.mdp.chain()),
    "chain with a law": lambda: solve("mico", make("random-reward").mdp.chain(reward="sampled"), reward="sampled"),
    "two models": between,
}


@pytest.mark.parametrize("kind", SAVED)
def test_a_saved_solution_is_loaded_with_its_model(tmp_path, kind):
    before = SAVED[kind]()
    before.save(tmp_path / "it.npz")
    after = solutions.Solution.load(tmp_path / "it.npz")
    assert repr(after) == repr(before)
    for name in ("metric", "reward", "tolerance", "error", "iterations", "method", "names", "compares"):
        assert getattr(after, name) == getattr(before, name), name
    for name in ("policy", "other_policy", "matrix"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name), err_msg=name)
    for name in ("value", "other_value"):  # rows of a chain are normalised once more, which may change a last digit
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), rtol=1e-14, err_msg=name)
    assert type(after.model) is type(before.model)
    assert repr(after.model) == repr(before.model)
    assert (after.layout is None) == (before.layout is None)
    if before.layout is not None:
        np.testing.assert_array_equal(after.layout.cells, before.layout.cells)
        assert after.layout.goals == before.layout.goals
    if before.other is None and before.policy is None:
        again = solve(after.metric, after.model, reward=after.reward)
        np.testing.assert_allclose(again.matrix, before.matrix, rtol=0, atol=again.error + before.error)


def test_files_that_hold_no_solution_are_refused_in_one_line(tmp_path):
    path = tmp_path / "it.npz"
    with pytest.raises(ValueError, match=r"path must end in .npz, got .*it.csv"):
        solve("mico", ROOMS).save(tmp_path / "it.csv")
    with pytest.raises(ValueError, match="No such file"):
        solutions.Solution.load(path)
    solve("mico", make("two-state")).save(path)
    whole = dict(np.load(path))
    for change, message in (
        ({"matrix": None}, "holds no solution of a metric: it has no matrix"),
        ({"matrix": np.zeros((3, 3))}, r"matrix must have shape \[2, 2\], got \[3, 3\]"),
        ({"matrix": np.full((2, 2), np.nan)}, "is not finite"),
        ({"error": -1.0}, "error must be finite and not negative, got -1.0"),
        ({"metric": 3.0}, "metric must be a word"),
        ({"iterations": "many"}, "iterations must be a number"),
        ({"model.kind": "cat"}, "model.kind must be 'problem', 'mdp' or 'chain', got 'cat'"),
        ({"model.transition": np.ones((2, 1, 2))}, "sums to 2"),
    ):
        fields = {key: value for key, value in (whole | change).items() if value is not None}
        np.savez(path, **fields)
        with pytest.raises(ValueError, match=message) as caught:
            solutions.Solution.load(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)
