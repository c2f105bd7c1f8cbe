"""To register a problem is to be tested: what every entry of PROBLEMS keeps to."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin

import jaxtyping
import numpy as np
import pytest
import tyro
from hypothesis import given, settings
from hypothesis import strategies as st

from mico.tabular import problems
from mico.tabular.problems import FEWEST_STATES, PROBLEMS, Layout, Problem

RANDOM = [name for name in PROBLEMS if "seed" in inspect.signature(PROBLEMS[name]).parameters]
discounts = st.floats(0.0, 0.999)
seeds = st.integers(0, 2**32)


@pytest.fixture(scope="module")
def needed(tmp_path_factory):
    """The options that a problem cannot do without."""
    path = tmp_path_factory.mktemp("maps") / "room.txt"
    path.write_text("####\n# G#\n####\n")
    return {name: {} for name in PROBLEMS} | {name: {"seed": 0} for name in RANDOM} | {"map": {"path": path}}


@pytest.fixture
def unchecked():
    """Without the types that are checked while the tests run, as users have it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def same(one, other):
    kernels = zip(one.mdp.kernels, other.mdp.kernels, strict=True)
    alike = all(abs(p - q).max() == 0 for p, q in kernels if p.shape == q.shape)
    return one.mdp.shape == other.mdp.shape and alike and np.array_equal(one.mdp.reward, other.mdp.reward)


@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=5)
@given(discount=discounts)
def test_builds_with_the_discount_that_is_asked(needed, name, discount):
    problem = PROBLEMS[name](**needed[name], discount=discount)
    assert isinstance(problem, Problem)
    assert problem.mdp.discount == discount


@pytest.mark.parametrize("name", PROBLEMS)
def test_rows_are_distributions(needed, name):
    mdp = PROBLEMS[name](**needed[name]).mdp
    assert len(mdp.kernels) == mdp.num_actions
    for kernel in mdp.kernels:
        assert kernel.shape == (mdp.num_states, mdp.num_states)
        assert kernel.min() >= 0
        np.testing.assert_allclose(kernel.sum(axis=1), 1, atol=1e-12)
    assert np.isfinite(mdp.reward).all()
    listed = mdp.outcomes()
    total = np.zeros(mdp.shape)
    np.add.at(total, (listed.state, listed.action), listed.probability)
    np.testing.assert_allclose(total, 1, atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_names_layout_and_policy_fit_the_mdp(needed, name):
    problem = PROBLEMS[name](**needed[name])
    if problem.names is not None:
        assert len(set(problem.names)) == problem.mdp.num_states
    if problem.policy is not None:
        assert problem.policy.shape == problem.mdp.shape
        np.testing.assert_allclose(problem.policy.sum(axis=1), 1)
    if problem.layout is not None:
        assert isinstance(problem.layout, Layout)
        painted = problem.layout.paint(np.arange(problem.mdp.num_states))
        np.testing.assert_array_equal(np.nan_to_num(painted, nan=-1), problem.layout.cells)
        assert len(problem.layout.goals) >= 1


@pytest.mark.parametrize("name", PROBLEMS)
def test_options_that_set_the_size_tell_it_before_the_problem_is_built(needed, name):
    """Every whole number but a seed and what chooses among states, actions or levels is one of them."""
    parameters = inspect.signature(PROBLEMS[name]).parameters
    numbers = {key for key, parameter in parameters.items() if parameter.annotation is int}
    sizes = inspect.signature(FEWEST_STATES.get(name, lambda: 0)).parameters
    assert set(sizes) == numbers - {"seed", "num_actions", "next_states", "levels"}
    if sizes:
        given = {key: parameters[key].default + 1 for key in sizes}
        num_states = PROBLEMS[name](**needed[name], **given).mdp.num_states
        assert min(num_states, 10_000) <= FEWEST_STATES[name](**given) <= num_states


@pytest.mark.parametrize("name", RANDOM)
@given(seed=seeds)
def test_a_seed_fixes_the_mdp(name, seed):
    one = PROBLEMS[name](seed=seed)
    assert same(one, PROBLEMS[name](seed=seed))
    assert not same(one, PROBLEMS[name](seed=seed + 1))


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name not in RANDOM])
def test_what_takes_no_seed_is_not_random(needed, name):
    assert same(PROBLEMS[name](**needed[name]), PROBLEMS[name](**needed[name]))


@pytest.mark.parametrize("name", PROBLEMS)
def test_options_are_what_a_command_line_can_give(needed, name):
    parameters = inspect.signature(PROBLEMS[name]).parameters
    assert "discount" in parameters
    for parameter in parameters.values():
        assert parameter.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        required = parameter.default is inspect.Parameter.empty
        assert required == (parameter.name in needed[name])
        plain = parameter.annotation in (int, float, str, bool, Path, int | None)
        assert plain or get_origin(parameter.annotation) is Literal
    flags = [word for key, value in needed[name].items() for word in (f"--{key}", str(value))]
    built = tyro.cli(PROBLEMS[name], args=[*flags, "--discount", "0.25"])
    assert built.mdp.discount == 0.25


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_choice_of_an_option_builds_and_no_other(needed, unchecked, name):
    for key, parameter in inspect.signature(PROBLEMS[name]).parameters.items():
        if get_origin(parameter.annotation) is Literal:
            for choice in get_args(parameter.annotation):
                assert isinstance(PROBLEMS[name](**needed[name], **{key: choice}), Problem)
            with pytest.raises(ValueError, match=f"{key} must be .* not 'neither'"):
                PROBLEMS[name](**needed[name], **{key: "neither"})


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("discount", [-0.1, 1.0, float("nan")])
def test_discounts_out_of_range_are_refused(needed, name, discount):
    with pytest.raises(ValueError, match=f"discount .* {discount}"):
        PROBLEMS[name](**needed[name], discount=discount)


@pytest.mark.parametrize("name", PROBLEMS)
def test_first_docstring_line_is_one_sentence(name):
    first = (PROBLEMS[name].__doc__ or "").splitlines()[0].strip()
    assert first.endswith((".", "$."))
    assert ". " not in first


def test_the_registry_imports_no_environment_library():
    loaded = "'gymnasium' in sys.modules, 'jax' in sys.modules"
    code = f"import sys, mico.tabular.problems as p; print(len(p.PROBLEMS), {loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(PROBLEMS)), "False", "False"]


def test_problem_by_name():
    assert problems.make("dayan", discount=0.5).mdp.discount == 0.5


@pytest.mark.parametrize(("wrong", "meant"), [("four-room", "four-rooms"), ("frozenlake", "frozen-lake")])
def test_an_unknown_name_is_answered_with_the_nearest(wrong, meant):
    with pytest.raises(ValueError, match=f"{wrong}.*{meant}"):
        problems.make(wrong)


def test_a_name_like_no_other_is_answered_with_all():
    with pytest.raises(ValueError, match=r"garnet.*action-reward"):
        problems.make("")
