"""Stable-Baselines3's agents with a metric loss: what is added, nothing else, and all that such agents can do."""

import itertools
import re

import ale_py
import gymnasium
import numpy as np
import pytest
import torch
from sb3_contrib import QRDQN
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mico.deep.metric_losses import MICo
from mico.torch import KSMeLoss, MICoLoss, SimSRLoss
from mico.torch.sb3 import AbstractMetricAgent, DenseExtractor, MICoDQN, MICoQRDQN, MICoSAC

torch.set_num_threads(1)
DENSE = {"features_extractor_class": DenseExtractor, "features_extractor_kwargs": {"features_dim": 8, "hidden": (16,)}}
SMALL = {"learning_starts": 20, "batch_size": 8, "buffer_size": 500, "seed": 3, "device": "cpu"}
AGENTS = {
    "dqn": (MICoDQN, DQN, "CartPole-v1", {"target_update_interval": 30}),
    "qr-dqn": (MICoQRDQN, QRDQN, "CartPole-v1", {"target_update_interval": 30}),
    "sac": (MICoSAC, SAC, "Pendulum-v1", {}),
}
every_agent = pytest.mark.parametrize("name", AGENTS)


def made(name, *, plain=False, **options):
    ours, theirs, env, own = AGENTS[name]
    options = SMALL | own | {"policy_kwargs": dict(DENSE)} | options
    return theirs("MlpPolicy", env, **options) if plain else ours("MlpPolicy", env, **options)


def same_parameters(one, two):
    one, two = one.policy.state_dict(), two.policy.state_dict()
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


@every_agent
def test_with_weight_0_it_is_the_plain_agent_step_for_step(name):
    plain = made(name, plain=True).learn(120)
    alone, added = (made(name, metric=MICoLoss(alpha=alpha)).learn(120) for alpha in (0.0, 0.3))
    assert plain._n_updates > 20
    assert same_parameters(alone, plain)
    assert not same_parameters(added, plain)


def naive_metric(online, target, after, reward, *, bootstrap, beta, frozen):
    """The MICo loss from the paper's formulas, one pair of different states after the other."""

    def distance(x, y):
        return (x @ x + y @ y) / 2 + beta * torch.arccos((x @ y) / (x.norm() * y.norm()))

    errors = []
    for i, j in itertools.permutations(range(len(reward)), 2):
        goal = (reward[i] - reward[j]).abs() + bootstrap * distance(after[i], after[j])
        error = (goal - distance(online[i], online[j].detach() if frozen else target[j])).abs()
        errors.append(error**2 / 2 if error < 1 else error - 0.5)
    return torch.stack(errors).mean()


def step(model, network):
    """How one step changes the online network, and the gradient of the naive metric loss before it."""
    model.learn(64)  # fills the buffer and trains nothing
    online, target = getattr(model, network), getattr(model, f"{network}_target")
    with torch.no_grad():
        for part in target.parameters():
            part.mul_(1.1)
    before = {key: value.clone() for key, value in online.state_dict().items()}
    np.random.seed(5)
    batch = model.replay_buffer.sample(6)
    phi = online.features_extractor(batch.observations)
    with torch.no_grad():
        there, after = map(target.features_extractor, (batch.observations, batch.next_observations))
    frozen, bootstrap = network == "critic", 0.99 if network == "critic" else 0.99**3
    loss = naive_metric(phi, there, after, batch.rewards[:, 0], bootstrap=bootstrap, beta=0.7, frozen=frozen)
    names = [name for name, _ in online.named_parameters() if name.startswith("features_extractor")]
    gradients = torch.autograd.grad(loss, [online.get_parameter(name) for name in names])
    np.random.seed(5)
    torch.manual_seed(5)
    model.train(1, 6)
    change = {key: value - before[key] for key, value in online.state_dict().items()}
    return change, dict(zip(names, gradients, strict=True)), loss.item()


@pytest.mark.parametrize(("name", "network"), [("dqn", "q_net"), ("qr-dqn", "quantile_net"), ("sac", "critic")])
def test_one_step_goes_down_the_weighted_sum_of_both_gradients(name, network):
    """By gradient descent: (1 − α) of the plain agent's step and α of the metric loss's own."""
    alpha, rate = 0.3, 0.1
    sgd = {"policy_kwargs": DENSE | {"optimizer_class": torch.optim.SGD}, "learning_rate": rate, "learning_starts": 64}
    options = sgd if name == "sac" else sgd | {"max_grad_norm": 1e9, "n_steps": 3}
    metric = MICoLoss(alpha=alpha, beta=0.7, second="frozen" if name == "sac" else "target", self_pairs="exclude")
    model = made(name, metric=metric, **options)
    ours, gradients, loss = step(model, network)
    plain, *_ = step(made(name, plain=True, **options), network)
    assert max(gradient.abs().max() for gradient in gradients.values()) > 1e-2
    assert model.logger.name_to_value["metric/loss"] == pytest.approx(loss, rel=1e-4)
    for key, change in ours.items():
        expected = (1 - alpha) * plain[key] - alpha * rate * gradients.get(key, 0.0)
        torch.testing.assert_close(change, expected, rtol=1e-3, atol=1e-6)


@every_agent
def test_saved_and_loaded_it_goes_on(name, tmp_path):
    metric = MICoLoss(alpha=0.2, beta=0.4, pairs="shuffled")
    model = made(name, metric=metric, layer="features_extractor.layers.2").learn(40)
    model.save(tmp_path / "agent")
    loaded = type(model).load(tmp_path / "agent", env=model.get_env())
    assert (loaded.metric, loaded.layer) == (metric, "features_extractor.layers.2")
    assert same_parameters(loaded, model)
    observations = np.stack([model.observation_space.sample() for _ in range(4)])
    assert np.array_equal(
        loaded.predict(observations, deterministic=True)[0], model.predict(observations, deterministic=True)[0]
    )
    assert torch.equal(loaded.represent(observations), model.represent(observations))
    loaded.learn(40)
    assert not same_parameters(loaded, model)


@every_agent
def test_what_another_agent_saved_is_refused(name, tmp_path):
    model = made(name)
    for other in {MICoDQN, MICoQRDQN, MICoSAC} - {type(model)}:
        model.save(tmp_path / "agent")
        message = f"policy of {other.__name__} must be a .*Policy, got {type(model.policy).__name__}, another agent's"
        with pytest.raises(ValueError, match=message):
            other.load(tmp_path / "agent")


@every_agent
def test_distances_are_logged_and_the_progress_shown(name, tmp_path, capsys):
    model = made(name, metric=MICoLoss(alpha=0.2), tensorboard_log=str(tmp_path), policy_kwargs=dict(DENSE))
    model.learn(250, log_interval=1, progress_bar=True)
    assert "/250" in "".join(capsys.readouterr())
    (folder,) = tmp_path.iterdir()
    assert folder.name == f"{type(model).__name__}_1"
    log = EventAccumulator(str(folder)).Reload()
    found = {
        part: [event.value for event in log.Scalars(f"metric/{part}")]
        for part in ("loss", "distance", "target", "norm")
    }
    assert all(values and np.isfinite(values).all() for values in found.values())
    assert "train/loss" in log.Tags()["scalars"] or "train/critic_loss" in log.Tags()["scalars"]


def test_the_logged_means_are_those_of_the_batch():
    """φ is the same for all in the last layer: U = ‖φ‖² for every pair, its norm ‖φ‖."""
    model = made("dqn", metric=MICoLoss(alpha=0.2), learning_starts=64).learn(64)
    for network in model.networks():
        last = network.get_submodule("features_extractor.layers.3")
        torch.nn.init.zeros_(last.weight)
        torch.nn.init.constant_(last.bias, 0.5)
    model.train(1, 6)
    logs = model.logger.name_to_value
    assert logs["metric/norm"] == pytest.approx(0.5 * np.sqrt(8))
    assert logs["metric/distance"] == pytest.approx(2)
    assert logs["metric/target"] == pytest.approx(0.99 * 2)  # every reward is 1
    assert logs["metric/loss"] == pytest.approx(0.02**2 / 2, rel=1e-3)


class Pictures(gymnasium.Env):
    """A step to one side moves a bar; the far right pays and ends the episode."""

    observation_space = gymnasium.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 3
        return self.seen(), {}

    def step(self, action):
        self.place = max(0, self.place + 2 * int(action) - 1)
        return self.seen(), float(self.place == 6), self.place == 6, False, {}

    def seen(self):
        picture = np.zeros((36, 36, 1), np.uint8)
        picture[:, 6 * self.place : 6 * self.place + 6] = 255
        return picture


class Turned(Pictures):
    """The same with a number as action."""

    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def step(self, action):
        return super().step(action[0] > 0)


class Parts(gymnasium.ObservationWrapper):
    """The same observation in two parts."""

    def __init__(self, env):
        super().__init__(env)
        half = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = gymnasium.spaces.Dict({"one": half, "two": half})

    def observation(self, observation):
        return {"one": observation[:2], "two": observation[2:]}


@pytest.mark.parametrize("agent", [MICoDQN, MICoQRDQN, MICoSAC])
def test_pictures_from_several_environments(agent):
    env = make_vec_env(Turned if agent is MICoSAC else Pictures, n_envs=3, seed=0)
    model = agent("CnnPolicy", env, metric=MICoLoss(terminals="absorbing", alpha=0.2), **SMALL).learn(90)
    assert model._n_updates > 5
    assert np.isfinite(model.logger.name_to_value["metric/loss"])
    assert model.represent(env.reset()).shape == (3, 512)
    deep = agent("CnnPolicy", env, layer="features_extractor.cnn", **SMALL)
    assert deep.represent(env.reset()).shape == (3, 64)


def test_observations_in_parts():
    model = MICoDQN("MultiInputPolicy", Parts(gymnasium.make("CartPole-v1")), **SMALL).learn(60)
    assert model.represent({"one": np.ones((5, 2)), "two": np.ones((5, 2))}).shape == (5, 64)


def test_rewards_and_observations_may_be_normalised():
    env = VecNormalize(make_vec_env("Pendulum-v1", n_envs=2, seed=0))
    model = MICoSAC("MlpPolicy", env, policy_kwargs=dict(DENSE), **SMALL).learn(80)
    assert model.logger.name_to_value["metric/norm"] > 0


def test_an_atari_game():
    gymnasium.register_envs(ale_py)
    env = VecFrameStack(make_atari_env("ALE/Pong-v5", n_envs=2, seed=0, env_kwargs={"frameskip": 1}), 4)
    options = SMALL | {"batch_size": 4, "buffer_size": 100}
    model = MICoDQN("CnnPolicy", env, **options).learn(40)
    assert model._n_updates > 1
    assert model.logger.name_to_value["metric/distance"] > 0


class Normalised(BaseFeaturesExtractor):
    def __init__(self, space):
        super().__init__(space, 8)
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())

    def forward(self, observations):
        return self.layers(observations)


def test_running_means_are_moved_by_the_agents_own_passes_alone():
    """By a loss so light that it changes no parameter, whatever it looks at."""
    options = SMALL | {"policy_kwargs": {"features_extractor_class": Normalised, "net_arch": [8]}}
    plain = DQN("MlpPolicy", "CartPole-v1", **options).learn(60)
    light = MICoDQN("MlpPolicy", "CartPole-v1", metric=MICoLoss(alpha=1e-30, terminals="absorbing"), **options).learn(
        60
    )
    assert same_parameters(light, plain)


@pytest.mark.parametrize("metric", [KSMeLoss(alpha=0.2), SimSRLoss(), MICoLoss(alpha=0.2, pairs="shuffled")])
def test_every_metric_loss_can_be_added(metric):
    one, same, other = (made("dqn", metric=loss).learn(60) for loss in (metric, metric, MICoLoss(alpha=0.2)))
    assert same_parameters(one, same)
    assert not same_parameters(one, other)


def test_the_default_layer_is_the_last_hidden_one_where_the_extractor_only_flattens():
    for agent in (MICoDQN, MICoQRDQN):
        model = agent("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [12, 7]}, **SMALL)
        head = {MICoDQN: "q_net", MICoQRDQN: "quantile_net"}[agent]
        online = model.networks()[0]
        observations = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
        phi = model.represent(observations)
        outputs = online(torch.tensor(observations)).reshape(5, -1)
        expected = online.get_submodule(head)[-1](phi)
        assert phi.shape == (5, 7)
        torch.testing.assert_close(outputs, expected)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dqn", {"layer": "no.such"}, "layer.*'no.such'"),
        (
            "dqn",
            {"layer": "features_extractor", "policy_kwargs": {}},
            "layer must depend on .* got 'features_extractor'",
        ),
        ("dqn", {"metric": SimSRLoss(), "n_steps": 3}, "n_steps.*3"),
        ("sac", {"layer": "qf0.1"}, "layer.*'qf0.1'"),
    ],
)
def test_what_cannot_work_is_refused_at_once(name, options, message):
    with pytest.raises(ValueError, match=message):
        made(name, **options)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("metric", ["mico", None, MICoLoss, MICo()], ids=["name", "none", "class", "jax"])
@every_agent
def test_a_metric_that_is_no_loss_of_pytorch_is_refused_at_once(name, metric):
    with pytest.raises(ValueError, match=rf"metric must be a loss of mico\.torch.* got {re.escape(repr(metric))}"):
        made(name, metric=metric)


def test_the_sizes_of_the_dense_extractor():
    space = gymnasium.spaces.Box(-1, 1, (2, 3))
    extractor = DenseExtractor(space, features_dim=7, hidden=(11, 5))
    assert [tuple(part.shape) for part in extractor.parameters()] == [(11, 6), (11,), (5, 11), (5,), (7, 5), (7,)]
    features = extractor(torch.randn(4, 2, 3))
    assert features.shape == (4, 7)
    assert features.min() == 0


def test_states_may_be_numbers():
    model = MICoDQN("MlpPolicy", "FrozenLake-v1", **SMALL).learn(60)
    assert model.represent(np.arange(16)).shape == (16, 64)
    with pytest.raises(ValueError, match="terminals"):
        MICoDQN("MlpPolicy", "FrozenLake-v1", metric=MICoLoss(terminals="absorbing"), **SMALL)


class Copying(DQN):
    """Training code that looks at copies of the observations."""

    def train(self, gradient_steps, batch_size=100):
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size)
            self.q_net(batch.observations + 0.0).sum().backward()


def test_a_loss_that_cannot_be_added_is_not_left_out_in_silence():
    kind = type(
        "MICoCopying",
        (AbstractMetricAgent, Copying),
        {key: vars(MICoDQN)[key] for key in ("networks", "default_layer")},
    )
    with pytest.raises(RuntimeError, match="no metric loss was added"):
        kind("MlpPolicy", "CartPole-v1", metric=MICoLoss(), **SMALL).learn(60)


def test_after_training_the_plain_parts_are_as_before():
    model = made("dqn").learn(60)
    assert "sample" not in vars(model.replay_buffer)
    for module in model.policy.modules():
        assert not module._forward_hooks


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "alpha", "policy"), [(MICoDQN, 0.1, {}), (MICoQRDQN, 0.01, {"n_quantiles": 25})])
def test_cartpole_is_learnt(agent, alpha, policy):
    metric = MICoLoss(alpha=alpha, terminals="absorbing")
    options = {"learning_rate": 2.3e-3, "batch_size": 64, "learning_starts": 1000, "target_update_interval": 10}
    options |= {"train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16, "exploration_final_eps": 0.04}
    model = agent("MlpPolicy", "CartPole-v1", metric=metric, policy_kwargs=policy, seed=1, device="cpu", **options)
    mean, _ = evaluate_policy(model.learn(40_000), model.get_env(), n_eval_episodes=10)
    assert mean > 150  # about 20 by chance


@pytest.mark.slow
def test_pendulum_is_learnt():
    model = MICoSAC("MlpPolicy", "Pendulum-v1", policy_kwargs=dict(DENSE), learning_rate=1e-3, seed=1, device="cpu")
    mean, _ = evaluate_policy(model.learn(4_000), model.get_env(), n_eval_episodes=10)
    assert mean > -500  # about -1200 by chance
