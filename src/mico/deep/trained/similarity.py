"""What a trained run takes for alike: distances of representations by its own metric loss, and nearest neighbours."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mico import representations
from mico.deep.metric_losses import DBC, AbstractMetricLoss, DBCDet, DBCMICo, KSMe, MICo, SimSR
from mico.deep.trained.rollout import Rollout
from mico.deep.trained.trained import Trained
from mico.representations import Distance, Neighbours

_NAMES: dict[type, str] = {DBCDet: "DBC-Det", DBCMICo: "DBC+MICo"}


def neighbours(trained: Trained, seen: Rollout, stored: Rollout, *, count: int, distance: Distance) -> Neighbours:
    """Of the stored observations, which are distinct, those nearest to each one seen, itself apart.

    By KSMe's kernel, which is large between what is alike, "learnt" takes the largest.
    """
    measured = distances(trained, seen, stored, distance)
    sign = -1 if distance == "learnt" and isinstance(trained.settings.metric, KSMe) else 1
    index, far = representations.neighbours(sign * measured, seen.observation, stored.observation, count=max(count, 1))
    return Neighbours(index[:, :count], np.where(np.isinf(far), far, sign * far)[:, :count])


def distances(trained: Trained, seen: Rollout, stored: Rollout, distance: Distance) -> Float[np.ndarray, "T M"]:
    """Measure every pair by the run's metric loss, or MICo if it has none; see `mico.representations.distances`."""
    both = seen.representation, stored.representation
    return representations.distances(jnp.asarray, _metric(trained), *both, distance=distance)


def distance_name(trained: Trained, distance: Distance) -> str:
    """What `distances` are, in words."""
    metric = _metric(trained)
    name = _NAMES.get(type(metric), type(metric).__name__)
    if isinstance(metric, (MICo, DBCMICo)):
        words = f"{name}'s {'U' if distance == 'learnt' else 'reduced distance βθ'}, β = {float(metric.beta):g}"
        return words if trained.settings.metric is not None else f"{words}, which this run did not learn"
    if isinstance(metric, KSMe):
        return f"{name}'s kernel, largest first" if distance == "learnt" else f"{name}'s ½‖φ − φ'‖²"
    if isinstance(metric, (DBC, DBCDet)):
        return f"{name}'s mean Huber of φ − φ'" if metric.variant == "original" else f"{name}'s ‖φ − φ'‖₁"
    return f"{name}'s 1 − cos" if isinstance(metric, SimSR) else f"{name}'s {distance} distance"


def _metric(trained: Trained) -> AbstractMetricLoss:
    return MICo() if trained.settings.metric is None else trained.settings.metric
