r"""State aggregation from distances, and what it costs in value.

A state's distance to itself counts as 0 throughout, whatever the diagonal says: a diffuse metric has
$d(x, x) > 0$, yet a state stands for itself without loss.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from mico.tabular._validation import (
    Distances,
    check_kind,
    check_whole,
    checked_discount,
    checked_distances,
    checked_not_negative,
)
from mico.tabular.abstraction.partition import Partition


@final
@dataclass(frozen=True, eq=False)
class Aggregation:
    """Classes with a centre each, which is one of their states; no state is farther than `radius` from its centre.

    A centre belongs to its own class, also where a diffuse metric puts it nearer to another centre than to itself.
    """

    partition: Partition
    centres: Int[np.ndarray, " C"]
    radius: float


def epsilon_cover(d: Any, *, radius: float) -> Aggregation:
    """Gonzalez's greedy cover of d [S, S]: the farthest state becomes a centre until all are within `radius` of one.

    The first centre is the state whose farthest state is nearest. Two centres are always more than `radius` apart.
    """
    distance = _without_diagonal(d)
    radius = checked_not_negative("radius", radius)
    middle = int(distance.max(axis=0).argmin())
    return _assigned(distance, _farthest_first(distance, middle, len(distance), radius))


def k_medoids(d: Any, *, num_clusters: int, seed: int) -> Aggregation:
    """`num_clusters` centres that no single swap can improve, by the sum of the states' distances to them (PAM).

    The seed draws the first centre; the others of the start are farthest first.
    """
    distance = _without_diagonal(d)
    size = len(distance)
    check_whole("num_clusters", num_clusters, 1, size)
    check_whole("seed", seed, 0)
    first = int(np.random.default_rng(seed).integers(size))
    centres = _farthest_first(distance, first, num_clusters, -np.inf)
    slack = 1e-13 * size * np.abs(distance).max()  # a gain of rounding alone could swap for ever
    while True:
        change = _swap_change(distance, centres)
        state, place = np.unravel_index(change.argmin(), change.shape)
        if change[state, place] >= -slack:
            return _assigned(distance, centres)
        centres[place] = state


def value_loss_bound(d: Any, partition: Partition, discount: float) -> Float[np.ndarray, " S"]:
    r"""$|\bar V(c_x) - V(x)| \le g(x) + \frac{\gamma}{1-\gamma} \max_u g(u)$, $\bar V$ the value of the `quotient`.

    Here $g(x)$ is the mean of $d(x, x')$ over the $x'$ in the class $c_x$ of $x$, with 0 for $x' = x$. It asks that
    $|r_x - r_y| + \gamma |(PV)_x - (PV)_y| \le d(x, y)$, as MICo and π-bisimulation do for $V^\pi$; for $V^*$ that the
    same holds for every action, as bisimulation does. For then, with the means over $x' \in c_x$,
    $$\bar V(c_x) - V(x) = \mathrm{mean}\,[r_{x'} - r_x + \gamma (PV)_{x'} - \gamma (PV)_x]
      + \gamma\, \mathrm{mean}\,[(P(\bar V - V))_{x'}],$$
    so the error $e$ obeys $e(x) \le g(x) + \gamma \max e$, hence $\max e \le \max g / (1 - \gamma)$; put that back in.
    For $V^*$ the same holds of each action's value, and a difference of maxima is at most the largest difference.
    """
    distance, gamma = _without_diagonal(d), checked_discount(discount)
    check_kind("partition", partition, Partition, "a Partition")
    if partition.num_states != len(distance):
        raise ValueError(f"partition has {partition.num_states} states, but d has {len(distance)}")
    total = (distance @ partition.membership)[np.arange(len(distance)), partition.block]
    mean = total / partition.sizes[partition.block]
    return mean + gamma / (1 - gamma) * mean.max()


def _without_diagonal(d: Any) -> Distances:
    distance = checked_distances(d)
    np.fill_diagonal(distance, 0.0)
    return distance


def _farthest_first(distance: Distances, first: int, most: int, radius: float) -> Int[np.ndarray, " C"]:
    """Centres from `first` on, each the farthest from those before, until there are `most` or `radius` covers all."""
    centres, nearest = [first], distance[:, first].copy()
    nearest[first] = -np.inf
    while len(centres) < most and nearest.max() > radius:
        centre = int(nearest.argmax())
        centres.append(centre)
        nearest = np.minimum(nearest, distance[:, centre])
        nearest[centre] = -np.inf
    return np.array(centres)


def _swap_change(distance: Distances, centres: Int[np.ndarray, " C"]) -> Float[np.ndarray, "S C"]:
    """The change of the sum of distances if state x takes the place of centre c, for all x and c at once."""
    to_centres = distance[:, centres]
    own = to_centres.argmin(axis=1)
    nearest, second = np.partition(np.pad(to_centres, ((0, 0), (0, 1)), constant_values=np.inf), 1)[:, :2].T
    kept = np.minimum(distance, nearest[:, None])
    lost = np.minimum(distance, second[:, None]) - kept  # what the states of c pay on top when c goes
    return (kept - nearest[:, None]).sum(axis=0)[:, None] + lost.T @ np.eye(centres.size)[own]


def _assigned(distance: Distances, centres: Int[np.ndarray, " C"]) -> Aggregation:
    """Each state to its nearest centre, the earliest of equals; centres to themselves."""
    own = distance[:, centres].argmin(axis=1)
    own[centres] = np.arange(centres.size)
    partition = Partition.from_labels(own)
    ordered = np.empty_like(centres)
    ordered[partition.block] = centres[own]
    reach = distance[np.arange(len(distance)), ordered[partition.block]]
    return Aggregation(partition, ordered, float(reach.max()))
