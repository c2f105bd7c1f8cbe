"""Losses that shape representations by a behavioural metric."""

from mico._registry import Registry
from mico.deep.extensions import check_class
from mico.deep.metric_losses.dbc import DBC, DBCDet, DBCMICo
from mico.deep.metric_losses.ksme import KSMe
from mico.deep.metric_losses.metric_loss import AbstractMetricLoss
from mico.deep.metric_losses.mico import MICo
from mico.deep.metric_losses.pair_loss import AbstractPairLoss, PairBatch
from mico.deep.metric_losses.simsr import SimSR

METRIC_LOSSES: Registry[type[AbstractMetricLoss]] = Registry(
    "metric loss",
    "mico.metric_losses",
    {
        "mico": MICo,
        "ksme": KSMe,
        "simsr": SimSR,
        "dbc": DBC,
        "dbc-det": DBCDet,
        "dbc-mico": DBCMICo,
    },
    check=check_class(AbstractMetricLoss, needs_defaults=True),
)

__all__ = [
    "DBC",
    "METRIC_LOSSES",
    "AbstractMetricLoss",
    "AbstractPairLoss",
    "DBCDet",
    "DBCMICo",
    "KSMe",
    "MICo",
    "PairBatch",
    "SimSR",
]
