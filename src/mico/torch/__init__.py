"""The MICo loss and its relatives for agents in PyTorch; `mico.torch.sb3` has Stable-Baselines3's agents with it."""

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
