"""Contracts that registered agents, metric losses, environments, encoders, problems and metrics keep to.

    import my_plugin  # which registers them
    from mico.testing import check_agent, check_encoder, check_env, check_metric, check_metric_loss, check_problem

    def test_my_agent():
        check_agent("double-dqn")

To be called from one's own tests: each raises an AssertionError that says what is wrong. Those of agents, losses,
environments and encoders train for some steps, which takes seconds.
"""

import inspect
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_origin

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
    from mico.deep.envs import environment

    env = environment(name, **(fields or {}))
    again = environment(env.name, **env.settings())
    _require(env.name == name, f"{name}: its name must be that it is registered by, got {env.name!r}")
    _require(again.settings() == env.settings(), f"{name}: made again of its settings, it has others")
    if env.in_jax:
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


def check_problem(name: str, options: Mapping[str, Any] | None = None) -> None:
    """Check a problem: its options have help and can be typed, they make the same MDP again, and it can be stored.

    Args:
        name: The registered name of the problem.
        options: Values of its options, such as `{"seed": 0}`, where some have no default.

    Raises:
        AssertionError: If it breaks the contract; the message says where.
        ValueError: If no problem has this name.

    Examples:
        >>> check_problem("garnet", {"seed": 0})
    """
    from mico.tabular import PROBLEMS, Problem, load, save
    from mico.tabular.problems import FEWEST_STATES

    factory, given = PROBLEMS.look_up(name), dict(options or {})
    _check_options(name, factory)
    problem = factory(**given)
    _require(isinstance(problem, Problem), f"{name}: it must return a Problem, got {type(problem).__name__}")
    _require(factory(**given | {"discount": 0.25}).discount == 0.25, f"{name}: it must take the discount that is asked")
    _require(_same_mdp(problem.mdp, factory(**given).mdp), f"{name}: made twice of the same options, it differs")
    if name in FEWEST_STATES:
        defaults = {key: one.default for key, one in inspect.signature(factory).parameters.items()}
        asked = inspect.signature(FEWEST_STATES[name]).parameters
        least = FEWEST_STATES[name](**{option: (defaults | given)[option] for option in asked})
        _require(least <= problem.num_states, f"{name}: it has {problem.num_states} states, fewest_states says {least}")
    with tempfile.TemporaryDirectory(prefix="mico-check-") as folder:
        save(Path(folder) / "it.npz", problem)
        again = load(Path(folder) / "it.npz")
    _require(_same_mdp(problem.mdp, again.mdp, 1e-14), f"{name}: stored and read again, it differs")


def check_metric(name: str) -> None:
    """Check a metric on small MDPs: a distance whose error holds, whatever the states are called.

    It is symmetric, not negative and as exact as is asked; dense and sparse models have the same distances. Of a
    metric with an operator, the solution is its fixed point within the error.

    Args:
        name: The registered name of the metric.

    Raises:
        AssertionError: If it breaks the contract; the message says where.
        ValueError: If no metric has this name.

    Examples:
        >>> check_metric("mico")
    """
    from mico.tabular import METRICS, make

    METRICS.look_up(name)
    models = [make("garnet", seed=seed, num_states=5, num_actions=2, discount=0.8).mdp for seed in range(3)]
    models += [make(known).mdp for known in ("two-state", "coin-chain", "bound-example")]
    for mdp in models:
        _check_distance(name, mdp)


def _check_options(name: str, factory: Any) -> None:
    """The options of a problem: what a command line can give, each with a line of help."""
    from mico.tabular import option_help

    parameters = inspect.signature(factory).parameters
    _require("discount" in parameters, f"{name}: it must have the option discount")
    _require(bool((inspect.getdoc(factory) or "").strip()), f"{name}: its docstring must say what it is")
    for option, text in option_help(name).items():
        _require(bool(text), f"{name}: its docstring must have a line about {option} in Args")
        kind = parameters[option].annotation
        plain = kind in (int, float, str, bool, Path, int | None, float | None, str | None)
        _require(plain or get_origin(kind) is Literal, f"{name}: {option} must be a number, string, path or Literal")


def _check_distance(name: str, mdp: Any) -> None:
    """One metric on one MDP, solved coarsely, finely, sparsely and with its states in another order."""
    import scipy.sparse as sp

    from mico.tabular import MDP, METRICS, solve

    fine, coarse = (solve(name, mdp, tolerance=tolerance) for tolerance in (1e-7, 0.1))
    d, error = fine.matrix, fine.error
    _require(d.shape == (mdp.num_states,) * 2, f"{name}: its matrix must be [S, S], got {list(d.shape)}")
    _require(bool(np.isfinite(d).all() and d.min() >= 0), f"{name}: a distance is negative or not finite")
    _require(bool(np.array_equal(d, d.T)), f"{name}: it is not symmetric")
    _require(0 <= error <= 1e-7, f"{name}: its error is {error:g}, more than the tolerance 1e-7")
    apart = float(np.abs(coarse.matrix - d).max())
    _require(apart <= coarse.error + error, f"{name}: its error is {coarse.error:g}, but it is off by {apart:g}")
    sparse = [sp.csr_array(kernel) for kernel in mdp.kernels]
    dense = np.stack([kernel.toarray() for kernel in sparse], axis=1)
    order = np.random.default_rng(0).permutation(mdp.num_states)
    turned = dense[order][:, :, order]
    for what, transition, reward, expected in (
        ("a dense model", dense, mdp.reward, d),
        ("a sparse model", sparse, mdp.reward, d),
        ("another order of the states", turned, mdp.reward[order], d[np.ix_(order, order)]),
    ):
        other = solve(name, MDP(transition, reward, mdp.discount), tolerance=1e-7)
        apart = float(np.abs(other.matrix - expected).max())
        _require(apart <= other.error + error, f"{name}: {what} changes distances by {apart:g}")
    if METRICS[name].update is not None:
        moved = float(np.abs(METRICS[name].operator(mdp)(d) - d).max())
        _require(moved <= (1 + mdp.discount) * error + 1e-12, f"{name}: its operator moves the solution by {moved:g}")


def _same_mdp(one: Any, other: Any, rounding: float = 0.0) -> bool:
    """Whether two MDPs have the same numbers, but for a relative rounding."""
    if one.shape != other.shape or not np.allclose(one.reward, other.reward, rtol=rounding, atol=0):
        return False
    return all(abs(a - b).max() <= rounding for a, b in zip(one.kernels, other.kernels))


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
