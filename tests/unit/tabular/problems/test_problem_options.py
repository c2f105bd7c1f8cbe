import functools
import inspect

import numpy as np
import pytest

from mico.tabular.problems import PROBLEMS, make, option_help
from mico.tabular.problems.files import load
from mico.tabular.problems.options import documented_arguments


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_option_of_every_problem_has_a_help_sentence(name):
    described = option_help(name)
    assert list(described) == list(inspect.signature(PROBLEMS[name]).parameters)
    for option, sentence in described.items():
        assert len(sentence.split()) >= 3, f"{name}: option {option} has no help: {sentence!r}"
        assert sentence[0].isupper() or sentence.startswith("`"), sentence
        assert sentence.endswith("."), sentence


@pytest.mark.parametrize("name", PROBLEMS)
def test_docstrings_describe_no_option_that_does_not_exist(name):
    assert documented_arguments(PROBLEMS[name]).keys() == inspect.signature(PROBLEMS[name]).parameters.keys()


def test_options_of_files_have_help_sentences_through_a_partial():
    assert "replaces" in documented_arguments(functools.partial(load, "mine.npz"))["discount"]


def test_the_arguments_section_ends_at_the_next_section():
    def factory(size, *, names):
        """A thing.

        Args:
            size (int): How large
                it is: in cells.

            names: One for each.

        Returns:
            other: Not an argument.
        """

    assert documented_arguments(factory) == {"size": "How large it is: in cells.", "names": "One for each."}


def test_functions_without_documentation_have_no_descriptions():
    assert documented_arguments(lambda x: x) == {}


def test_help_of_unknown_problems_is_refused():
    with pytest.raises(ValueError, match="four-rooms"):
        option_help("four-room")


def test_names_of_environments_are_names_of_problems_too():
    assert np.array_equal(make("mdp/five-state").mdp.reward, make("five-state").mdp.reward)
    assert repr(make("gym/FrozenLake-v1")) == repr(make("FrozenLake-v1"))


def test_options_of_another_kind_are_refused():
    with pytest.raises(ValueError, match=r"options of problem 'four-rooms' must be of their kinds, got .*'slip': 'x'"):
        make("four-rooms", slip="x")
