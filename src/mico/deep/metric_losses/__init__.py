"""Losses that shape representations by a behavioural metric."""

from mico.deep.metric_losses.mico import MICo

METRIC_LOSSES = {"mico": MICo}

__all__ = ["METRIC_LOSSES", "MICo"]
