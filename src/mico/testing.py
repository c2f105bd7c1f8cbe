"""Contracts that registered agents, metric losses, environments and encoders keep to, to call from one's own tests.

    import my_plugin  # which registers them
    from mico.testing import check_agent, check_encoder, check_env, check_metric_loss

    def test_my_agent():
        check_agent("double-dqn")

Each raises an AssertionError that says what is wrong. They train for some steps, which takes seconds.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mico.deep.config.run import Run

_STEPS, _BREAK = 80, 60
_SMALL = {  # a training of seconds
    "replay.capacity": 400,
    "replay.batch_size": 8,
    "schedule.learning_starts": 40,
    "schedule.log_period": 40,
    "schedule.epsilon_decay": 40,
    "network.width": 8,
    "network.hidden": 8,
}


def check_agent(name: str, *, env: str | None = None, fields: Mapping[str, Any] | None = None) -> None:
    """Check an agent: it trains, its runs do not depend on each other, and it resumes, loads, acts and evaluates.

    Args:
        name: The registered name of the agent.
        env: The environment to train in: by default a small MDP, or Pendulum where actions are continuous.
        fields: Values of fields by dotted names, such as `{"agent.num_quantiles": 8}`, to make it quick.

    Raises:
        AssertionError: If it breaks the contract; the message says where.
        ValueError: If no agent has this name.

    Examples:
        >>> check_agent("dqn")
    """
    from mico.deep.agents import AGENTS

    kind = AGENTS.look_up(name)
    place = env or ("mdp/two-state" if kind.actions == "discrete" else "gym/Pendulum-v1")
    _check_training(place, name, "none", fields)


def check_metric_loss(name: str, *, agent: str = "dqn", fields: Mapping[str, Any] | None = None) -> None:
    """Check a metric loss: what it measures of pairs, that it shapes φ, and that runs with it resume and load.

    Args:
        name: The registered name of the metric loss.
        agent: The agent that is trained with it.
        fields: Values of fields by dotted names, such as `{"metric.alpha": 0.5}`.

    Raises:
        AssertionError: If it breaks the contract; the message says where.
        ValueError: If no metric loss has this name.

    Examples:
        >>> check_metric_loss("mico")
    """
    import jax
    import jax.numpy as jnp

    from mico.deep.metric_losses import METRIC_LOSSES

    loss = METRIC_LOSSES.look_up(name)()
    x, y = jax.random.normal(jax.random.key(0), (2, 5, 8))
    x = x.at[0].set(0.0).at[1].set(y[1])  # no length, and no difference
    pairs = loss.pairwise(x, y[:3])
    _require(pairs.shape == (5, 3), f"{name}: the distances of 5 and 3 states must be [5, 3], got {list(pairs.shape)}")
    one_by_one = jnp.stack([jnp.stack([loss.pairwise(a[None], b[None])[0, 0] for b in y[:3]]) for a in x])
    _require(
        bool(jnp.allclose(pairs, one_by_one, rtol=1e-4, atol=1e-5)), f"{name}: a pair's distance depends on other pairs"
    )
    slope = jax.grad(lambda x: loss.pairwise(x, y[:3]).sum())(x)
    _require(bool(jnp.isfinite(pairs).all()), f"{name}: a distance is not finite (of zeros, or of equal vectors?)")
    _require(bool(jnp.isfinite(slope).all()), f"{name}: a gradient is not finite (of zeros, or of equal vectors?)")
    plain = _check_training("mdp/two-state", agent, "none", {})
    shaped = _check_training("mdp/two-state", agent, name, fields)
    same = _equal(plain[0], shaped[0][: len(plain[0])])
    _require(not same, f"{name}: the parameters of the agent are those of a run without a metric loss")


def check_env(name: str, *, fields: Mapping[str, Any] | None = None) -> None:
    """Check an environment: its frames and actions are as its spec says, its chance follows from keys, agents train.

    Args:
        name: The registered name of the environment, with the member if it has any.
        fields: Settings of it by name, such as `{"length": 4}`.

    Raises:
        AssertionError: If it breaks the contract; the message says where.
        ValueError: If no environment has this name.

    Examples:
        >>> check_env("mdp/two-state")
    """
    from mico.deep.envs import AbstractEnv, environment

    env = environment(name, **(fields or {}))
    again = environment(env.name, **env.settings())
    _require(env.name == name, f"{name}: its name must be that it is registered by, got {env.name!r}")
    _require(again.settings() == env.settings(), f"{name}: made again of its settings, it has others")
    if isinstance(env, AbstractEnv):
        _check_steps(name, env)
    agent = "dqn" if env.spec.num_actions else "sac"
    _check_training(name, agent, "none", {f"env.{field}": value for field, value in (fields or {}).items()})


def check_encoder(name: str, *, env: str = "mdp/two-state") -> None:
    """Check an encoder: it makes finite representations of an environment's observations, and agents train with it.

    Args:
        name: The registered name of the encoder.
        env: An environment whose observations it is for.

    Raises:
        AssertionError: If it breaks the contract; the message says where.
        ValueError: If no encoder has this name.

    Examples:
        >>> check_encoder("mlp")
    """
    from mico.deep.networks import ENCODERS

    ENCODERS.look_up(name)
    _check_training(env, "dqn", "none", {"network.encoder": name})


def _check_steps(name: str, env: Any) -> None:
    """Play an environment inside JAX by random actions, twice by the same keys."""
    import jax
    import jax.numpy as jnp

    spec = env.spec

    def play(key: Any) -> Any:
        first, *keys = jax.random.split(key, _STEPS + 1)
        state, frame = env.reset(first)

        def step(state: Any, key: Any) -> Any:
            of_action, of_step = jax.random.split(key)
            action = (
                jax.random.randint(of_action, (), 0, spec.num_actions)
                if spec.num_actions
                else jax.random.uniform(of_action, spec.action_shape, minval=-1)
            )
            return env.step(state, action, of_step)

        return frame, jax.lax.scan(step, state, jnp.stack(keys))[1]

    keys = jax.random.split(jax.random.key(0), 2)
    first, steps = jax.jit(jax.vmap(play))(keys)
    stepped = (("reset_frame", steps.reset_frame), ("next_frame", steps.next_frame))
    for what, frames in (("reset", first[:, None]), *((f"step's {field}", values) for field, values in stepped)):
        found = (tuple(frames.shape[2:]), str(frames.dtype))
        _require(
            found == (spec.shape, spec.dtype),
            f"{name}: a frame of {what} must be {spec.shape} {spec.dtype}, got {found}",
        )
    _require(bool(jnp.isfinite(steps.reward).all()), f"{name}: a reward is not finite")
    _require(not bool((steps.terminal & steps.truncated).any()), f"{name}: a step is both terminal and truncated")
    ended = np.asarray(steps.ended)
    moved = (np.asarray(steps.reset_frame) != np.asarray(steps.next_frame)).reshape(*ended.shape, -1).any(axis=-1)
    _require(not (moved & ~ended).any(), f"{name}: reset_frame must be next_frame where the episode did not end")
    _require(
        _equal(jax.jit(jax.vmap(play))(keys), (first, steps)), f"{name}: played twice by the same keys, it differs"
    )


def _check_training(env: str, agent: str, metric: str, fields: Mapping[str, Any] | None) -> list[list[np.ndarray]]:
    """Train two seeds together, one of them alone, and one with a break; the parameters of the two."""
    from mico.deep import load

    what = " + ".join([agent, metric] if metric != "none" else [agent])
    with tempfile.TemporaryDirectory(prefix="mico-check-") as folder:
        out = Path(folder)
        pair = [_run(env, agent, metric, fields, seed) for seed in (0, 1)]
        names = _train(pair, out / "pair", _STEPS)
        _train(pair[1:], out / "alone", _STEPS)
        _train(pair[1:], out / "broken", _BREAK)
        _train(pair[1:], out / "broken", _STEPS, resume=True)
        whole = [load(out / "pair" / name) for name in names]
        alone, broken = (load(next((out / kind).glob("*/config.json")).parent) for kind in ("alone", "broken"))
        leaves = [_leaves(trained.params) for trained in whole]
        _require(all(np.isfinite(leaf).all() for leaf in leaves[0] if leaf.dtype.kind == "f"), f"{what}: not finite")
        _require(not _equal(*leaves), f"{what}: two seeds have the same parameters")
        near = all(np.allclose(a, b, rtol=1e-2, atol=1e-3) for a, b in zip(leaves[1], _leaves(alone.params)))
        _require(near, f"{what}: a run depends on those that are trained with it")  # but for rounding
        _require(
            _equal(_leaves(alone.params), _leaves(broken.params)),
            f"{what}: a resumed run ends otherwise than a whole one",
        )
        returns = whole[0].evaluate(episodes=2, seed=0, max_steps=200)
        _require(bool(np.isfinite(returns).all()), f"{what}: the return of an episode is not finite")
        observation = np.zeros((3, *pair[0].observation_shape), pair[0].env.spec.dtype)
        actions = np.asarray(whole[0].act(observation))
        spec = pair[0].env.spec
        _require(actions.shape == (3, *spec.action_shape), f"{what}: actions must be {list(spec.action_shape)} each")
        return leaves


def _run(env: str, agent: str, metric: str, fields: Mapping[str, Any] | None, seed: int) -> "Run":
    from mico.deep.config.choices import Choice

    choice = Choice(env, agent, metric, None)
    choice.check()
    known = {f"{part}.{option.name}" for part, own in choice.options().items() for option in own}
    small = {name: value for name, value in _SMALL.items() if name in known}
    return choice.run(small | dict(fields or {}), seed, steps=_STEPS)


def _train(runs: "list[Run]", out: Path, steps: int, *, resume: bool = False) -> list[str]:
    from mico.deep.config.run import run_names
    from mico.deep.training.train import train

    train(runs, out, steps=steps, resume=resume)
    return run_names(runs)


def _leaves(tree: Any) -> list[np.ndarray]:
    import jax

    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def _equal(one: Any, other: Any) -> bool:
    """Whether two trees hold the same bytes."""
    both = _leaves(one), _leaves(other)
    return len(both[0]) == len(both[1]) and all(a.tobytes() == b.tobytes() for a, b in zip(*both))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)
