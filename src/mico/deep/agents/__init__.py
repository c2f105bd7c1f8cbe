"""Agents: value agents, each a head, its TD loss and its action values; and an actor with critics."""

from mico._registry import Registry
from mico.deep.agents.agent import AbstractAgent
from mico.deep.agents.dqn import DQN
from mico.deep.agents.iqn import IQN
from mico.deep.agents.miqn import MIQN
from mico.deep.agents.qrdqn import QRDQN
from mico.deep.agents.rainbow import Rainbow
from mico.deep.agents.sac import SAC
from mico.deep.agents.value_agent import AbstractValueAgent
from mico.deep.extensions import check_class

VALUE_AGENTS: dict[str, type[AbstractValueAgent]] = {
    "dqn": DQN,
    "rainbow": Rainbow,
    "qr-dqn": QRDQN,
    "iqn": IQN,
    "m-iqn": MIQN,
}
AGENTS: Registry[type[AbstractAgent]] = Registry(
    "agent", "mico.agents", {**VALUE_AGENTS, "sac": SAC}, check=check_class(AbstractAgent, needs_defaults=True)
)

__all__ = [
    "AGENTS",
    "DQN",
    "IQN",
    "MIQN",
    "QRDQN",
    "SAC",
    "VALUE_AGENTS",
    "AbstractAgent",
    "AbstractValueAgent",
    "Rainbow",
]
