"""From samples to the exact metric: what a fleet with a table encoder learns, against what `mico.tabular` computes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mico.deep import load
from mico.deep.agents import DQN
from mico.deep.config.run import Run, Schedule
from mico.deep.envs import environment
from mico.deep.metric_losses.mico import distances
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay
from mico.deep.training.train import train
from mico.experiments import learnt_metric
from mico.experiments.learnt_metric import GARNET, LOSSES, SQUARED, Config
from mico.tabular import MDP, PROBLEMS, Problem, garnet, make, optimal_value, solve

KINDS = ("two states", "one state")


def trained(tmp_path_factory, **fields):
    return learnt_metric.run(Config(**fields), tmp_path_factory.mktemp("runs"))


def agreement(frame, loss="squared"):
    """How learnt and exact agree, over pairs of two states and over single ones."""
    table = learnt_metric.table(frame).set_index(["loss", "pairs"])
    return [table.loc[(loss, kind)] for kind in KINDS]


def matrix(frame, column, seed):
    part = frame[frame["seed"] == seed]
    return part.pivot(index="x", columns="y", values=column).to_numpy()


def shuffled(mdp):
    """The same moves, with the rewards of states and actions dealt out anew."""
    reward = np.random.default_rng(0).permutation(mdp.reward.ravel()).reshape(mdp.shape)
    return MDP(mdp.transition, reward, mdp.discount)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    return trained(tmp_path_factory, losses={"squared": SQUARED}, seeds=(0, 1, 2), steps=40_000)


@pytest.fixture(scope="module")
def sham(tmp_path_factory):
    """The same learning, of the same MDP but for its shuffled rewards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROBLEMS, "garnet", lambda **options: Problem(shuffled(garnet(**options).mdp)))
        return trained(tmp_path_factory, losses={"squared": SQUARED}, seeds=(0, 1, 2), steps=40_000)


def fit(exact, beta):
    """The nearest distances that 32 numbers a state can represent, by descent on the exact matrix itself."""
    optimiser = optax.adam(optax.cosine_decay_schedule(0.03, 3_000))

    def step(carry, _):
        phi, state = carry
        gradient = jax.grad(lambda phi: jnp.mean((distances(phi, phi, beta) - exact) ** 2))(phi)
        change, state = optimiser.update(gradient, state)
        return (optax.apply_updates(phi, change), state), None

    phi = jax.random.normal(jax.random.key(0), (len(exact), 32)) / 5
    (phi, _), _ = jax.lax.scan(step, (phi, optimiser.init(phi)), None, length=3_000)
    return np.asarray(distances(phi, phi, beta))


def off_the_sphere(name, beta=1.0, **options):
    r"""How negative the least eigenvalue of $\cos(\Pi U / \beta)$ is, which would be that of a Gram matrix."""
    reduced = solve("reduced-mico", make(name, **options).mdp, "uniform", reward="sampled").matrix
    assert reduced.max() < beta * np.pi
    return -np.linalg.eigvalsh(np.cos(reduced / beta)).min() * beta**2


def test_the_premise_that_the_reduced_distance_fits_on_a_sphere():
    assert off_the_sphere("garnet", **GARNET) < 0.005
    assert off_the_sphere("coin-chain", discount=0.9, beta=4.0) > 0.5  # 10 > 2.25 + 3.25


def test_the_exact_distance_is_that_of_the_rewards_laws(learnt):
    mdp = garnet(**GARNET).mdp
    x, y = learnt["x"], learnt["y"]
    assert learnt["exact"].to_numpy() == pytest.approx(solve("mico", mdp, reward="sampled").matrix[x, y])
    assert solve("mico", mdp).matrix[0, 0] < solve("mico", mdp, reward="sampled").matrix[0, 0]


def test_what_is_learnt_is_the_exact_distance(learnt):
    spread = learnt["exact"].max() - learnt["exact"].min()
    for found in agreement(learnt):
        assert found["lowest"] > 0.95
        assert found["error"] < 0.1 * spread


def test_shuffled_rewards_teach_another_distance(learnt, sham):
    for found in agreement(sham):
        assert found["lowest"] > 0.95
    apart = np.triu_indices(GARNET["num_states"], 1)
    for seed in (0, 1, 2):
        true, other = matrix(learnt, "exact", seed), matrix(sham, "learnt", seed)
        assert np.corrcoef(true[apart], other[apart])[0, 1] < 0.7
        assert np.corrcoef(true.diagonal(), other.diagonal())[0, 1] < 0.7


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_what_is_learnt_of_other_garnets_is_what_vectors_can_represent(tmp_path_factory, seed):
    frame = trained(tmp_path_factory, options=GARNET | {"seed": seed}, losses={"squared": SQUARED})
    exact = matrix(frame, "exact", 0)
    fitted = frame.assign(learnt=fit(exact, SQUARED.beta)[frame["x"], frame["y"]])
    for found, best in zip(agreement(frame), agreement(fitted), strict=True):
        assert found["pearson"] > best["pearson"] - 0.05


@pytest.mark.slow
def test_the_loss_as_released_learns_the_order_of_pairs_and_too_small_self_distances(tmp_path_factory):
    frame = trained(tmp_path_factory, losses=LOSSES)
    gap = frame.assign(gap=frame["learnt"] - frame["exact"])[frame["x"] == frame["y"]].groupby("loss")["gap"].mean()
    assert agreement(frame, "released")[0]["spearman"] > 0.9
    assert gap["released"] < -0.05 < gap["squared-error"]


@pytest.mark.slow
def test_terminals_lead_to_a_sink(tmp_path_factory):
    losses = {"absorbing": replace(SQUARED, terminals="absorbing"), "bootstrap": SQUARED}
    frame = trained(tmp_path_factory, problem="mirrored-rooms", options={"discount": 0.9}, losses=losses, seeds=(0, 1))
    assert len(frame) == 2 * 2 * 29**2  # of 31 states 2 are goals
    for kept, bare in zip(agreement(frame, "absorbing"), agreement(frame, "bootstrap"), strict=True):
        assert kept["lowest"] > 0.95
        assert kept["error"] < 0.1 < bare["error"]


@pytest.mark.slow
def test_dqn_without_a_metric_learns_the_optimal_values(tmp_path):
    env = environment("mdp/mirrored-rooms", discount=0.9)
    schedule = Schedule(target_period=200, epsilon=1.0, epsilon_decay=0)
    network, memory = NetworkConfig("table", width=32, hidden=32), Replay(capacity=20_000)
    run = Run(DQN(discount=0.9, learning_rate=1e-3), None, env, network, memory, schedule, 0)
    train([run], tmp_path / "runs", steps=60_000)
    states = np.asarray(env.table.starts)
    seen = np.eye(env.problem.mdp.num_states, dtype=bool)[states]
    found = load(tmp_path / "runs" / "dqn-none-seed0").values(seen).max(axis=-1)
    assert found == pytest.approx(optimal_value(env.problem.mdp)[states], abs=0.01)  # one step more or less is 0.06
