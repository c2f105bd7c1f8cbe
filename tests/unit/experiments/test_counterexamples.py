"""Every computed number by its closed form, for several discounts; verdicts by what the paper says."""

import pytest

from mico.experiments import counterexamples
from mico.experiments.counterexamples import Config

SLIPS = {("bisimulation is no bound", 1), ("no discount", 0), ("self-distance", 0)}


def expected(g, k):
    """The numbers of each example, in the order of its lines."""
    whole, half, quarter = 1 / (1 - g), 1 / (1 - g / 2), 1 / (1 - g / 4)
    return {
        "bisimulation is no bound": [whole, (k - 1) * whole, k * whole, k * whole],
        "ΠU is no bound": [half, g / 2 * half * quarter, half, quarter],
        "no partial metric": [1, 0.5],
        "no discount": [half],
        "terminals": [half, half, 1],
        "random reward": [0, 0.5 * whole],
        "reward of actions": [0, 0.5 * whole],
        "self-distance": [0, g / 2 * whole],
        "pessimism": [whole, 0, 0],
    }


@pytest.mark.parametrize(("discount", "k"), [(0.9, 2.0), (0.5, 3.0)])
def test_every_number_in_closed_form(discount, k):
    frame = counterexamples.run(Config(discount=discount, k=k))
    found = {name: part["computed"].tolist() for name, part in frame.groupby("example", sort=False)}
    assert list(found) == list(expected(discount, k))
    for name, numbers in expected(discount, k).items():
        assert found[name] == pytest.approx(numbers, abs=1e-7), name


def test_what_the_paper_says_at_its_own_discount():
    frame = counterexamples.run(Config())
    place = frame.groupby("example").cumcount()
    slips = set(zip(frame["example"], place, strict=True)) - set(
        zip(frame["example"][frame["verdict"] != "slip"], place[frame["verdict"] != "slip"], strict=True)
    )
    assert slips == SLIPS
    silent = frame[frame["verdict"] == "not printed"]
    assert silent["printed"].isna().all()
    assert set(silent["example"]) >= {"terminals", "random reward", "reward of actions", "pessimism"}
    assert (frame["verdict"] == "agrees").sum() == 8  # d~, four of the lemma, two of the appendix, the true coin


def test_numbers_printed_for_one_discount_are_not_held_against_another():
    frame = counterexamples.run(Config(discount=0.5)).set_index("example")
    assert (frame.loc["ΠU is no bound", "verdict"] == "not printed").all()


def test_with_rewards_of_one_the_printed_policy_has_no_gap():
    frame = counterexamples.run(Config(k=1.0))
    assert frame["computed"][1] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("field", "value"), [("discount", 1.0), ("discount", -0.1), ("k", 0.5), ("k", float("inf"))])
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} must .* but is {value}"):
        Config(**{field: value})
