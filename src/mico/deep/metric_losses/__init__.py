"""Losses that shape representations by a behavioural metric."""

from mico.deep.metric_losses.ksme import KSMe
from mico.deep.metric_losses.mico import MICo
from mico.deep.metric_losses.pairing import AbstractPairLoss
from mico.deep.metric_losses.simsr import SimSR

METRIC_LOSSES = {"mico": MICo, "ksme": KSMe, "simsr": SimSR}

__all__ = ["METRIC_LOSSES", "AbstractPairLoss", "KSMe", "MICo", "SimSR"]
