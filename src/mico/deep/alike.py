"""What a trained run takes for alike: distances of representations by its own metric loss, and nearest neighbours."""

from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from mico.deep.metric_losses import AbstractPairLoss, KSMe, MICo, SimSR
from mico.deep.trained import Trained
from mico.deep.watching import Seen

Distance = Literal["reduced", "learnt"]


class Neighbours(NamedTuple):
    """For each step the nearest of what is stored, nearest first; where there are fewer, the distance is infinite."""

    index: Int[np.ndarray, "T K"]
    distance: Float[np.ndarray, "T K"]


def neighbours(trained: Trained, seen: Seen, stored: Seen, *, count: int, distance: Distance) -> Neighbours:
    """Of the stored observations, which are distinct, those nearest to each one seen, itself apart.

    By KSMe's kernel, which is large between what is alike, "learnt" takes the largest.
    """
    measured = distances(trained, seen, stored, distance)
    kernel = distance == "learnt" and isinstance(trained.settings.metric, KSMe)
    far = -measured if kernel else measured.copy()
    places = {observation.tobytes(): index for index, observation in enumerate(stored.observation)}
    for step, observation in enumerate(seen.observation):
        if (same := places.get(observation.tobytes())) is not None:
            far[step, same] = np.inf
    index = np.argsort(far, axis=1, kind="stable")[:, :count]
    missing = np.isinf(np.take_along_axis(far, index, axis=1))
    found = np.where(missing, np.inf, np.take_along_axis(measured, index, axis=1))
    padding = ((0, 0), (0, count - index.shape[1]))
    return Neighbours(np.pad(index, padding), np.pad(found, padding, constant_values=np.inf))


def distances(trained: Trained, seen: Seen, stored: Seen, distance: Distance) -> Float[np.ndarray, "T M"]:
    r"""What the run's metric loss, or without one MICo, makes of every pair.

    "learnt" is its measure m itself. By MICo's U, which grows with the norms of both states, those of small norm are
    the nearest to all; "reduced" is $|m(x, y) - \tfrac12(m(x, x) + m(y, y))|$, without what each has to itself: MICo's
    $\beta\theta$, KSMe's $\tfrac12\|\phi_x - \phi_y\|^2$, and SimSR's own distance.
    """
    across, of_x, of_y = map(np.asarray, _measured(_metric(trained), seen.representation, stored.representation))
    return across if distance == "learnt" else np.abs(across - (of_x[:, None] + of_y) / 2)


def distance_name(trained: Trained, distance: Distance) -> str:
    """What `distances` are, in words."""
    metric = _metric(trained)
    if isinstance(metric, KSMe):
        return "KSMe's kernel, largest first" if distance == "learnt" else "KSMe's ½‖φ − φ'‖²"
    if not isinstance(metric, MICo):
        return "SimSR's 1 − cos" if isinstance(metric, SimSR) else f"{type(metric).__name__}'s {distance} distance"
    name = f"MICo's {'U' if distance == 'learnt' else 'reduced distance βθ'}, β = {float(metric.beta):g}"
    return name if trained.settings.metric is not None else f"{name}, which this run did not learn"


def _metric(trained: Trained) -> AbstractPairLoss:
    return MICo() if trained.settings.metric is None else trained.settings.metric


@jax.jit
def _measured(
    metric: AbstractPairLoss, x: Float[Array, "T D"], y: Float[Array, "M D"]
) -> tuple[Float[Array, "T M"], Float[Array, " T"], Float[Array, " M"]]:
    own = jax.vmap(lambda phi: metric.measure(phi, phi))
    return metric.measures(x, y), own(x), own(y)
