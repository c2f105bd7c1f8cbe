"""The benchmarks of training, Atari and control run, at their smallest, and print numbers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

from mico.tabular import Chain
from mico.tabular.abstraction.bisimilarity import policy_bisimulation_relation

FOLDER = Path(__file__).parents[2] / "benchmarks"
ROWS = {"cost": r"^dqn +1 ", "atari-update": r"^ +1 float32 "}


@pytest.fixture(scope="module")
def printed(quick_compilation):
    chosen = " ".join(f"--only {part}" for part in ROWS)
    return ran("training.py", f"--quick {chosen}")


def ran(script, flags):
    command = [sys.executable, str(FOLDER / script), *flags.split()]
    done = subprocess.run(command, env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("part", ROWS)
def test_each_part_prints_times_with_and_without_mico(printed, part):
    section = printed.partition(f"\n{part}: ")[2].partition("\n\n")[0]
    (row,) = re.findall(f"{ROWS[part]}.*", section, re.MULTILINE)
    times = re.findall(r"([\d.,]+) \(([\d.,]+)–([\d.,]+)\)", row)
    assert len(times) == 2
    for middle, least, most in ((float(number.replace(",", "")) for number in time) for time in times):
        assert 0 < least <= middle <= most
    assert re.search(r" [+-]\d+\.\d% ", row)
    assert not re.search("nan|inf", row)


def test_memory_is_told_in_units_of_the_replay(printed):
    """A thousand frames, beside which the network and its work are much."""
    (row,) = re.findall(f"{ROWS['atari-update']}.*", printed, re.MULTILINE)
    replay, program = (float(number) for number in row.split("%")[1].split()[:2])
    assert replay == pytest.approx(1000 * 84 * 84 / 2**30, abs=0.005)
    assert 1 < program < 100


TIMES = r"([\d.]+) \(([\d.]+)–([\d.]+)\)"


def test_first_and_second_start_beside_a_plain_dqn(quick_compilation):
    pytest.importorskip("minatar")
    printed = ran("training.py", "--quick --only start")
    rows = re.findall(r"^(minatar/breakout mico|plain JAX, breakout) +(.*)", printed, re.MULTILINE)
    assert [name for name, _ in rows] == ["minatar/breakout mico", "plain JAX, breakout"]
    for _, row in rows:
        assert_rates(re.findall(r"[\d.]+ \([\d.]+–[\d.]+\)", row))
        (first, *least_most), (second, *bounds) = (map(float, times) for times in re.findall(TIMES, row))
        assert 0 < second < first  # programs are found in the folder of the first start
        share = float(row.rpartition(")")[2].split()[1])  # the median of ratios, not the ratio of medians
        assert bounds[0] / least_most[1] - 0.02 <= share <= bounds[1] / least_most[0] + 0.02


def test_the_plain_dqn_learns(monkeypatch):
    """CartPole pays 1 a step, of which random play gets some 22."""
    monkeypatch.syspath_prepend(FOLDER)
    import plain_dqn

    for seed in (0, 1):
        _, returns, rate = plain_dqn.train("CartPole-v1", 12_000, seed, decay=4_000, report=lambda line: None)
        assert np.mean(returns[:20]) < 50
        assert np.mean(returns[-20:]) > 100
        assert rate > 0


def test_the_plain_dqn_learns_the_value_of_a_chain(monkeypatch):
    """Two states, the second of which pays 1 and ends: by hand Q is 0.99 in the first and 1 in the second."""
    monkeypatch.syspath_prepend(FOLDER)
    import plain_dqn

    params = plain_dqn.init_params(jax.random.key(0), (2,), 1, (16,))
    optimiser = optax.adam(0.01)
    state, seen = optimiser.init(params), np.eye(2, dtype=np.float32)
    batch = seen, np.zeros(2, np.int32), np.array([0, 1], np.float32), seen[[1, 0]], np.array([0, 1], np.float32)
    target = params
    for step in range(600):
        params, state = plain_dqn.update(optimiser, 0.99, params, target, state, batch)
        target = params if step % 10 == 0 else target
    np.testing.assert_allclose(plain_dqn.q_values(params, seen)[:, 0], [0.99, 1.0], atol=0.02)


def test_the_plain_dqn_has_the_network_of_the_preset(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import plain_dqn

    params = plain_dqn.init_params(jax.random.key(0), (10, 10, 4), 3, (128,))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 132_179
    assert plain_dqn.q_values(params, np.ones((5, 10, 10, 4), np.uint8)).shape == (5, 3)


def test_bisimulation_classes_beside_storm():
    """Storm has an environment of its own, whose interpreter MICO_STORMPY names; without it ours alone are counted.

    The grid mirrors along its diagonal, no two states of the corridor are alike, and copies are one class.
    """
    stormpy = os.environ.get("MICO_STORMPY")
    flags = f"--quick --stormpy {stormpy}" if stormpy else "--quick --only grid-20 garnet-300-twice corridor-300"
    _, *rows = ran("bisimilarity.py", flags).splitlines()
    columns = {name: [cell.replace(",", "") for cell in cells] for name, *cells in (row.split() for row in rows)}
    classes = {name: int(cells[1]) for name, cells in columns.items()}
    assert classes["grid-20"] == 20 * 21 / 2
    assert classes["corridor-300"] == classes["garnet-300-twice"] == 300
    assert all(0 < float(cells[2]) < float(cells[3]) for cells in columns.values())
    if stormpy:
        assert len(rows) == 8
        assert {name: int(cells[5]) for name, cells in columns.items()} == classes


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("grid-100", 5_050),
        ("grid-300", 45_150),
        pytest.param("grid-1000", 500_500, marks=pytest.mark.slow),
        ("garnet-5000-twice", 5_000),
        ("garnet-10000-ten-times", 10_000),
        pytest.param("garnet-500000-twice", 500_000, marks=pytest.mark.slow),
        ("corridor-3000", 3_000),
        ("ring-100000", 501),
    ],
)
def test_as_many_classes_as_storm_finds(name, classes, monkeypatch):
    """The numbers of stormpy 2.0.0 on the models of the benchmark."""
    monkeypatch.syspath_prepend(FOLDER)
    import bisimilarity

    kernel, reward = bisimilarity.MODELS[name]()
    chain = Chain(kernel, reward, 0.9)
    assert policy_bisimulation_relation(chain, tolerance=bisimilarity.TOLERANCE).num_classes == classes


def test_beside_stable_baselines(quick_compilation):
    pytest.importorskip("stable_baselines3")
    printed = ran("training.py", "--quick --only sb3")
    assert re.search(r"both networks have 132,179 parameters", printed)
    rows = re.findall(r"^(?:ours, metric (?:none|mico), \d runs?|SB3, .*?)  .*", printed, re.MULTILINE)
    assert len(rows) == 5
    assert_rates(rows)
    shares = re.findall(r"(\d+)%$", "\n".join(rows), re.MULTILINE)
    assert len(shares) == 2
    assert all(0 < int(share) < 100 for share in shares)  # of what matrix products alone would allow


def test_atari_beside_the_emulator(quick_compilation):
    few = "--runs 2 --parts 1 2 --metric none --precision float32 --capacity 1000 --length 4 --repeats 1"
    rows = ran("atari.py", f"{few} --batch-size 8 --warm-up 12 --acting while-learning").splitlines()[2:]
    names = [re.match(r" +2 (.*?)  ", row).group(1) for row in rows]
    who = ("emulator", "dqn, none, while-learning")
    assert names == [f"{one}, {parts}" for one in who for parts in ("1 part", "2 parts")]
    assert_rates(rows)
    rates = [float(re.search(r"([\d,]+) \(", row).group(1).replace(",", "")) for row in rows]
    shares = [[float(share) / 100 for share in re.findall(r"(\d+)%", row)] for row in rows]
    for rate, (of_first, of_best) in zip(rates, shares, strict=True):
        assert of_first == pytest.approx(rate / rates[0], abs=0.03)
        assert of_best == pytest.approx(rate / max(rates[:2]), abs=0.03)


def test_control_beside_pictures_and_learning_alone(opengl, quick_compilation):
    few = "--runs 1 --metrics none mico --precision float32 --capacity 100 --length 2 --repeats 1"
    rows = ran("control.py", f"{few} --size 12 --batch-size 8 --warm-up 10").splitlines()[2:]
    names = [re.match(r" +1 (.*?)  ", row).group(1) for row in rows]
    assert names == [name for metric in ("none", "mico") for name in contenders(metric)]
    assert_rates(rows)
    assert re.search(r"waits -?\d+%, 100% of none$", rows[2])
    assert re.search(r"waits -?\d+%, 100% of none$", rows[4])
    assert re.search(r"waits -?\d+%, \d+% of none$", rows[7])
    assert re.search(r"waits -?\d+%, \d+% of none$", rows[9])


def contenders(metric):
    acting = ("after-learning", "while-learning")
    return "pictures alone", *(f"{metric}, {kind}{one}" for one in acting for kind in ("learning alone, ", ""))


def assert_rates(rows):
    for row in rows:
        numbers = re.search(r"([\d,.]+) \(([\d,.]+)–([\d,.]+)\)", row).groups()
        rate, least, most = (float(number.replace(",", "")) for number in numbers)
        assert 0 < least <= rate <= most
