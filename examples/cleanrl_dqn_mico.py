"""DQN with MICo in one file, in the manner of CleanRL. The lines that end with `# MICo` are all that DQN lacks of it.

    python examples/cleanrl_dqn_mico.py --env-id CartPole-v1 --seed 1 --total-timesteps 50000

The last of them makes the loss; `tensorboard --logdir runs` shows what it does, beside returns and TD losses.
"""

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

from mico.torch import MICoLoss, Pairs  # MICo


@dataclass
class Args:
    seed: int
    """of everything that is drawn"""
    env_id: str = "CartPole-v1"
    """of Gymnasium, with numbers as actions; observations are flattened, numbers to one-hot vectors"""
    total_timesteps: int = 50_000
    learning_rate: float = 2.5e-4
    buffer_size: int = 10_000
    gamma: float = 0.99
    """the discount"""
    target_network_frequency: int = 500
    batch_size: int = 128
    start_e: float = 1.0
    end_e: float = 0.05
    exploration_fraction: float = 0.5
    """of all steps, over which ε falls from start_e to end_e"""
    learning_starts: int = 1_000
    train_frequency: int = 4
    log_dir: str = "runs"
    alpha: float = 0.01  # MICo
    """weight of the MICo loss; the TD loss has 1 - alpha"""  # MICo
    beta: float = 0.1  # MICo
    """weight of the angle in the MICo distance"""  # MICo


class QNetwork(nn.Module):
    def __init__(self, env: gym.Env):
        super().__init__()
        inputs = int(np.prod(env.observation_space.shape))
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU())
        self.head = nn.Linear(84, int(env.action_space.n))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x))


class Replay:
    """The last so many transitions; `terminals` are ends of episodes, not where time ran out."""

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
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    name = f"{args.env_id}__{Path(__file__).stem}__{args.seed}__{int(time.time())}"
    writer = SummaryWriter(f"{args.log_dir}/{name}")

    env = gym.wrappers.RecordEpisodeStatistics(gym.wrappers.FlattenObservation(gym.make(args.env_id)))
    env.action_space.seed(args.seed)
    q_network, target_network = QNetwork(env), QNetwork(env)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = torch.optim.Adam(q_network.parameters(), lr=args.learning_rate)
    replay = Replay(args.buffer_size, env.observation_space.shape)
    mico = MICoLoss(alpha=args.alpha, beta=args.beta)  # MICo

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
            mico_loss = mico(Pairs(phi, target_phi, target_next, rewards, args.gamma))  # MICo
            loss = (1 - mico.alpha) * td_loss + mico.alpha * mico_loss  # MICo

            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                writer.add_scalar("losses/td_loss", td_loss.item(), step)
                writer.add_scalar("losses/mico_loss", mico_loss.item(), step)  # MICo
                writer.add_scalar("mico/norm", phi.norm(dim=1).mean().item(), step)  # MICo

        if step % args.target_network_frequency == 0:
            target_network.load_state_dict(q_network.state_dict())

    env.close()
    writer.close()
    return q_network


if __name__ == "__main__":
    main(tyro.cli(Args))
