"""The MICo loss and its relatives for agents in PyTorch; `mico.torch.sb3` has Stable-Baselines3's agents with it."""

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ModuleNotFoundError("mico.torch needs: pip install 'mico-rl[torch]'")

from mico.torch.losses import METRIC_LOSSES, KSMeLoss, MICoLoss, SimSRLoss, mico_distance, mico_distances
from mico.torch.pairing import AbstractPairLoss, FirstStep, Pairs, Sink

__all__ = [
    "METRIC_LOSSES",
    "AbstractPairLoss",
    "FirstStep",
    "KSMeLoss",
    "MICoLoss",
    "Pairs",
    "SimSRLoss",
    "Sink",
    "mico_distance",
    "mico_distances",
]
