"""Stable-Baselines3's DQN on MinAtar's own Breakout, for training.py: python stable_baselines.py THREADS EPSILON.

Writes how many parameters its network has, then, for each number of steps that it reads, the seconds they took. It may
run in an environment of its own (torch, stable-baselines3, minatar); 0 threads leaves the choice to PyTorch.
"""

import sys
import time

import gymnasium
import numpy as np
import torch
from minatar import Environment
from stable_baselines3 import DQN
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor


class Breakout(gymnasium.Env):
    """With the minimal set of actions, channels first, as bytes."""

    def __init__(self):
        self.game = Environment("breakout", sticky_action_prob=0.1)
        self.actions = self.game.minimal_action_set()
        self.action_space = gymnasium.spaces.Discrete(len(self.actions))
        self.observation_space = gymnasium.spaces.Box(0, 1, (4, 10, 10), np.uint8)

    def reset(self, *, seed=None, options=None):
        self.game.reset()
        return self.seen(), {}

    def step(self, action):
        reward, terminal = self.game.act(self.actions[action])
        return self.seen(), reward, terminal, False, {}

    def seen(self):
        return self.game.state().transpose(2, 0, 1).astype(np.uint8)


class Convolution(BaseFeaturesExtractor):
    """16 filters of 3×3, not padded: 1024 features."""

    def __init__(self, space):
        super().__init__(space, features_dim=1024)
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(4, 16, 3), torch.nn.ReLU(), torch.nn.Flatten())

    def forward(self, observations):
        return self.layers(observations)


def main() -> None:
    threads, epsilon = int(sys.argv[1]), float(sys.argv[2])
    torch.set_num_threads(threads or torch.get_num_threads())
    policy = {"features_extractor_class": Convolution, "net_arch": [128], "optimizer_kwargs": {"eps": 3.125e-4}}
    model = DQN(
        "MlpPolicy",
        Breakout(),
        learning_rate=2.5e-4,
        buffer_size=100_000,
        batch_size=32,
        learning_starts=1_000,
        target_update_interval=1_000,
        train_freq=4,
        gradient_steps=1,
        exploration_initial_eps=epsilon,
        exploration_final_eps=epsilon,
        policy_kwargs=policy,
        device="cpu",
    )
    model.learn(2_000, log_interval=sys.maxsize)
    print(sum(weights.numel() for weights in model.q_net.parameters()), flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        model.learn(int(line), log_interval=sys.maxsize, reset_num_timesteps=False)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
