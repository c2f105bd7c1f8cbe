"""The metric agents take what the plain agents take, and differ from them in nothing but what is documented."""

import inspect
import logging
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import QRDQN
from stable_baselines3 import DQN, SAC, HerReplayBuffer
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import SubprocVecEnv
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork

from mico.torch import MICoLoss
from mico.torch.sb3 import DenseExtractor, MICoDQN, MICoQRDQN, MICoSAC

torch.set_num_threads(1)
SMALL = {"learning_starts": 20, "batch_size": 8, "buffer_size": 500, "seed": 3, "device": "cpu"}
PLAIN = {MICoDQN: DQN, MICoQRDQN: QRDQN, MICoSAC: SAC}
ENVS = {MICoDQN: "CartPole-v1", MICoQRDQN: "CartPole-v1", MICoSAC: "Pendulum-v1"}
DENSE = {"features_extractor_class": DenseExtractor}
SHARED = {"policy_kwargs": {"share_features_extractor": True}}
LIGHT = MICoLoss(alpha=1e-30)  # changes no parameter, but the metric loss is computed
every_agent = pytest.mark.parametrize("agent", PLAIN)


class Drawn(gymnasium.Env):
    """Observations drawn from any space; an action that is positive is rewarded."""

    def __init__(self, observation_space, continuous=False):
        self.observation_space = observation_space
        self.action_space = spaces.Box(-1, 1, (2,), np.float32) if continuous else spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        return self.observation_space.sample(), float(np.max(action) > 0), self.steps == 9, False, {}


class Flipping(gymnasium.Wrapper):
    """Bits to be flipped, with a goal, for hindsight experience replay."""

    def __init__(self, continuous):
        super().__init__(BitFlippingEnv(n_bits=4, continuous=continuous, max_steps=4))

    def compute_reward(self, *args):
        return self.env.compute_reward(*args)


VECTORS = spaces.Dict({"place": spaces.Box(-1, 1, (2, 2)), "flags": spaces.MultiBinary(3), "room": spaces.Discrete(4)})
MIXED = spaces.Dict({"picture": spaces.Box(0, 255, (1, 36, 36), np.uint8), "place": spaces.Box(-1, 1, (2,))})
PICTURES = MIXED["picture"]


def env_of(agent, space):
    return Drawn(space, continuous=agent is MICoSAC)


def goal_env(agent):
    return Flipping(continuous=agent is MICoSAC)


def same_parameters(one, two):
    one, two = one.policy.state_dict(), two.policy.state_dict()
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


HER = {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": {"n_sampled_goal": 2}}
CASES = {  # policy, environment, options, the features extractor that plain SAC must be given to be the same
    "mlp": ("MlpPolicy", ENVS.get, {}, DENSE),
    "cnn": ("CnnPolicy", lambda agent: env_of(agent, PICTURES), {}, {}),
    "dict of vectors": ("MultiInputPolicy", lambda agent: env_of(agent, VECTORS), {}, DENSE),
    "dict with a picture": ("MultiInputPolicy", lambda agent: env_of(agent, MIXED), {}, {}),
    "her": ("MultiInputPolicy", goal_env, HER, DENSE),
}


@every_agent
@pytest.mark.parametrize("case", CASES)
def test_with_weight_0_it_is_the_plain_agent_with_the_same_extractor(agent, case):
    policy, env, options, extractor = CASES[case]
    steps = 300 if case == "mlp" else 80
    extractor = dict(extractor) if agent is MICoSAC else {}  # DQN and QR-DQN have a hidden layer for φ
    plain = PLAIN[agent](policy, env(agent), policy_kwargs=extractor, **SMALL, **options).learn(steps)
    ours = agent(policy, env(agent), metric=MICoLoss(alpha=0.0), **SMALL, **options).learn(steps)
    assert plain._n_updates > 10
    assert same_parameters(ours, plain)
    added = agent(policy, env(agent), metric=MICoLoss(alpha=0.3, second="frozen"), **SMALL, **options).learn(steps)
    assert not same_parameters(added, plain)
    assert np.isfinite(added.logger.name_to_value["metric/loss"])


@pytest.mark.parametrize("agent", [MICoDQN, MICoQRDQN])
def test_an_extractor_is_inserted_where_there_is_no_hidden_layer_either(agent):
    linear = {"net_arch": []}
    plain = PLAIN[agent]("MlpPolicy", "CartPole-v1", policy_kwargs=linear | DENSE, **SMALL).learn(200)
    ours = agent("MlpPolicy", "CartPole-v1", policy_kwargs=dict(linear), metric=MICoLoss(alpha=0.0), **SMALL).learn(200)
    assert same_parameters(ours, plain)


OPTIONS = {
    "n_steps": {"n_steps": 3},
    "n_steps with several environments": {"n_steps": 3, "envs": 2},
    "optimize_memory_usage": {
        "optimize_memory_usage": True,
        "replay_buffer_kwargs": {"handle_timeout_termination": False},
    },
    "several environments": {"envs": 3, "gradient_steps": -1},
    "gradient_steps": {"gradient_steps": 2, "train_freq": 3},
    "whole episodes": {"train_freq": (1, "episode"), "gradient_steps": 4, "limit": 20},
    "tau": {"tau": 0.1, "target_update_interval": 2},
    "learning rate schedule": {"learning_rate": lambda left: 1e-3 * left},
    "absorbing": {"metric": MICoLoss(alpha=1e-30, terminals="absorbing")},
}
OF_SAC = {
    "shared": SHARED,
    "shared and absorbing": SHARED | {"metric": MICoLoss(alpha=1e-30, terminals="absorbing")},
    "sde": {"use_sde": True, "sde_sample_freq": 4},
    "fixed entropy": {"ent_coef": 0.1},
    "three critics": {"policy_kwargs": {"n_critics": 3}},
}
COMBINATIONS = [(agent, name) for agent in PLAIN for name in (OPTIONS | OF_SAC if agent is MICoSAC else OPTIONS)]


@pytest.mark.parametrize(("agent", "name"), COMBINATIONS)
def test_the_metric_loss_leaves_everything_else_as_it_is(agent, name):
    """With a weight so small that it changes no parameter, whatever the options are."""
    options = dict((OPTIONS | OF_SAC)[name])
    envs, metric, limit = options.pop("envs", 1), options.pop("metric", LIGHT), options.pop("limit", None)
    kwargs = dict(options.pop("policy_kwargs", {}))
    extractor = DENSE if agent is MICoSAC else {}

    def env():
        return make_vec_env(ENVS[agent], n_envs=envs, seed=1, env_kwargs={"max_episode_steps": limit})

    plain = PLAIN[agent]("MlpPolicy", env(), policy_kwargs=kwargs | extractor, **SMALL | options).learn(120)
    light = agent("MlpPolicy", env(), policy_kwargs=dict(kwargs), metric=metric, **SMALL | options).learn(120)
    assert plain._n_updates > 5
    assert light.logger.name_to_value["metric/norm"] > 0
    assert same_parameters(light, plain)


def test_a_shared_extractor_gets_the_actors_gradient_and_the_metrics():
    """By gradient descent: (1 − α) of the plain agent's step and α of the metric loss's own, for all of the actor."""
    alpha, rate = 0.3, 0.1
    kwargs = {"share_features_extractor": True, "optimizer_class": torch.optim.SGD}
    options = SMALL | {"learning_rate": rate, "learning_starts": 64, "policy_kwargs": kwargs | DENSE, "ent_coef": 0.1}
    metric = MICoLoss(alpha=alpha, beta=0.7, second="frozen")
    changes = []
    for model in (
        MICoSAC("MlpPolicy", "Pendulum-v1", metric=metric, **options),
        SAC("MlpPolicy", "Pendulum-v1", **options),
    ):
        model.learn(64)  # fills the buffer and trains nothing
        before = {key: value.clone() for key, value in model.actor.state_dict().items()}
        np.random.seed(5)
        batch = model.replay_buffer.sample(6)
        extractor, target = model.actor.features_extractor, model.critic_target.features_extractor
        phi, after = extractor(batch.observations), target(batch.next_observations).detach()
        reward = batch.rewards[:, 0]
        loss = naive_mico(phi, phi.detach(), after, reward, 0.7)
        gradients = torch.autograd.grad(loss, list(extractor.parameters()))
        np.random.seed(5)
        torch.manual_seed(5)
        model.train(1, 6)
        changes.append({key: value - before[key] for key, value in model.actor.state_dict().items()})
    ours, plain = changes
    own = dict(zip((f"features_extractor.{name}" for name, _ in extractor.named_parameters()), gradients))
    assert max(gradient.abs().max() for gradient in gradients) > 1e-2
    for key, change in ours.items():
        expected = (1 - alpha) * plain[key] - alpha * rate * own.get(key, 0.0)
        torch.testing.assert_close(change, expected, rtol=1e-3, atol=1e-6)


def naive_mico(online, other, after, reward, beta):
    """The MICo loss from the paper's formulas, pair by pair."""

    def distance(x, y):
        cosine = (x @ y) / (x.norm() * y.norm())
        return (x @ x + y @ y) / 2 + beta * torch.arccos(cosine.clamp(-1 + 1e-7, 1 - 1e-7))

    errors = []
    for i in range(len(reward)):
        for j in range(len(reward)):
            same = (online[i] @ online[i] + other[j] @ other[j]) / 2  # the angle of equal vectors has no gradient
            later = (after[i] @ after[j]) if i == j else distance(after[i], after[j])
            goal = (reward[i] - reward[j]).abs() + 0.99 * later
            error = (goal - (same if i == j else distance(online[i], other[j]))).abs()
            errors.append(error**2 / 2 if error < 1 else error - 0.5)
    return torch.stack(errors).mean()


SPACES = {
    "discrete": spaces.Discrete(5),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "multi-binary": spaces.MultiBinary(6),
    "matrix of bits": spaces.MultiBinary([2, 3]),
    "matrix": spaces.Box(-1, 1, (2, 3)),
    "integers": spaces.Box(0, 9, (4,), np.int64),
    "picture": PICTURES,
}


@every_agent
@pytest.mark.parametrize("space", SPACES)
def test_every_kind_of_observation_is_taken(agent, space):
    model = agent("MlpPolicy", env_of(agent, SPACES[space]), metric=MICoLoss(alpha=0.1), **SMALL).learn(60)
    observations = np.stack([SPACES[space].sample() for _ in range(5)])
    phi = model.represent(observations)
    assert phi.shape == (5, 64)
    assert torch.isfinite(phi).all()
    assert model.logger.name_to_value["metric/distance"] > 0


def test_parts_of_a_dense_extractor_are_put_beside_each_other_in_the_order_of_the_space():
    extractor = DenseExtractor(VECTORS, features_dim=7, hidden=())
    parts = {"place": torch.randn(5, 2, 2), "flags": torch.randn(5, 3), "room": torch.randn(5, 4)}
    flat = torch.cat([parts[name].reshape(5, -1) for name in VECTORS.spaces], dim=1)
    linear = extractor.layers[1]
    torch.testing.assert_close(extractor(dict(reversed(parts.items()))), (flat @ linear.weight.T + linear.bias).relu())
    with pytest.raises(ValueError, match=r"features_dim and hidden.*\(0,\)"):
        DenseExtractor(VECTORS, hidden=(0,))


def test_the_inserted_extractor_is_told_once(caplog, tmp_path):
    with caplog.at_level(logging.WARNING, "mico.torch.sb3"):
        model = MICoSAC("MlpPolicy", "Pendulum-v1", **SMALL)
        (record,) = caplog.records
        assert "MICoSAC: inserted a DenseExtractor" in record.getMessage()
        assert "FlattenExtractor has no parameters" in record.getMessage()
        model.save(tmp_path / "agent")
        MICoSAC.load(tmp_path / "agent")
        assert len(caplog.records) == 1
        MICoDQN("MlpPolicy", "CartPole-v1", **SMALL)
        MICoSAC("MlpPolicy", "Pendulum-v1", policy_kwargs=dict(DENSE), **SMALL)
        MICoSAC("CnnPolicy", env_of(MICoSAC, PICTURES), **SMALL)
        assert len(caplog.records) == 1


def test_a_warning_that_the_plain_agent_gives_is_given_as_often():
    buffer = {"n_steps": 3}  # as SB3 itself sets its buffer, which it must not take for the user's
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MICoSAC("MlpPolicy", "Pendulum-v1", **buffer, **SMALL)
    assert model.replay_buffer.n_steps == 3


def test_the_users_options_are_left_alone():
    kwargs = {"net_arch": [16], "use_sde": False}
    MICoSAC("MlpPolicy", "Pendulum-v1", policy_kwargs=kwargs, **SMALL)
    assert "features_extractor_class" not in kwargs


@pytest.mark.parametrize("case", ["mlp", "her"])
def test_saved_and_loaded_it_predicts_the_same_and_trains_on(case, tmp_path):
    policy, env, options, _ = CASES[case]
    model = MICoSAC(policy, env(MICoSAC), metric=MICoLoss(alpha=0.2, second="frozen"), **SMALL, **options).learn(60)
    model.save(tmp_path / "agent")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded, plain = (kind.load(tmp_path / "agent", env=model.get_env()) for kind in (MICoSAC, SAC))
    assert loaded.metric == model.metric
    observation = model.get_env().reset()
    for other in (loaded, plain):
        assert same_parameters(other, model)
        assert np.array_equal(
            other.predict(observation, deterministic=True)[0], model.predict(observation, deterministic=True)[0]
        )
    assert torch.equal(loaded.represent(observation), model.represent(observation))
    loaded.load_replay_buffer(tmp_path / "buffer")
    before = loaded._n_updates
    loaded.learn(40, reset_num_timesteps=False)
    assert loaded._n_updates > before
    assert loaded.logger.name_to_value["metric/loss"] > 0
    assert not same_parameters(loaded, model)
    loaded.set_parameters(tmp_path / "agent.zip")
    assert same_parameters(loaded, model)


def test_parameters_without_the_extractor_are_refused_with_a_reason(tmp_path):
    SAC("MlpPolicy", "Pendulum-v1", **SMALL).save(tmp_path / "plain")
    with pytest.raises(RuntimeError) as caught:
        MICoSAC.load(tmp_path / "plain")
    assert any("MICoSAC has a DenseExtractor" in note for note in caught.value.__notes__)
    DQN("MlpPolicy", "CartPole-v1", **SMALL).save(tmp_path / "dqn")
    ours = MICoDQN.load(tmp_path / "dqn", env=gymnasium.make("CartPole-v1")).learn(40)
    ours.save(tmp_path / "ours")
    assert same_parameters(DQN.load(tmp_path / "ours"), ours)


@pytest.mark.filterwarnings("ignore::UserWarning:stable_baselines3")
@every_agent
def test_callbacks_and_environments_in_processes(agent, tmp_path):
    env = make_vec_env(
        ENVS[agent], n_envs=2, seed=0, vec_env_cls=SubprocVecEnv, vec_env_kwargs={"start_method": "fork"}
    )
    evaluation = EvalCallback(
        gymnasium.make(ENVS[agent], max_episode_steps=20), eval_freq=20, n_eval_episodes=1, verbose=0
    )
    checkpoints = CheckpointCallback(save_freq=20, save_path=str(tmp_path))
    try:
        agent("MlpPolicy", env, **SMALL).learn(80, callback=[evaluation, checkpoints])
    finally:
        env.close()
    assert np.isfinite(evaluation.best_mean_reward)
    assert len([*tmp_path.iterdir()]) == 2
    agent.load(sorted(tmp_path.iterdir())[0])


def test_ones_own_extractor_is_respected(caplog):
    class Own(DenseExtractor):
        pass

    kwargs = {"features_extractor_class": Own, "features_extractor_kwargs": {"features_dim": 9}}
    model = MICoSAC("MlpPolicy", "Pendulum-v1", policy_kwargs=kwargs, **SMALL)
    assert type(model.critic.features_extractor) is Own
    assert model.represent(np.zeros((2, 3), np.float32)).shape == (2, 9)
    assert not caplog.records
    with pytest.raises(ValueError, match="layer must depend on parameters that are trained"):
        MICoSAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"features_extractor_class": FlattenExtractor}, **SMALL)


class OwnPolicy(BasePolicy):
    """A policy of DQN that derives from no policy of DQN: two networks and an optimiser are all that it needs."""

    def __init__(self, observation_space, action_space, lr_schedule):
        super().__init__(observation_space, action_space)
        flat = FlattenExtractor(observation_space)
        self.q_net, self.q_net_target = (
            QNetwork(observation_space, action_space, flat, flat.features_dim, net_arch=[12]) for _ in range(2)
        )
        self.optimizer = torch.optim.Adam(self.q_net.parameters(), lr=lr_schedule(1))

    def _predict(self, observation, deterministic=True):
        return self.q_net._predict(observation)


class FixedPolicy(DQNPolicy):
    """A policy whose features extractor and layers cannot be chosen."""

    def __init__(self, observation_space, action_space, lr_schedule):
        super().__init__(observation_space, action_space, lr_schedule, net_arch=[])


def test_ones_own_policy_is_taken():
    model = MICoDQN(OwnPolicy, "CartPole-v1", metric=MICoLoss(alpha=0.2), **SMALL).learn(60)
    assert model.represent(np.zeros((2, 4), np.float32)).shape == (2, 12)
    assert model.logger.name_to_value["metric/loss"] > 0
    with pytest.raises(ValueError, match="layer must depend on parameters that are trained"):
        MICoDQN(FixedPolicy, "CartPole-v1", **SMALL)


def test_networks_may_be_compiled():
    """As Stable-Baselines3 allows; the layer is found in what is wrapped."""
    models = []
    for compiled in (False, True):
        model = MICoDQN("MlpPolicy", "CartPole-v1", metric=MICoLoss(alpha=0.3), **SMALL)
        if compiled:
            model.q_net = torch.compile(model.q_net, backend="eager")
        models.append(model.learn(60))
    logs = [model.logger.name_to_value["metric/loss"] for model in models]
    assert logs[0] == pytest.approx(logs[1])
    for one, two in zip(*(model.policy.q_net.parameters() for model in models)):
        torch.testing.assert_close(one, two)


def test_features_that_are_frozen_later_are_not_left_out_in_silence():
    model = MICoSAC("MlpPolicy", "Pendulum-v1", **SMALL).learn(30)
    model.critic.features_extractor.requires_grad_(False)
    with pytest.raises(RuntimeError, match="'features_extractor' depends on no parameter that is trained"):
        model.learn(30, reset_num_timesteps=False)


@every_agent
def test_every_argument_is_shown(agent):
    shown, plain = inspect.signature(agent).parameters, inspect.signature(PLAIN[agent]).parameters
    assert list(shown) == [*plain, "metric", "layer"]
    assert shown["layer"].default is None
    assert isinstance(shown["metric"].default, MICoLoss)
    assert all(shown[name].default == plain[name].default for name in plain)
    positional = agent("MlpPolicy", ENVS[agent], 0.25, 300)
    assert (positional.learning_rate, positional.buffer_size) == (0.25, 300)
