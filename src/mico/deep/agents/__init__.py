"""Value agents: each is a head, its TD loss and its action values."""

from mico.deep.agents.dqn import DQN
from mico.deep.agents.iqn import IQN
from mico.deep.agents.miqn import MIQN
from mico.deep.agents.qrdqn import QRDQN
from mico.deep.agents.rainbow import Rainbow

AGENTS = {"dqn": DQN, "rainbow": Rainbow, "qr-dqn": QRDQN, "iqn": IQN, "m-iqn": MIQN}

__all__ = ["AGENTS", "DQN", "IQN", "MIQN", "QRDQN", "Rainbow"]
