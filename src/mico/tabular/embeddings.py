"""States as points: from distances, from a graph, at random; and how well linear functions of them fit a value."""

import warnings
from collections.abc import Callable
from typing import Literal

import numpy as np
from jaxtyping import Float

from mico._checks import install_hint
from mico.tabular._validation import check_whole, checked_distances
from mico.tabular.chain import Chain
from mico.tabular.metrics import factored_mico, solve
from mico.tabular.policies import PolicyLike, as_chain
from mico.tabular.problems.problem import Model

Features = Float[np.ndarray, "S k"]
Regression = Literal["linear", "affine"]

_TOLERANCE = 1e-10  # of distances, against values of the order of 1


def umap_embedding(d: Float[np.ndarray, "S S"], k: int, *, seed: int) -> Features:
    """UMAP (McInnes et al., 2018) of a matrix of distances into k dimensions; needs the extra `features`.

    A diffuse metric such as U is refused: UMAP counts on every state being at 0 from itself.
    """
    d = checked_distances(d)
    size = d.shape[0]
    check_whole("k", k, 1, size)
    check_whole("seed", seed, 0)
    if size < 3:
        raise ValueError(f"d is of {size} states, but UMAP needs at least 3")
    apart = int(np.abs(np.diag(d)).argmax())
    if d[apart, apart] != 0:
        raise ValueError(
            f"d must be 0 on its diagonal, or UMAP is ill-defined, but d[{apart}, {apart}] = {d[apart, apart]:g}"
        )
    if d.min() < 0 or not np.array_equal(d, d.T):
        raise ValueError("d must be symmetric and nowhere negative for UMAP")
    try:
        from umap import UMAP
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"UMAP needs the package umap-learn: {install_hint('features')}") from error
    # Its spectral start needs two more states than dimensions.
    start = "spectral" if k < size - 1 else "random"
    model = UMAP(
        n_components=k, n_neighbors=min(15, size - 1), metric="precomputed", init=start, random_state=seed, n_jobs=1
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "using precomputed metric")
        return model.fit_transform(d).astype(float)


def proto_value_functions(model: Model, policy: PolicyLike = None) -> Float[np.ndarray, "S S"]:
    r"""Eigenvectors of the graph Laplacian $D - A$, smoothest first (Mahadevan and Maggioni, 2007).

    The graph joins two different states if the chain can move from one to the other, either way.
    """
    chain = as_chain(model, policy)
    moves = chain.dense_transition() > 0
    adjacency = (moves | moves.T).astype(float)
    np.fill_diagonal(adjacency, 0.0)
    return np.linalg.eigh(np.diag(adjacency.sum(axis=1)) - adjacency)[1]


def random_features(num_states: int, k: int, *, seed: int) -> Features:
    """Independent standard normal numbers; with one seed, more features begin with the same ones."""
    for name, number, least in (("num_states", num_states, 1), ("k", k, 1), ("seed", seed, 0)):
        check_whole(name, number, least)
    return np.random.default_rng(seed).standard_normal((k, num_states)).T


def mico_embedding(model: Model, policy: PolicyLike = None) -> Features:
    r"""$\Psi$ with $\Pi U(x, y) = \|\Psi_x - \Psi_y\|^2$, on its principal axes, largest first, as many as count.

    $V$ is a constant plus a linear function of $\Psi$ with weights of squared norm $(\max r - \min r)/(1-\gamma)$. So
    the first k coordinates and a constant miss V, in the Euclidean norm over states, by at most the root of that times
    the largest singular value of the other coordinates.
    """
    return factored_mico(model, policy, tolerance=_TOLERANCE).factors.psi


def regression_error(
    features: Features, value: Float[np.ndarray, " S"], *, regression: Regression
) -> Float[np.ndarray, " S"]:
    r"""$V - \hat V$ for the least-squares fit of V on the features, and on a constant too if it is `"affine"`."""
    if regression not in ("linear", "affine"):
        raise ValueError(f"regression must be 'linear' or 'affine', not {regression!r}")
    if np.ndim(features) != 2:
        raise ValueError(f"features must have shape [S, k], but has {list(np.shape(features))}")
    if np.shape(value) != (len(features),):
        raise ValueError(f"value has shape {list(np.shape(value))}, but features ask for [{len(features)}]")
    if regression == "affine":
        features = np.pad(features, ((0, 0), (0, 1)), constant_values=1.0)
    weights = np.linalg.lstsq(features, value)[0]
    return value - features @ weights


def _umap_of(metric: str, chain: Chain, seed: int) -> Callable[[int], Features]:
    d = solve(metric, chain, tolerance=_TOLERANCE).matrix
    return lambda k: umap_embedding(d, k, seed=seed)


def _leading(columns: Float[np.ndarray, "S n"]) -> Callable[[int], Features]:
    """The first k columns; beyond the last, zeros."""
    return lambda k: np.pad(columns[:, :k], ((0, 0), (0, max(0, k - columns.shape[1]))))


FEATURES: dict[str, Callable[[Chain, int], Callable[[int], Features]]] = {
    "umap-reduced-mico": lambda chain, seed: _umap_of("reduced-mico", chain, seed),
    "umap-pi-bisimulation": lambda chain, seed: _umap_of("pi-bisimulation", chain, seed),
    "proto-value-functions": lambda chain, seed: _leading(proto_value_functions(chain)),
    "random": lambda chain, seed: lambda k: random_features(chain.num_states, k, seed=seed),
    "mico-embedding": lambda chain, seed: _leading(mico_embedding(chain)),
}
"""Of a chain and a seed: what gives k features of its states, having done once what does not depend on k."""
