"""A run: an agent, a metric loss or none, an environment, a network, a replay, a schedule and a seed."""

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mico._checks import make_plain_name
from mico.deep.agents import AGENTS, AbstractAgent
from mico.deep.agents.agent import Periodic, Polyak
from mico.deep.envs import ENVS, AbstractEnv, AbstractHostEnv, environment
from mico.deep.extensions import class_path
from mico.deep.fields import check_choices, check_minimum, check_range, flatten, static_field, traced_field
from mico.deep.metric_losses import METRIC_LOSSES, AbstractMetricLoss, MICo
from mico.deep.networks.encoders import ENCODERS, NetworkConfig
from mico.deep.replay.replay import Replay, Window

Acting = Literal["after-learning", "while-learning"]


class Schedule(eqx.Module):
    """When a run learns, copies its target network, explores and writes a row of its log, in agent steps.

    Periods must be multiples of the update period; `config.choices.Choice` and the command line round them up.
    """

    learning_starts: int = static_field(1_000, "Steps before the first update.")
    update_period: int = static_field(4, "Steps between updates.")
    target_period: int | None = static_field(
        1_000, "Steps between copies to the target network; `none` where it is a moving average, as with SAC."
    )
    epsilon: float = traced_field(0.01, "Exploration rate ε, the probability of a random action, after its decay.")
    epsilon_decay: int = static_field(250_000, "Steps after learning starts in which ε falls linearly from 1.")
    log_period: int = static_field(10_000, "Steps between rows of the log.")
    acting: Acting = static_field(
        "after-learning",
        "Whether the action after an update waits for it, or is chosen by the parameters before it and taken while the"
        " device learns.",
    )

    def __check_init__(self) -> None:
        check_choices(self)
        check_minimum(self, learning_starts=1, update_period=1, epsilon_decay=0, log_period=1)
        if self.target_period is not None:
            check_minimum(self, target_period=1)
        check_range(self, epsilon=(0.0, 1.0))
        for name in ("learning_starts", "target_period", "log_period"):
            value, unit = getattr(self, name) or 0, self.update_period
            if value % unit:
                least = -(-value // unit) * unit
                raise ValueError(
                    f"{name} must be a multiple of update_period {unit}, but is {value}: the next is {least}"
                )

    def exploration(self, time: Int[Array, ""]) -> Float[Array, ""]:
        """ε: 1 until learning starts, then falling linearly, or at once."""
        left = self.learning_starts + self.epsilon_decay - time
        share = left / self.epsilon_decay if self.epsilon_decay else jnp.asarray(left, float)
        return self.epsilon + (1 - self.epsilon) * jnp.clip(share, 0.0, 1.0)


class Run(eqx.Module):
    """One seed of one agent with one metric loss (or none) on one environment."""

    agent: AbstractAgent
    metric: AbstractMetricLoss | None
    env: AbstractEnv | AbstractHostEnv
    network: NetworkConfig
    replay: Replay
    schedule: Schedule
    seed: int | Int[Array, "..."]

    def __check_init__(self) -> None:
        if isinstance(self.seed, int) and not 0 <= self.seed < 2**31:
            raise ValueError(f"seed must lie in [0, 2³¹), but is {self.seed}")
        if isinstance(self.seed, bool) or (not isinstance(self.seed, int) and not eqx.is_array(self.seed)):
            raise ValueError(f"seed must be a whole number, but is {self.seed!r}")
        if self.replay.batch_size > self.schedule.learning_starts - self.agent.horizon:
            raise ValueError(
                f"learning_starts must exceed batch_size {self.replay.batch_size} by the horizon"
                f" {self.agent.horizon} at least, but is {self.schedule.learning_starts}"
            )
        self.replay.check_capacity(self.window, self.schedule.update_period)
        self._check_parts()

    def _check_parts(self) -> None:
        """Refuse parts that do not go together."""
        agent = _name(self.agent, AGENTS)
        own = "discrete" if self.env.spec.num_actions else "continuous"
        if own != self.agent.actions:
            raise ValueError(
                f"agent {agent!r} needs {self.agent.actions} actions, but those of {self.env.name} are {own}"
            )
        _ = self.target_rule  # which the schedule must suit
        if self.schedule.acting == "while-learning" and self.env.in_jax:
            raise ValueError(f"acting 'while-learning' needs an environment outside JAX, but env is {self.env.name}")
        self.agent.check_metric(self.metric)
        if self.metric is not None:
            self.metric.check_agent(agent, self.agent.actions, self.agent.horizon)

    @property
    def measure(self) -> AbstractMetricLoss:
        """What distances of representations are measured by: the run's metric loss, or MICo where it has none."""
        return MICo() if self.metric is None else self.metric

    @property
    def target_rule(self) -> Periodic | Polyak:
        """When and how the target network follows the online one."""
        return self.agent.target_rule(self.schedule.target_period)

    @property
    def window(self) -> Window:
        return Window(self.agent.horizon, self.agent.discount)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Of what the network sees: frames, stacked."""
        return self.replay.observation_shape(self.env.spec)


def describe(run: Run) -> dict[str, Any]:
    """Describe a run as JSON holds it; `revive` makes it again.

    The class of a part that does not come from this package stands beside the part's name as "module:Class", and so
    does an encoder's function.
    """
    encoder = ENCODERS[run.network.encoder]
    env = {"name": run.env.name, **run.env.settings()}
    return {
        "agent": _named(run.agent, AGENTS),
        "metric": None if run.metric is None else _named(run.metric, METRIC_LOSSES),
        "env": env if _is_ours(type(run.env)) else env | {"class": class_path(type(run.env))},
        "network": _fields(run.network) | ({} if _is_ours(encoder) else {"class": class_path(encoder)}),
        "replay": _fields(run.replay),
        "schedule": _fields(run.schedule),
        "seed": int(run.seed),
    }


def revive(described: dict[str, Any]) -> Run:
    """Make the run that `describe` described.

    Raises:
        ValueError: If the agent, the metric loss, the environment or the encoder is not registered here; a file never
            makes this import anything.
    """
    parts = {name: dict(part) if isinstance(part, dict) else part for name, part in complete(described).items()}
    agent, metric, env, network = (parts[name] for name in ("agent", "metric", "env", "network"))
    env_kind, env_name = env.pop("class", None), env.pop("name")
    if env_kind is not None and env_name.partition("/")[0] not in ENVS:
        raise ValueError(_unregistered("environment", env_name, env_kind))
    layers = network.pop("class", None)
    if layers is not None and network["encoder"] not in ENCODERS:
        raise ValueError(_unregistered("encoder", network["encoder"], layers))
    return Run(
        _registered("agent", agent, AGENTS)(**agent),
        None if metric is None else _registered("metric loss", metric, METRIC_LOSSES)(**metric),
        environment(env_name, **env),
        NetworkConfig(**network),
        Replay(**parts["replay"]),
        Schedule(**parts["schedule"]),
        described["seed"],
    )


def check_reloadable(run: Run) -> None:
    """Refuse a run that could not be made again from its config.json.

    Raises:
        ValueError: If its agent, metric loss or environment is not registered, or JSON does not hold a field of theirs.
    """
    for word, part, registry in (("agent", run.agent, AGENTS), ("metric_loss", run.metric, METRIC_LOSSES)):
        if part is not None and not any(registry[name] is type(part) for name in registry):
            where, kind = class_path(type(part)), type(part).__name__
            fix = f"register it first, mico.register_{word}('name', {kind})"
            raise ValueError(f"{word.replace('_', ' ')} {where} could not be loaded again: {fix}")
    described = describe(run)  # an environment that is not registered has no name
    for field, value in flatten(described).items():
        try:
            again = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            again = None
        if again != (list(value) if isinstance(value, tuple) else value):
            kinds = "a number, a string, true or false, or none"
            raise ValueError(f"{field} must be {kinds}, so that config.json holds it, got {value!r}")


def _named(part: Any, registry: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a run by name, with its fields."""
    own = {} if _is_ours(type(part)) else {"class": class_path(type(part))}
    return {"name": _name(part, registry), **own, **_fields(part)}


def _registered(word: str, part: dict[str, Any], registry: Mapping[str, Any]) -> Any:
    """The class of a described part, whose name is taken out of it."""
    name, kind = part.pop("name"), part.pop("class", None)
    if name not in registry and kind is not None:
        raise ValueError(_unregistered(word, name, kind))
    return registry[name]


def _unregistered(word: str, name: str, kind: str) -> str:
    module = str(kind).partition(":")[0]
    return f"{word} {name!r} ({kind}) is not registered here: import {module} first, or give --import {module}"


def _is_ours(kind: Any) -> bool:
    return kind.__module__.partition(".")[0] == "mico"


def complete(described: dict[str, Any]) -> dict[str, Any]:
    """Complete a description from before a field was there by what it means: the behaviour of its time."""
    found = dict(described)
    for part, added in _ADDED.items():
        own = found.get(part, {})
        if own is not None:
            found[part] = added.get(own.get("name"), {}) | own
    env = found.get("env", {})
    return found | {"env": env | ({"path": str(Path(env["path"]).resolve())} if "path" in env else {})}


# What descriptions without fields that were added later mean, by part and by the part's name. A new default of a field
# belongs into its class alone: a line here never changes.
_OF_MODELS = {"initialiser": "fan-in", "reward_input": "latent-action"}
_ADDED: dict[str, dict[str | None, dict[str, Any]]] = {
    "agent": {
        "sac": {
            "initial_temperature": 1.0,
            "temperature_loss": "temperature",
            "log_std": "bounded",
            "actor_projection": "learnt",
        }
    },
    "metric": {
        "dbc": _OF_MODELS,
        "dbc-det": _OF_MODELS,
        "dbc-mico": _OF_MODELS | {"second": "target", "target_distance": "full", "target_encoder": "target"},
    },
    "schedule": {
        None: {
            "learning_starts": 1_000,
            "update_period": 4,
            "target_period": 1_000,
            "epsilon": 0.01,
            "epsilon_decay": 250_000,
            "log_period": 10_000,
            "acting": "after-learning",
        }
    },
}


def varied(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """For each run the fields, seeds aside, in which the runs are not all alike."""
    described = [flatten(describe(run)) for run in runs]
    names = [name for name in described[0] if name != "seed" and len({str(one[name]) for one in described}) > 1]
    return [{name: one[name] for name in names} for one in described]


def run_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run that is good for a folder: dqn-mico-alpha0.01-seed0."""
    names = []
    for run, own in zip(runs, varied(runs), strict=True):
        described = describe(run)
        metric = "none" if described["metric"] is None else described["metric"]["name"]
        fields = [f"{field.rpartition('.')[2].replace('_', '-')}{value}" for field, value in own.items()]
        names.append(make_plain_name("-".join([described["agent"]["name"], metric, *fields, f"seed{run.seed}"])))
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"runs must differ, but several are {twice[0]}: give each seed and each value of a field once")
    return names


class Label(NamedTuple):
    """What a run is called, the settings it stands for, and those of them that make it one arm of several."""

    name: str
    settings: dict[str, Any]
    varied: dict[str, Any]


def _fields(settings: eqx.Module) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def _name(settings: eqx.Module, registry: Mapping[str, Any]) -> str:
    """As registered, or that of its type."""
    return next((name for name, kind in registry.items() if type(settings) is kind), type(settings).__name__)
