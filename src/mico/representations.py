r"""Distances between the representations of anybody's encoder, nearest neighbours, and agreement with returns.

Representations may be NumPy, PyTorch or JAX arrays, and results are NumPy arrays:

    from mico.representations import agreement, distances, neighbours
    from mico.torch import MICoLoss  # or MICo of mico.deep.metric_losses: any metric loss serves

    matrix = distances(encode, MICoLoss(beta=0.1), observations)
    nearest = neighbours(matrix, observations, observations, count=5)
    agreement(matrix, returns).correlation
"""

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from array_api_compat import array_namespace, is_jax_array, is_torch_array
from jaxtyping import Bool, Float, Int, Shaped
from scipy.stats import spearmanr

from mico._checks import count as whole_number

__all__ = [
    "Agreement",
    "Distance",
    "Neighbours",
    "PairMeasure",
    "agreement",
    "discounted_returns",
    "distances",
    "neighbours",
]

Distance = Literal["reduced", "learnt"]
_NO_NUMBERS = "OSUMm"  # NumPy's kinds of types that hold objects, text or times
Observations = Shaped[Any, "..."] | Mapping[str, Shaped[Any, "..."]]


def __dir__() -> list[str]:
    return __all__


@runtime_checkable
class PairMeasure(Protocol):
    """A metric loss of `mico.torch` or `mico.deep.metric_losses`, or any object with such a method."""

    def pairwise(self, x: Any, y: Any) -> Any:
        """Measure every row of x with every row of y."""
        ...


class Neighbours(NamedTuple):
    """For each row the nearest others, nearest first; where there are too few, the distance is infinite."""

    index: Int[np.ndarray, "B K"]
    distance: Float[np.ndarray, "B K"]


class Agreement(NamedTuple):
    r"""Agreement of distances $d$ with differences of returns $|\Delta G|$, over all pairs.

    Args:
        correlation: Spearman's rank correlation.
        bounded: The share of pairs with $|\Delta G| \le d$.
    """

    correlation: float
    bounded: float


def distances(
    encode: Callable[[Any], Any] | None,
    loss: PairMeasure,
    x: Observations,
    y: Observations | None = None,
    *,
    distance: Distance = "reduced",
    batch_size: int = 256,
) -> Float[np.ndarray, "B C"]:
    r"""Compute the distance of every observation of x to every one of y, by what a metric loss measures.

    Args:
        encode: Gives a batch of observations its representations, a row for each, as NumPy, PyTorch or JAX arrays.
            None if x and y are representations already.
        loss: The metric loss; of any library, whatever the representations are.
        x: Observations, stacked; a dict of stacks where an observation has several parts.
        y: Others. By default x again.
        distance: `"learnt"` is the loss's measure $m$ itself. `"reduced"` is $|m(x, y) - \tfrac12(m(x, x) + m(y, y))|$,
            without each state's distance to itself: MICo's $\beta\theta$, KSMe's $\tfrac12\|\phi_x - \phi_y\|^2$, and
            SimSR's own distance. By MICo's own $U$ the states with the smallest norms are the nearest to all others,
            because it grows with both norms.
        batch_size: How many observations are encoded at a time.

    Returns:
        A matrix in float64 with a row for each of x and a column for each of y.

    Raises:
        TypeError: If `encode` is no function, `loss` no metric loss, or `x` or `y` no array.
        ValueError: If there is no observation, or the encoder does not give each one a vector of finite numbers.

    Examples:
        >>> import numpy as np
        >>> from mico.representations import distances
        >>> from mico.torch import SimSRLoss
        >>> features = np.array([[1.0, 0.0], [0.0, 2.0]])
        >>> distances(None, SimSRLoss(), features)
        array([[0., 1.],
               [1., 0.]])
    """
    batch_size = _positive("batch_size", batch_size)
    _check_callable(encode)
    _check_measure(loss)
    if distance not in ("reduced", "learnt"):
        raise ValueError(f"distance must be 'reduced' or 'learnt', got {distance!r}")
    phi = _encode(encode, x, "x", batch_size)
    other = phi if y is None else _encode(encode, y, "y", batch_size)
    if phi.shape[1] != other.shape[1]:
        raise ValueError(f"x and y must have representations of one width, got {phi.shape[1]} and {other.shape[1]}")
    matrix = _measure(loss, phi, other)
    if distance == "learnt":
        return matrix
    own = _self_distances(loss, phi, batch_size)
    return np.abs(matrix - (own[:, None] + (own if y is None else _self_distances(loss, other, batch_size))) / 2)


def neighbours(
    distances: Float[Any, "B C"],
    x: Observations,
    y: Observations,
    *,
    count: int,
) -> Neighbours:
    """Find the observations of y that are nearest to each one of x; identical observations are excluded.

    For a kernel, such as KSMe's, which is large between similar states, give its negative.

    Args:
        distances: A row for each of x and a column for each of y.
        x: Observations, stacked; a dict of stacks where an observation has several parts.
        y: Others.
        count: How many neighbours.

    Returns:
        Indices into y and their distances, a row for each of x.

    Raises:
        ValueError: If shapes do not fit, a distance is not a number, or `count` is below 1.

    Examples:
        >>> import numpy as np
        >>> from mico.representations import neighbours
        >>> states = np.array([[10], [20], [30]])
        >>> neighbours(np.array([[0.0, 3.0, 1.0]]), states[:1], states, count=2).index
        array([[2, 1]])
    """
    count = _positive("count", count)
    matrix = _real("distances", distances)
    _check_shape("distances", matrix, [_length(x, "x"), _length(y, "y")], "x and y")
    far = np.where(_equal(x, y), np.inf, matrix)
    index = np.argsort(far, axis=1, kind="stable")[:, :count]
    padding = ((0, 0), (0, count - index.shape[1]))
    nearest = np.pad(np.take_along_axis(far, index, axis=1), padding, constant_values=np.inf)
    return Neighbours(np.pad(index, padding), nearest)


def agreement(distances: Float[Any, "B B"], returns: Shaped[Any, " B"]) -> Agreement:
    r"""Compare distances of states with differences of their returns, over all pairs.

    Args:
        distances: Distances among B states.
        returns: The return from each of them on, as `discounted_returns` gives them.

    Returns:
        The rank correlation (NaN where all distances, or all returns, are equal), and the share of pairs whose
        difference of returns the distance bounds.

    Raises:
        ValueError: If shapes do not fit, there are fewer than three states, or a value is not a number.

    Examples:
        >>> import numpy as np
        >>> from mico.representations import agreement
        >>> returns = np.array([0.0, 1.0, 3.0])
        >>> agreement(np.abs(returns[:, None] - returns), returns).bounded
        1.0
    """
    matrix, returns = _real("distances", distances), _real("returns", returns)
    if returns.ndim != 1:
        raise ValueError(f"returns must have shape [B], got {list(returns.shape)}")
    if returns.size < 3:
        raise ValueError(f"returns must be of at least three states, got {returns.size}")
    _check_shape("distances", matrix, [returns.size, returns.size], "returns")
    pairs = np.triu_indices(returns.size, k=1)
    gap = np.abs(returns[:, None] - returns)[pairs]
    is_constant = np.ptp(gap) == 0 or np.ptp(matrix[pairs]) == 0
    correlation = np.nan if is_constant else float(spearmanr(matrix[pairs], gap).statistic)
    return Agreement(correlation, float((gap <= matrix[pairs]).mean()))


def discounted_returns(reward: Shaped[Any, " T"], end: Bool[Any, " T"], *, discount: float) -> Float[np.ndarray, " T"]:
    r"""Compute $G_t = \sum_k \gamma^k r_{t+k}$ up to the end of the episode, or of the data.

    Args:
        reward: The rewards of consecutive steps.
        end: Which steps ended their episode.
        discount: γ in [0, 1].

    Returns:
        The return from each step on. Of the last episode it is cut short if the data end before it does.

    Raises:
        ValueError: If shapes do not fit, a reward is not a number, or the discount is not in [0, 1].

    Examples:
        >>> from mico.representations import discounted_returns
        >>> import numpy as np
        >>> discounted_returns(np.array([1.0, 2.0, 4.0]), np.array([False, True, False]), discount=0.5)
        array([2., 2., 4.])
    """
    reward, end = _real("reward", reward), _numpy(end)
    if reward.ndim != 1:
        raise ValueError(f"reward must have shape [T], got {list(reward.shape)}")
    _check_shape("end", end, [reward.size], "reward")
    if not isinstance(discount, Real) or not 0 <= discount <= 1:
        raise ValueError(f"discount must lie in [0, 1], got {discount!r}")
    returns, later = np.zeros(reward.size), 0.0
    for step in reversed(range(reward.size)):
        later = reward[step] + discount * later * (not end[step])
        returns[step] = later
    return returns


def _encode(encode: Callable[[Any], Any] | None, observations: Observations, name: str, batch_size: int) -> Any:
    length = _length(observations, name)
    if length == 0:
        raise ValueError(f"{name} must have at least one observation, got none")
    parts = [_rows(observations, slice(start, start + batch_size)) for start in range(0, length, batch_size)]
    phi = [_array(part if encode is None else encode(part), name, encode) for part in parts]
    whole = array_namespace(*phi).concat(phi) if all(part.ndim for part in phi) else phi[0]
    if whole.ndim != 2 or len(whole) != length:
        source = f"{name} must be" if encode is None else "encode must give"
        raise ValueError(
            f"{source} one vector for each of {length} observations, shape [{length}, D], got {list(whole.shape)}"
        )
    broken = np.flatnonzero(~np.isfinite(_numbers(name, whole).astype(np.float64)).all(axis=1))
    if broken.size:
        source = f"{name} must have" if encode is None else f"encode must give, for {name},"
        raise ValueError(f"{source} finite numbers, got {_numpy(whole[int(broken[0])])} in row {broken[0]}")
    return whole


def _array(phi: Any, name: str, encode: Callable[[Any], Any] | None) -> Any:
    """Turn the output of an encoder into an array of its own library; lists become NumPy arrays."""
    if is_torch_array(phi):
        return phi.detach()
    array = phi if is_jax_array(phi) else np.asarray(phi)
    if array.dtype.kind in _NO_NUMBERS:
        source = f"{name} must be" if encode is None else "encode must give"
        raise TypeError(f"{source} an array of numbers with a row for each observation, got {_describe(phi)}")
    return array


def _check_callable(encode: Any) -> None:
    if encode is not None and not callable(encode):
        raise TypeError(f"encode must be a function of a batch of observations, or None, got {_describe(encode)}")


def _check_measure(loss: Any) -> None:
    """Refuse what cannot measure pairs; of a class it is an object that is meant."""
    if isinstance(loss, type):
        raise TypeError(f"loss must be an object, such as {loss.__name__}(), got the class {loss.__name__}")
    if not isinstance(loss, PairMeasure):
        raise TypeError(f"loss must be a metric loss such as mico.torch.MICoLoss(), got {_describe(loss)}")


def _positive(name: str, value: Any) -> int:
    """A whole number of at least 1."""
    number = whole_number(value, name)
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")
    return number


def _numbers(name: str, given: Any) -> np.ndarray:
    """Real numbers as a NumPy array."""
    array = _numpy(given)
    if array.dtype.kind in (*_NO_NUMBERS, "c"):
        raise ValueError(f"{name} must be real numbers, got {_describe(given)}")
    return array


def _real(name: str, given: Any) -> np.ndarray:
    """Real numbers, infinities among them but no NaN, as a NumPy array."""
    array = _numbers(name, given)
    broken = np.argwhere(np.isnan(array))
    if len(broken):
        raise ValueError(f"{name} must not be NaN, got NaN at {broken[0].tolist()}")
    return array


def _describe(given: Any) -> str:
    """A value as an error shows it: words and numbers themselves, anything else by its type."""
    if given is None or isinstance(given, str | int | float):
        return repr(given)
    dtype = getattr(given, "dtype", None)
    return f"a {type(given).__name__}" if dtype is None else f"an array of {dtype}"


def _self_distances(loss: PairMeasure, phi: Any, batch_size: int) -> np.ndarray:
    """Measure each representation with itself, block by block."""
    blocks = [phi[start : start + batch_size] for start in range(0, phi.shape[0], batch_size)]
    return np.concatenate([_measure(loss, block, block).diagonal() for block in blocks])


def _measure(loss: PairMeasure, x: Any, y: Any) -> np.ndarray:
    """Measure in float64: of long representations, a reduced distance is a small difference of large numbers."""
    kind = _array_kind(loss, x)
    if kind == "jax":
        import jax

        with jax.enable_x64(True):
            given = (jax.numpy.asarray(phi if is_jax_array(phi) else _numpy(phi), dtype="float64") for phi in (x, y))
            return _numpy(loss.pairwise(*given))
    if kind == "torch":
        import torch

        given = (phi.double() if is_torch_array(phi) else torch.tensor(np.asarray(phi, np.float64)) for phi in (x, y))
        return _numpy(loss.pairwise(*given))
    return _numpy(loss.pairwise(_numpy(x).astype(np.float64), _numpy(y).astype(np.float64)))


def _array_kind(loss: PairMeasure, x: Any) -> Literal["jax", "torch", "numpy"]:
    """Find which arrays a loss computes with: our own by their package, others with those that the encoder gives."""
    packages = {".".join(kind.__module__.split(".")[:2]) for kind in type(loss).__mro__}
    if "mico.torch" in packages:
        return "torch"
    if "mico.deep" in packages:
        return "jax"
    return "torch" if is_torch_array(x) else "jax" if is_jax_array(x) else "numpy"


def _length(observations: Observations, name: str) -> int:
    if not isinstance(observations, Mapping):
        if (
            isinstance(observations, str)
            or not hasattr(observations, "__len__")
            or getattr(observations, "ndim", 1) == 0
        ):
            what = "observations stacked in an array, or a dict of such arrays"
            raise TypeError(f"{name} must be {what}, got {_describe(observations)}")
        return len(observations)
    lengths = {len(part) for part in observations.values()}
    if len(lengths) != 1:
        raise ValueError(f"{name} must have parts of one length, got {sorted(lengths)}")
    return lengths.pop()


def _rows(observations: Observations, rows: slice) -> Any:
    if isinstance(observations, Mapping):
        return {name: part[rows] for name, part in observations.items()}
    return observations[rows]


def _check_shape(name: str, array: np.ndarray, shape: list[int], source: str) -> None:
    if list(array.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, for that is the size of {source}, got {list(array.shape)}")


def _equal(x: Observations, y: Observations) -> np.ndarray:
    """Compare every observation of x with every one of y; those of several parts are equal if all parts are."""
    if not isinstance(x, Mapping) and not isinstance(y, Mapping):
        return _equal_rows(_numpy(x), _numpy(y))
    if not isinstance(x, Mapping) or not isinstance(y, Mapping) or x.keys() != y.keys():
        raise ValueError("x and y must be observations of the same parts")
    return np.logical_and.reduce([_equal_rows(_numpy(x[name]), _numpy(y[name])) for name in x])


def _equal_rows(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compare by value, in the digits that both have: a float32 copy equals its original, and −0 equals 0."""
    if x.shape[1:] != y.shape[1:]:
        raise ValueError(f"x and y must be observations of one shape, got {list(x.shape)} and {list(y.shape)}")
    floats = x.dtype.kind == y.dtype.kind == "f"
    kind = min(x.dtype, y.dtype, key=lambda one: one.itemsize) if floats else np.result_type(x, y)
    names: dict[bytes, int] = {}
    of_x, of_y = (
        [names.setdefault((row.astype(kind) + kind.type(0)).tobytes(), len(names)) for row in rows] for rows in (x, y)
    )
    return np.asarray(of_x)[:, None] == np.asarray(of_y)


def _numpy(array: Any) -> np.ndarray:
    if not is_torch_array(array):
        return np.asarray(array)
    array = array.detach().cpu()
    return np.asarray(array.float() if str(array.dtype) == "torch.bfloat16" else array)  # NumPy has no such type
