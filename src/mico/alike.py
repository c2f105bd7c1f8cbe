r"""What an encoder takes for alike: distances of representations, nearest neighbours, agreement with returns.

For encoders and metric losses of PyTorch and of JAX alike; arrays go in and NumPy's come out:

    from mico.alike import agreement, distances, neighbours
    from mico.torch import MICoLoss  # or MICo of mico.deep.metric_losses, for an encoder in JAX

    apart = distances(encode, MICoLoss(beta=0.1), observations)
    nearest = neighbours(apart, observations, observations, count=5)
    found = agreement(apart, returns)
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from array_api_compat import array_namespace, is_jax_array, is_torch_array
from jaxtyping import Bool, Float, Int, Shaped
from scipy.stats import spearmanr

Distance = Literal["reduced", "learnt"]


@runtime_checkable
class Measures(Protocol):
    """A metric loss, by what it measures of every x with every y: both are arrays of the encoder's own kind."""

    def measures(self, x: Any, y: Any) -> Any: ...


class Neighbours(NamedTuple):
    """For each row the nearest others, nearest first; where there are fewer, the distance is infinite."""

    index: Int[np.ndarray, "B K"]
    distance: Float[np.ndarray, "B K"]


class Agreement(NamedTuple):
    r"""Of distances d with $|\Delta G|$ over all pairs: Spearman's correlation; the share with $|\Delta G| \le d$."""

    correlation: float
    bounded: float


def distances(
    encode: Callable[[Any], Any],
    loss: Measures,
    x: Shaped[np.ndarray, "B ..."],
    y: Shaped[np.ndarray, "C ..."] | None = None,
    *,
    distance: Distance = "reduced",
    batch: int = 256,
) -> Float[np.ndarray, "B C"]:
    r"""Between every observation of x and every one of y, by default x again; `batch` are encoded at a time.

    "learnt" is the loss's measure m itself. By MICo's U, which grows with the norms of both states, those of small norm
    are the nearest to all; "reduced" is $|m(x, y) - \tfrac12(m(x, x) + m(y, y))|$, without what each has to itself:
    MICo's $\beta\theta$, KSMe's $\tfrac12\|\phi_x - \phi_y\|^2$, and SimSR's own distance.
    """
    if batch < 1:
        raise ValueError(f"batch must be at least 1, but is {batch}")
    if distance not in ("reduced", "learnt"):
        raise ValueError(f"distance must be reduced or learnt, but is {distance!r}")
    phi = _encoded(encode, x, batch)
    other = phi if y is None else _encoded(encode, y, batch)
    across = _measured(loss, phi, other)
    if distance == "learnt":
        return across
    own = _own(loss, phi, batch)
    return np.abs(across - (own[:, None] + (own if y is None else _own(loss, other, batch))) / 2)


def neighbours(
    apart: Float[np.ndarray, "B C"],
    x: Shaped[np.ndarray, "B ..."],
    y: Shaped[np.ndarray, "C ..."],
    *,
    count: int,
) -> Neighbours:
    """Of the observations y, those nearest to each of x by the distances given; none is a neighbour of its equal.

    A kernel, as KSMe learns, is large between what is alike: give its negative.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, but is {count}")
    x, y = np.asarray(x), np.asarray(y)
    _check_shape("apart", apart, [len(x), len(y)], "x and y ask")
    if x.shape[1:] != y.shape[1:]:
        raise ValueError(f"x and y must be observations of one shape, but are {list(x.shape)} and {list(y.shape)}")
    far = np.where(_equal(x, y), np.inf, apart)
    index = np.argsort(far, axis=1, kind="stable")[:, :count]
    padding = ((0, 0), (0, count - index.shape[1]))
    found = np.pad(np.take_along_axis(far, index, axis=1), padding, constant_values=np.inf)
    return Neighbours(np.pad(index, padding), found)


def agreement(apart: Float[np.ndarray, "B B"], returns: Float[np.ndarray, " B"]) -> Agreement:
    """Whether what is far apart also pays differently from there on."""
    if returns.size < 3:
        raise ValueError(f"returns must be of three observations at least, but are of {returns.size}")
    if returns.ndim != 1:
        raise ValueError(f"returns must have shape [B], but has {list(returns.shape)}")
    _check_shape("apart", apart, [returns.size, returns.size], "returns ask")
    pairs = np.triu_indices(returns.size, k=1)
    gap = np.abs(returns[:, None] - returns)[pairs]
    return Agreement(float(spearmanr(apart[pairs], gap).statistic), float((gap <= apart[pairs]).mean()))


def discounted_returns(
    reward: Float[np.ndarray, " T"], end: Bool[np.ndarray, " T"], *, discount: float
) -> Float[np.ndarray, " T"]:
    r"""$G_t = \sum_k \gamma^k r_{t+k}$ up to the episode's end, or to that of what is there."""
    if reward.ndim != 1:
        raise ValueError(f"reward must have shape [T], but has {list(reward.shape)}")
    _check_shape("end", end, [reward.size], "reward asks")
    found, later = np.zeros(reward.size), 0.0
    for step in reversed(range(reward.size)):
        later = reward[step] + discount * later * (not end[step])
        found[step] = later
    return found


def _encoded(encode: Callable[[Any], Any], observations: np.ndarray, batch: int) -> Any:
    parts = [encode(observations[start : start + batch]) for start in range(0, len(observations), batch)]
    if not parts:
        raise ValueError("there must be an observation, but there is none")
    parts = [part.detach() if is_torch_array(part) else part for part in parts]
    phi = array_namespace(*parts).concat(parts)
    if phi.ndim != 2 or len(phi) != len(observations):
        shapes = f"{list(phi.shape)} of observations {list(observations.shape)}"
        raise ValueError(f"encode must give a vector for each observation, [B, D] in all, but gives {shapes}")
    return phi


def _check_shape(name: str, array: np.ndarray, shape: list[int], who: str) -> None:
    if list(array.shape) != shape:
        raise ValueError(f"{name} has shape {list(array.shape)}, but {who} for {shape}")


def _own(loss: Measures, phi: Any, batch: int) -> np.ndarray:
    """What each has to itself, block by block."""
    blocks = [phi[start : start + batch] for start in range(0, phi.shape[0], batch)]
    return np.concatenate([_measured(loss, block, block).diagonal() for block in blocks])


def _measured(loss: Measures, x: Any, y: Any) -> np.ndarray:
    """In float64: of long representations, what is reduced is a small difference of large numbers."""
    if is_jax_array(x):
        import jax

        with jax.enable_x64(True):
            return _numpy(loss.measures(*(jax.numpy.asarray(phi, dtype="float64") for phi in (x, y))))
    return _numpy(loss.measures(x.double(), y.double()) if is_torch_array(x) else loss.measures(x, y))


def _equal(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """By value, to the digits that both have: a copy in float32 is equal to what it was made of, and −0 to 0."""
    floats = x.dtype.kind == y.dtype.kind == "f"
    kind = min(x.dtype, y.dtype, key=lambda one: one.itemsize) if floats else np.result_type(x, y)
    names: dict[bytes, int] = {}
    of_x, of_y = (
        [names.setdefault((row.astype(kind) + kind.type(0)).tobytes(), len(names)) for row in rows] for rows in (x, y)
    )
    return np.asarray(of_x)[:, None] == np.asarray(of_y)


def _numpy(array: Any) -> np.ndarray:
    return np.asarray(array.detach().cpu() if is_torch_array(array) else array)
