"""What a trained run takes for similar: distances of representations by its own metric loss, and nearest neighbours."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mico import representations
from mico.deep.trained.rollout import Rollout
from mico.deep.trained.trained import Trained
from mico.representations import Distance, Neighbours


def neighbours(trained: Trained, seen: Rollout, stored: Rollout, *, count: int, distance: Distance) -> Neighbours:
    """Of the stored observations, which are distinct, those nearest to each one seen, itself apart.

    By a kernel, such as KSMe's, which is largest between similar states, "learnt" takes the largest.
    """
    measured = distances(trained, seen, stored, distance)
    sign = -1 if distance == "learnt" and trained.settings.measure.nearest == "largest" else 1
    index, far = representations.neighbours(sign * measured, seen.observation, stored.observation, count=max(count, 1))
    return Neighbours(index[:, :count], np.where(np.isinf(far), far, sign * far)[:, :count])


def distances(trained: Trained, seen: Rollout, stored: Rollout, distance: Distance) -> Float[np.ndarray, "T M"]:
    """Measure every pair by the run's metric loss, or MICo if it has none; see `mico.representations.distances`."""
    both = seen.representation, stored.representation
    return representations.distances(jnp.asarray, trained.settings.measure, *both, distance=distance)


def distance_name(trained: Trained, distance: Distance) -> str:
    """Name what `distances` are, in the words of a caption."""
    words = trained.settings.measure.describe_distance(distance)
    return words if trained.settings.metric is not None else f"{words}, which this run did not learn"
