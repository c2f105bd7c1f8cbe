"""The MICo loss and its relatives for agents in PyTorch; `mico.torch.sb3` adds them to Stable-Baselines3's agents."""

from importlib.util import find_spec

from mico._checks import install_hint

if find_spec("torch") is None:
    raise ModuleNotFoundError(f"mico.torch needs PyTorch: {install_hint('torch')}")

from mico.torch.losses import METRIC_LOSSES, KSMeLoss, MICoLoss, SimSRLoss, mico_distance, mico_distances
from mico.torch.pairing import AbstractPairLoss, FirstStep, PairBatch, Sink

__all__ = [
    "METRIC_LOSSES",
    "AbstractPairLoss",
    "FirstStep",
    "KSMeLoss",
    "MICoLoss",
    "PairBatch",
    "SimSRLoss",
    "Sink",
    "mico_distance",
    "mico_distances",
]
