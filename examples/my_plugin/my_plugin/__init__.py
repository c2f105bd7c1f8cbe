"""A metric loss, an agent, an environment, an encoder, a problem and a metric that MICo does not have."""

import mico
from my_plugin.agent import MellowDQN
from my_plugin.encoder import two_wide
from my_plugin.env import RiverSwim
from my_plugin.loss import L1
from my_plugin.metric import VALUE_GAP
from my_plugin.problem import river

mico.register_metric_loss("l1", L1, replace=True)
mico.register_agent("mellow-dqn", MellowDQN, replace=True)
mico.register_env("river-swim", RiverSwim, replace=True)
mico.register_encoder("two-wide", two_wide, replace=True)
mico.register_problem("river", river, replace=True, fewest_states=lambda length: length)
mico.register_metric("value-gap", VALUE_GAP, replace=True)
