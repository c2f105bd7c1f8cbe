"""What sweeps are said to take: by hand from the paces in docs/speed.md."""

import math

import pytest

from mico.sweeps.costs import duration, estimate, makespan
from mico.sweeps.grid import Sweep, cells
from mico.sweeps.plan import plan


def fleet(seeds, **entries):
    sweep = Sweep(**{"steps": 1_000_000, "env": ["minatar/breakout"], "seeds": list(range(seeds))} | entries)
    (found,) = plan(sweep, cells(sweep), memory=None, max_runs=None)
    return found


@pytest.mark.parametrize(
    ("device", "metric", "runs", "rate"),
    [
        ("cpu", "none", 1, 6_110),
        ("cpu", "none", 2, (6_110 + 16_405) / 2),  # 2 is halfway from 1 to 4 by the logarithm
        ("cpu", "mico", 4, 12_395),
        ("cpu", "mico", 12, 12_395),
        ("gpu", "none", 64, 887_000),
        ("gpu", "mico", 128, (814_000 + 1_035_000) / 2),
        ("gpu", "none", 16, 887_000 / 4),
    ],
)
def test_dqn_on_minatar_takes_as_long_as_it_was_measured_to(device, metric, runs, rate):
    found = estimate(fleet(runs, metric=[metric]), device)
    assert found.measured == (runs != 16)  # no fleet so small was timed there
    assert found.seconds == pytest.approx(runs * 1_000_000 / rate)


def test_a_fleet_with_baselines_goes_at_the_pace_of_its_metric_loss():
    assert estimate(fleet(2, metric=["none", "mico"]), "cpu").seconds == pytest.approx(4_000_000 / 12_395)


def test_other_agents_are_slower_and_say_what_was_measured():
    dqn, iqn = (estimate(fleet(4, agent=[agent]), "cpu") for agent in ("dqn", "iqn"))
    assert iqn.seconds > 5 * dqn.seconds
    assert (dqn.measured, iqn.measured) == (True, False)
    large, largest = (estimate(fleet(runs, agent=["iqn"]), "gpu") for runs in (10, 40))
    assert (large.measured, large.seconds) == (True, pytest.approx(10_000_000 / 48_000))
    assert largest.seconds == pytest.approx(4 * large.seconds)
    fused = {"agent.fractions": ["shared"], "network.precision": ["bfloat16"]}
    quick = estimate(fleet(20, agent=["iqn"], fields=fused), "gpu")
    assert (quick.measured, quick.seconds) == (True, pytest.approx(20_000_000 / 170_000))
    slower = estimate(fleet(10, agent=["m-iqn"]), "gpu")
    assert slower.seconds > large.seconds
    assert not slower.measured


def test_what_was_never_timed_has_no_estimate_and_what_is_derived_says_so():
    assert estimate(fleet(1, env=["mdp/two-state"]), "cpu") is None
    assert estimate(fleet(1, env=["atari/pong"]), "cpu") is None
    dqn, rainbow = (estimate(fleet(8, env=["atari/pong"], agent=[agent]), "gpu") for agent in ("dqn", "rainbow"))
    assert (dqn.measured, rainbow.measured) == (True, False)
    assert dqn.seconds == rainbow.seconds == pytest.approx(8_000_000 / 4_007)
    control = estimate(fleet(8, env=["control/cheetah-run"], agent=["sac"]), "gpu")
    assert (control.measured, control.seconds) == (False, pytest.approx(8_000_000 / 273))


def test_many_devices_share_fleets_as_they_become_free():
    assert makespan([3.0, 3.0, 2.0, 2.0, 2.0], 1) == 12.0
    assert makespan([3.0, 3.0, 2.0, 2.0, 2.0], 2) == 7.0
    assert makespan([5.0, 1.0, 1.0, 1.0], 3) == 5.0
    assert math.isclose(makespan([0.1] * 10, 100), 0.1)


@pytest.mark.parametrize(
    ("seconds", "words"), [(90.0, "90 seconds"), (150.0, "2 minutes"), (7_300.0, "2 hours"), (864_000.0, "10 days")]
)
def test_durations_are_in_the_unit_of_which_there_are_a_few(seconds, words):
    assert duration(seconds) == words
