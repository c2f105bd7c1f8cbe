"""A metric loss, an agent, an environment and an encoder that MICo does not have."""

import mico
from my_plugin.agent import MellowDQN
from my_plugin.encoder import two_wide
from my_plugin.env import RiverSwim
from my_plugin.loss import L1

mico.register_metric_loss("l1", L1, replace=True)
mico.register_agent("mellow-dqn", MellowDQN, replace=True)
mico.register_env("river-swim", RiverSwim, replace=True)
mico.register_encoder("two-wide", two_wide, replace=True)
