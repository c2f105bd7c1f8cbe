"""Names of arms: the same wherever runs are shown, and different for different arms."""

import subprocess
import sys

import pytest

from mico.evidence.arms import arm_names


def mico(**fields):
    return {"agent": "dqn", "metric": "mico", "env": "a", **{f"metric.{name}": value for name, value in fields.items()}}


BASE = {"agent": "dqn", "metric": None, "env": "a"}


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        ([], []),
        ([BASE], ["dqn"]),
        ([BASE | {"metric": "none"}], ["dqn"]),
        ([mico(alpha=0.1)], ["dqn + mico"]),
        ([BASE, mico(alpha=0.1)], ["dqn", "dqn + mico"]),
        ([mico(alpha=0.0), mico(alpha=0.1)], ["dqn + mico (metric.alpha=0)", "dqn + mico (metric.alpha=0.1)"]),
        (
            [mico(alpha=1e-5, beta=1), mico(alpha=0.1, beta=2)],
            ["dqn + mico (metric.alpha=1e-05, metric.beta=1)", "dqn + mico (metric.alpha=0.1, metric.beta=2)"],
        ),
        ([mico(pairs="all"), mico()], ["dqn + mico (metric.pairs=all)", "dqn + mico"]),
        ([mico(alpha=float("nan")), mico(alpha=None)], ["dqn + mico", "dqn + mico"]),
        ([mico(sizes=[1, 2]), mico(sizes=[1])], ["dqn + mico (metric.sizes=[1, 2])", "dqn + mico (metric.sizes=[1])"]),
    ],
)
def test_a_name_has_the_fields_that_differ(runs, names):
    assert arm_names(runs) == names


def test_seeds_parts_and_differences_between_environments_are_in_no_name():
    runs = [
        BASE | {"seed": 0, "agent.name": "dqn", "env.name": "a", "env.slip": 0.1},
        BASE | {"seed": 1, "agent.name": "x", "env.name": "c", "env.slip": 0.1},
        BASE | {"env": "b", "env.slip": 0.9},
    ]
    assert arm_names(runs) == ["dqn"] * 3


def test_numbers_that_differ_beyond_six_digits_have_different_names():
    assert arm_names([mico(alpha=0.1), mico(alpha=0.10000001)]) == [
        "dqn + mico (metric.alpha=0.1)",
        "dqn + mico (metric.alpha=0.10000001)",
    ]


def test_naming_loads_neither_jax_nor_pandas():
    code = "import sys; import mico.evidence.arms; assert not {'jax', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
