"""Settings by name: the paper's for Atari and control, the embedded default for MinAtar, small ones for quick work.

`atari-released` and `control-released` differ from `atari` and `control` where those take another reading than the
released code (docs/deviations.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from mico.deep.agents import AGENTS, DQN, IQN, MIQN, QRDQN, SAC, VALUE_AGENTS, AbstractAgent, Rainbow
from mico.deep.agents.iqn import AbstractImplicitAgent
from mico.deep.config.run import Schedule
from mico.deep.metric_losses import METRIC_LOSSES, AbstractMetricLoss
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay


class Preset(NamedTuple):
    """An agent's fields and all that goes with them; `alpha` is the weight of MICo, and of KSMe as released.

    `agent_with` and `losses` have fields of the agent and of the metric loss by the name of that loss, or "none".
    """

    agent: AbstractAgent
    network: NetworkConfig
    replay: Replay
    schedule: Schedule
    alpha: float
    agent_with: Mapping[str, Mapping[str, Any]] = {}
    losses: Mapping[str, Mapping[str, Any]] = {}

    def agent_beside(self, metric: str) -> AbstractAgent:
        """The agent as it is trained beside the metric loss of a name, or beside "none"."""
        return replace(self.agent, **self.agent_with.get(metric, {}))

    def metric_loss(self, name: str) -> AbstractMetricLoss:
        """The metric loss of a name, with the fields that the preset sets."""
        return replace(METRIC_LOSSES[name].for_preset(self.alpha, self.agent.actions), **self.losses.get(name, {}))


_ALPHAS = {"dqn": 0.01, "rainbow": 0.01, "qr-dqn": 0.5, "iqn": 0.5, "m-iqn": 0.5}
_PRIORITISED = ("rainbow", "qr-dqn")
_ADAM: dict[str, Any] = {"learning_rate": 2.5e-4, "adam_epsilon": 3.125e-4}
_QUICK: dict[str, Any] = {"learning_rate": 1e-3, "adam_epsilon": 3.125e-4}
# Small MDPs: with γ = 0.95 values that start too high are forgotten five times as fast as with 0.99.
_TABLE: dict[str, Any] = _QUICK | {"discount": 0.95}
_QUANTILES: dict[str, Any] = {"num_quantiles": 16, "num_target_quantiles": 16, "num_policy_quantiles": 16}
_ACTOR: dict[str, Any] = {"latent": 50, "initialiser": "orthogonal"}
_RELEASED_DBC: dict[str, Any] = {"variant": "rewrite", "weight": 1.0, "initialiser": "xavier", "reward_input": "latent"}
_RELEASED_LOSSES: dict[str, dict[str, Any]] = {
    "dbc": _RELEASED_DBC,
    "dbc-det": _RELEASED_DBC,
    "dbc-mico": _RELEASED_DBC | {"second": "online", "target_distance": "angle", "target_encoder": "online"},
}
_EACH_STEP: dict[str, Any] = {"update_period": 1, "target_period": None, "epsilon": 0.0, "epsilon_decay": 0}


def _family(
    agents: Sequence[AbstractAgent], network: NetworkConfig, memory: Replay, schedule: Schedule
) -> dict[str, Preset]:
    """A preset for each value agent: DQN's weights start by Xavier's rule, those of the others by fan-in."""
    found = {}
    for name, agent in zip(VALUE_AGENTS, agents, strict=True):
        initialiser = "xavier" if name == "dqn" else "fan-in"
        sampling = "prioritised" if name in _PRIORITISED else "uniform"
        own = replace(network, initialiser=initialiser), replace(memory, sampling=sampling)
        found[name] = Preset(agent, *own, schedule, _ALPHAS[name])
    return found


PRESETS: dict[str, dict[str, Preset]] = {
    "minatar": _family(
        [DQN(**_ADAM), Rainbow(support=100.0, **_ADAM), QRDQN(**_ADAM), IQN(**_ADAM), MIQN(**_ADAM)],
        NetworkConfig("minatar", hidden=128),
        Replay(capacity=100_000),
        Schedule(),
    ),
    "atari": _family(
        [agent(reward_clip=1.0) for agent in VALUE_AGENTS.values()],
        NetworkConfig("nature", hidden=512),
        Replay(capacity=1_000_000, stack=4),
        Schedule(learning_starts=20_000, target_period=8_000, log_period=250_000),
    ),
    "vector": _family(
        [DQN(**_QUICK), Rainbow(support=100.0, **_QUICK), QRDQN(**_QUICK), IQN(**_QUICK), MIQN(**_QUICK)],
        NetworkConfig("mlp", width=64, hidden=64),
        Replay(capacity=50_000),
        Schedule(target_period=500, epsilon_decay=10_000, log_period=1_000),
    )
    | {
        "sac": Preset(
            SAC(learning_rate=1e-3, reward_scale=1.0),
            NetworkConfig("mlp", width=128, hidden=128, **_ACTOR),
            Replay(capacity=100_000, batch_size=128),
            Schedule(learning_starts=1_000, log_period=1_000, **_EACH_STEP),
            alpha=1e-5,
        )
    },
    "control": {
        "sac": Preset(
            SAC(),
            NetworkConfig("control", width=1_024, hidden=1_024, **_ACTOR),
            Replay(capacity=101_000, batch_size=256, stack=3),  # 100,000 steps, and the last frames of episodes
            Schedule(learning_starts=10_000, log_period=1_000, **_EACH_STEP),
            alpha=1e-5,
        )
    },
    "table": _family(
        [
            DQN(**_TABLE),
            Rainbow(**_TABLE),
            QRDQN(**_TABLE),
            IQN(**_TABLE, **_QUANTILES),
            MIQN(**_TABLE, **_QUANTILES),
        ],
        NetworkConfig("table", width=64, hidden=64),
        Replay(capacity=20_000),
        Schedule(update_period=1, target_period=100, epsilon_decay=10_000, log_period=5_000),
    ),
}


def _released_atari(name: str, preset: Preset) -> Preset:
    """The preset with the readings of Dopamine and of the code that MICo's authors released."""
    agent = preset.agent
    if isinstance(agent, AbstractImplicitAgent):
        agent = replace(agent, fractions="shared")
    td = {"none": {"priorities": "td"}} if name == "rainbow" else {}  # QR-DQN's are those of the TD loss either way
    return preset._replace(agent=agent, replay=replace(preset.replay, next="reset-frame"), agent_with=td)


PRESETS["atari-released"] = {name: _released_atari(name, preset) for name, preset in PRESETS["atari"].items()}
_CONTROL = PRESETS["control"]["sac"]
PRESETS["control-released"] = {
    "sac": _CONTROL._replace(
        agent=SAC(next_action="mean", log_std="unbounded"),
        replay=replace(_CONTROL.replay, next="reset-frame"),
        agent_with={name: {"critics_read": "actor", "actor_projection": "fixed"} for name in _RELEASED_LOSSES},
        losses=_RELEASED_LOSSES,
    )
}
RELEASED = {"atari": "atari-released", "control": "control-released"}  # our readings, and those of the released code
# Where the log period, unless it is given, is at most a fortieth of the steps; the others keep a published protocol.
SHORT_LOG_PERIODS = ("table", "vector")


def find_preset(name: str, agent: str) -> Preset | None:
    """The preset of this name for an agent, or None if it has none for the agent's kind of actions.

    An agent of another package takes the preset of the agent it is like (`preset_like`; otherwise DQN, or SAC where
    actions are continuous) with the fields that its own class gives other defaults, and those of its `presets`.
    """
    if agent in PRESETS[name]:
        return PRESETS[name][agent]
    kind = AGENTS.look_up(agent)
    base = PRESETS[name].get(kind.preset_like or ("dqn" if kind.actions == "discrete" else "sac"))
    if base is None or base.agent.actions != kind.actions:
        return None
    plain = {field.name: field.default for field in fields(AbstractAgent)}
    own = {field.name: field.default for field in fields(kind)}
    usual = {field: getattr(base.agent, field) for field, value in plain.items() if own[field] == value}
    made = kind(**(usual | dict(kind.presets.get(name, {}))))
    beside = {
        metric: {field: value for field, value in fields.items() if field in own}
        for metric, fields in base.agent_with.items()
    }
    return base._replace(agent=made, agent_with=beside)


def fitting_agents(name: str) -> tuple[str, ...]:
    """The agents that a preset has values for."""
    return tuple(agent for agent in AGENTS if find_preset(name, agent) is not None)
