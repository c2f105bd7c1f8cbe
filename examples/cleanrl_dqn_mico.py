"""DQN with MICo in one file, in the style of CleanRL. Plain DQN is what is left without the lines that end in `# MICo`.

    python examples/cleanrl_dqn_mico.py --env-id CartPole-v1 --seed 1 --total-timesteps 50000

It prints the return of every episode. `tensorboard --logdir runs` shows returns and losses.
"""

# ruff: noqa: T201

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
import tyro
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from mico.torch import MICoLoss, PairBatch  # MICo


@dataclass
class Args:
    seed: int
    """seed of the networks, the exploration, the replay and the environment"""
    env_id: str = "CartPole-v1"
    """id of a Gymnasium environment with discrete actions; observations are flattened, discrete ones to one-hot"""
    total_timesteps: int = 50_000
    """steps of the training"""
    learning_rate: float = 2.5e-4
    """learning rate of Adam"""
    buffer_size: int = 10_000
    """transitions that the replay holds"""
    gamma: float = 0.99
    """the discount"""
    target_network_frequency: int = 500
    """steps between updates of the target network"""
    batch_size: int = 128
    """transitions of an update"""
    start_e: float = 1.0
    """ε at the start"""
    end_e: float = 0.05
    """ε after the exploration"""
    exploration_fraction: float = 0.5
    """fraction of the steps over which ε falls from start_e to end_e; with 0 it is end_e from the start"""
    learning_starts: int = 1_000
    """steps before the first update"""
    train_frequency: int = 4
    """steps between updates"""
    log_dir: str = "runs"
    """folder of the TensorBoard logs"""
    alpha: float = 0.01  # MICo
    """weight of the MICo loss; the TD loss has 1 - alpha"""  # MICo
    beta: float = 0.1  # MICo
    """weight of the angle in the MICo distance"""  # MICo


def check(args: Args) -> None:
    at_least_1 = ("total_timesteps", "buffer_size", "target_network_frequency", "batch_size", "train_frequency")
    shares = ("gamma", "start_e", "end_e", "exploration_fraction")
    for names, fits, wanted in (
        (at_least_1, lambda x: x >= 1, "at least 1"),
        (("learning_starts", "seed"), lambda x: x >= 0, "at least 0"),
        (shares, lambda x: 0 <= x <= 1, "in [0, 1]"),
        (("learning_rate",), lambda x: 0 < x < float("inf"), "above 0 and finite"),
    ):
        for name in names:
            if not fits(getattr(args, name)):
                raise ValueError(f"--{name.replace('_', '-')} must be {wanted}, got {getattr(args, name)}")
    MICoLoss(alpha=args.alpha, beta=args.beta)  # MICo


def make_env(args: Args) -> gym.Env:
    try:
        env = gym.make(args.env_id)
    except (gym.error.Error, ImportError) as error:
        raise ValueError(
            f"--env-id must be an environment that Gymnasium can make, got {args.env_id}: {error}"
        ) from None
    if not isinstance(env.action_space, gym.spaces.Discrete):
        raise ValueError(
            f"--env-id must have discrete actions, got {args.env_id}, whose actions are {env.action_space}"
        )
    flat = gym.wrappers.FlattenObservation(env)
    if not isinstance(flat.observation_space, gym.spaces.Box):
        raise ValueError(f"--env-id must have observations of one size, got {args.env_id}: {env.observation_space}")
    return gym.wrappers.RecordEpisodeStatistics(flat)


class QNetwork(nn.Module):
    def __init__(self, env: gym.Env):
        super().__init__()
        inputs = int(np.prod(env.observation_space.shape))
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU())
        self.head = nn.Linear(84, int(env.action_space.n))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x))


class Replay:
    """The latest transitions; `terminals` are true ends of episodes, not time limits."""

    def __init__(self, size: int, shape: tuple[int, ...]):
        self.observations, self.next_observations = np.zeros((2, size, *shape), np.float32)
        self.actions, self.rewards = np.zeros(size, np.int64), np.zeros(size, np.float32)
        self.terminals = np.zeros(size, np.float32)
        self.written = 0

    def add(self, *transition) -> None:
        for part, value in zip(self.parts(), transition, strict=True):
            part[self.written % len(part)] = value
        self.written += 1

    def sample(self, count: int, rng: np.random.Generator) -> list[torch.Tensor]:
        rows = rng.integers(min(self.written, len(self.rewards)), size=count)
        return [torch.from_numpy(part[rows]) for part in self.parts()]

    def parts(self) -> tuple[np.ndarray, ...]:
        return self.observations, self.actions, self.rewards, self.next_observations, self.terminals


def epsilon(args: Args, step: int) -> float:
    falling = args.exploration_fraction * args.total_timesteps
    share = min(1.0, step / falling) if falling else 1.0
    return args.start_e + share * (args.end_e - args.start_e)


def main(args: Args) -> QNetwork:
    check(args)
    env = make_env(args)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    name = f"{args.env_id}__{Path(__file__).stem}__{args.seed}__{int(time.time())}"
    writer = SummaryWriter(f"{args.log_dir}/{name}")

    env.action_space.seed(args.seed)
    q_network, target_network = QNetwork(env), QNetwork(env)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = torch.optim.Adam(q_network.parameters(), lr=args.learning_rate)
    replay = Replay(args.buffer_size, env.observation_space.shape)
    mico = MICoLoss(alpha=args.alpha, beta=args.beta)  # MICo

    start = time.time()
    observation, _ = env.reset(seed=args.seed)
    for step in range(args.total_timesteps):
        if rng.random() < epsilon(args, step):
            action = int(env.action_space.sample())
        else:
            with torch.no_grad():
                action = int(q_network(torch.as_tensor(observation, dtype=torch.float32)[None]).argmax())
        next_observation, reward, terminated, truncated, info = env.step(action)
        replay.add(observation, action, reward, next_observation, terminated)
        observation = next_observation
        if terminated or truncated:
            print(f"global_step={step}, episodic_return={info['episode']['r']}")
            writer.add_scalar("charts/episodic_return", info["episode"]["r"], step)
            observation, _ = env.reset()

        if step >= args.learning_starts and step % args.train_frequency == 0:
            x, actions, rewards, next_x, terminals = replay.sample(args.batch_size, rng)
            with torch.no_grad():
                later = target_network(next_x).max(dim=1).values
                td_target = rewards + args.gamma * (1 - terminals) * later
            values = q_network(x).gather(1, actions[:, None])[:, 0]
            loss = td_loss = F.mse_loss(values, td_target)

            phi = q_network.encoder(x)  # MICo
            with torch.no_grad():  # MICo
                target_phi, target_next = target_network.encoder(x), target_network.encoder(next_x)  # MICo
            mico_loss = mico(PairBatch(phi, target_phi, target_next, rewards, args.gamma))  # MICo
            loss = (1 - mico.alpha) * td_loss + mico.alpha * mico_loss  # MICo

            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                writer.add_scalar("losses/td_loss", td_loss.item(), step)
                writer.add_scalar("losses/mico_loss", mico_loss.item(), step)  # MICo
                writer.add_scalar("mico/norm", phi.norm(dim=1).mean().item(), step)  # MICo

        if step > 0 and step % 1_000 == 0:
            speed = int(step / (time.time() - start))
            print(f"SPS: {speed}")
            writer.add_scalar("charts/SPS", speed, step)

        if step % args.target_network_frequency == 0:
            target_network.load_state_dict(q_network.state_dict())

    env.close()
    writer.close()
    return q_network


if __name__ == "__main__":
    given = tyro.cli(Args)
    try:
        check(given)
        make_env(given).close()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    main(given)
