"""DQN in one file of plain JAX, in CleanRL's manner: the peer that `training.py` compares with.

python benchmarks/plain_dqn.py --env minatar/breakout --steps 500000      the game of the package minatar
python benchmarks/plain_dqn.py --env CartPole-v1 --steps 50000            any Gymnasium environment with vectors to see

A Python loop around the environment, a NumPy replay, one jitted update, and nothing else: no metric loss, no log, no
checkpoints. Networks and settings are those of the presets `minatar` and `vector` of `mico train`. It prints the mean
return of the last 20 episodes now and then, and at the end how many steps a second it made after the first 2,000.
"""

import argparse
import time
from collections import deque
from functools import partial
from itertools import pairwise
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax

SETTINGS = {"starts": 1_000, "train_every": 4, "batch_size": 32, "discount": 0.99}
MINATAR = SETTINGS | {"capacity": 100_000, "target_every": 1_000, "learning_rate": 2.5e-4, "decay": 250_000}
VECTOR = SETTINGS | {"capacity": 50_000, "target_every": 500, "learning_rate": 1e-3, "decay": 10_000}


class MinAtar(gymnasium.Env):
    """A game of the package minatar with sticky actions, the minimal set of actions, and frames as bytes."""

    def __init__(self, game: str):
        from minatar import Environment

        self.game = Environment(game, sticky_action_prob=0.1)
        self.actions = self.game.minimal_action_set()
        self.action_space = gymnasium.spaces.Discrete(len(self.actions))
        self.observation_space = gymnasium.spaces.Box(0, 1, tuple(self.game.state_shape()), np.uint8)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.game.seed(seed)
        self.game.reset()
        return self.game.state().astype(np.uint8), {}

    def step(self, action):
        reward, terminal = self.game.act(self.actions[action])
        return self.game.state().astype(np.uint8), float(reward), bool(terminal), False, {}


def make_env(name: str) -> gymnasium.Env:
    return MinAtar(name.removeprefix("minatar/")) if name.startswith("minatar/") else gymnasium.make(name)


def init_params(key, shape: tuple[int, ...], num_actions: int, hidden: tuple[int, ...]):
    """Weights by Glorot's rule and zero biases: for images a convolution of 16 filters of 3×3 comes first."""
    glorot, params = jax.nn.initializers.glorot_uniform(), {}
    sizes = [int(np.prod(shape)), *hidden, num_actions]
    if len(shape) == 3:
        key, own = jax.random.split(key)
        params["conv"] = glorot(own, (3, 3, shape[-1], 16)), jnp.zeros(16)
        sizes[0] = (shape[0] - 2) * (shape[1] - 2) * 16
    for layer, (size, width) in enumerate(pairwise(sizes)):
        key, own = jax.random.split(key)
        params[f"dense{layer}"] = glorot(own, (size, width)), jnp.zeros(width)
    return params


def q_values(params, observations):
    """The value of each action, of a batch of observations."""
    x = observations.astype(jnp.float32)
    if "conv" in params:
        kernel, bias = params["conv"]
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + bias)
    x = x.reshape(len(x), -1)
    for layer in range(count := sum(name.startswith("dense") for name in params)):
        weight, bias = params[f"dense{layer}"]
        x = x @ weight + bias
        x = jax.nn.relu(x) if layer < count - 1 else x
    return x


@jax.jit
def best_action(params, observation):
    return q_values(params, observation[None])[0].argmax()


@partial(jax.jit, static_argnums=(0, 1))
def update(optimiser, discount: float, params, target, state, batch):
    """One step of the optimiser on the squared error of one-step Q-learning."""
    observations, actions, rewards, next_observations, terminals = batch
    goal = rewards + discount * (1 - terminals) * q_values(target, next_observations).max(axis=-1)

    def loss(params):
        chosen = jnp.take_along_axis(q_values(params, observations), actions[:, None], axis=-1)[:, 0]
        return jnp.mean((chosen - goal) ** 2)

    changes, state = optimiser.update(jax.grad(loss)(params), state)
    return optax.apply_updates(params, changes), state


class Replay:
    """The newest transitions, drawn uniformly with replacement."""

    def __init__(self, capacity: int, space: gymnasium.spaces.Box):
        self.size, self.capacity = 0, capacity
        seen = [np.zeros((capacity, *space.shape), space.dtype) for _ in range(2)]
        numbers = [np.zeros(capacity, dtype) for dtype in (np.int32, np.float32, np.float32)]
        self.columns = seen[0], numbers[0], numbers[1], seen[1], numbers[2]

    def add(self, *transition) -> None:
        for column, value in zip(self.columns, transition):
            column[self.size % self.capacity] = value
        self.size += 1

    def sample(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        rows = rng.integers(min(self.size, self.capacity), size=count)
        return tuple(column[rows] for column in self.columns)


def train(env_name: str, steps: int, seed: int, *, epsilon: float = 0.01, decay: int | None = None, report=print):
    """Train for so many steps; the parameters, the returns of all episodes, and steps a second after the first 2,000.

    ε falls from 1 to `epsilon` within `decay` steps once learning starts.
    """
    env: Any = make_env(env_name)
    given = MINATAR if env_name.startswith("minatar/") else VECTOR
    decay = given["decay"] if decay is None else decay
    rng, replay = np.random.default_rng(seed), Replay(given["capacity"], env.observation_space)
    hidden = (128,) if given is MINATAR else (64, 64, 64)
    actions = int(env.action_space.n)
    params = init_params(jax.random.key(seed), env.observation_space.shape, actions, hidden)
    optimiser = optax.adam(given["learning_rate"], eps=3.125e-4)
    target, state = params, optimiser.init(params)
    returns, newest, total, begun = [], deque(maxlen=20), 0.0, time.perf_counter()
    observation, _ = env.reset(seed=seed)
    for step in range(steps):
        left = max(0.0, 1 - (step - given["starts"]) / decay) if decay else float(step < given["starts"])
        if rng.random() < min(1.0, epsilon + (1 - epsilon) * left):
            action = int(rng.integers(actions))
        else:
            action = int(best_action(params, observation))
        following, reward, terminal, timeout, _ = env.step(action)
        replay.add(observation, action, reward, following, terminal)  # a time-out is no terminal
        observation, total = following, total + float(reward)
        if terminal or timeout:
            returns.append(total)
            newest.append(total)
            total, (observation, _) = 0.0, env.reset()
        if (step + 1) % given["train_every"] == 0 and step + 1 >= given["starts"]:
            batch = replay.sample(rng, given["batch_size"])
            params, state = update(optimiser, given["discount"], params, target, state, batch)
        if (step + 1) % given["target_every"] == 0:
            target = params
        if step + 1 == 2_000:
            begun = time.perf_counter()
        if newest and (step + 1) % max(1, steps // 20) == 0:
            report(f"step {step + 1:,}: return {np.mean(newest):.2f}")
    jax.block_until_ready(params)
    return params, returns, (steps - 2_000) / (time.perf_counter() - begun) if steps > 2_000 else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="minatar/breakout", help="minatar/GAME, or a name of Gymnasium's")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--epsilon", type=float, default=0.01, help="share of random actions in the end")
    parser.add_argument("--decay", type=int, help="steps in which that share falls from 1; by environment if not given")
    options = parser.parse_args()
    _, _, rate = train(options.env, options.steps, options.seed, epsilon=options.epsilon, decay=options.decay)
    print(f"{rate:,.0f} steps/s after the first 2,000", flush=True)


if __name__ == "__main__":
    main()
