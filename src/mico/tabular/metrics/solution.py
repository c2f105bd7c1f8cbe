"""A solved metric: the distances between all states, what they are of, and how exact they are."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, final, get_args

import numpy as np
from jaxtyping import Float, Int

from mico.tabular import plotting
from mico.tabular._validation import States, check_whole, checked_states
from mico.tabular.chain import Chain
from mico.tabular.diagnostics import AxiomReport, ValueBound, check_axioms, value_bound
from mico.tabular.mdp import Reward
from mico.tabular.metrics._solution_files import read_fields, solution_fields, write_fields
from mico.tabular.metrics.factored import Kind, MICoFactors
from mico.tabular.plotting import Colours
from mico.tabular.policies import Policy, as_chain, optimal_value
from mico.tabular.problems.problem import Layout, Model, Problem
from mico.tabular.scaling import Scaling, classical_scaling, principal_scaling

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize

Method = Literal["auto", "dense", "factored"]
LARGEST_MATRIX = 10_000  # states whose distances, 0.8 GB, are made a matrix from factors
_AXIOM_TERMS = 4  # at most so many distances, each with its error, stand in one axiom


class Neighbours(NamedTuple):
    """States and their distances, nearest first.

    Attributes:
        index: The numbers of the states.
        distance: Their distances.

    Examples:
        >>> import mico.tabular as mt
        >>> states, distances = mt.solve("mico", mt.make("coin-chain")).neighbours(0, 2)
        >>> states
        array([1, 2])
    """

    index: Int[np.ndarray, " k"]
    distance: Float[np.ndarray, " k"]


@final
class Solution:
    """A metric between the states of a model, each distance within a certified error of the exact one.

    `solve` makes it. Its methods are the same whether it holds a matrix (`method` "dense") or factors from which
    distances are computed when they are asked for (`method` "factored"). `save` and `load` keep one in a file.

    Attributes:
        metric: Name of the metric, a key of `METRICS`.
        model: The Problem, MDP or Chain that was solved.
        policy: The policy [S, A] that the metric is of; None for a metric of the MDP alone, or of a Chain.
        other: The second model, for distances from its states; None for distances within `model`.
        other_policy: The policy of the second model.
        reward: Whether mean rewards were compared, or independent draws ("sampled").
        tolerance: The error that was asked for.
        error: Certified bound on the error of every distance, rounding included.
        iterations: Number of iterations of the solver; what one of them is depends on the metric.
        method: "dense" or "factored".
        factors: The `MICoFactors` of a factored solution.

    Examples:
        >>> import mico.tabular as mt
        >>> solution = mt.solve("mico", mt.make("two-state", discount=0.9))
        >>> solution  # doctest: +ELLIPSIS
        Solution('mico', 2 states, discount 0.9, dense, error ...)
        >>> solution.matrix.round(3)
        array([[1.056, 1.818],
               [1.818, 0.   ]])
    """

    def __init__(
        self,
        metric: str,
        model: Model,
        distances: Float[np.ndarray, "S T"] | MICoFactors,
        *,
        policy: Policy | None,
        reward: Reward,
        tolerance: float,
        error: float,
        iterations: int,
        other: Model | None = None,
        other_policy: Policy | None = None,
    ):
        self.metric, self.model, self.policy, self.reward = metric, model, policy, reward
        self.other, self.other_policy = other, other_policy
        self.tolerance, self.error, self.iterations = float(tolerance), float(error), int(iterations)
        self._distances = distances
        if isinstance(distances, np.ndarray):
            distances.setflags(write=False)

    @property
    def method(self) -> Literal["dense", "factored"]:
        """What the solution holds: a matrix, or factors."""
        return "dense" if isinstance(self._distances, np.ndarray) else "factored"

    @property
    def factors(self) -> MICoFactors:
        """The factors that the distances are computed from.

        Raises:
            ValueError: If `method` is "dense", where there are none.
        """
        if isinstance(self._distances, MICoFactors):
            return self._distances
        raise ValueError(f"factors must be asked of a factored solution, got {self!r}")

    @property
    def num_states(self) -> int:
        """Number of states of the model."""
        return self.model.num_states

    @property
    def num_columns(self) -> int:
        """Number of states that distances lead to: of the other model, where there is one."""
        return self._columns.num_states

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the states, where the model is a Problem that has them."""
        return self.model.names if isinstance(self.model, Problem) else None

    @property
    def layout(self) -> Layout | None:
        """The map of the states, where the model is a Problem that has one."""
        return self.model.layout if isinstance(self.model, Problem) else None

    @property
    def compares(self) -> Literal["policies", "actions"]:
        """Whether it is a metric of policies, or of the MDP alone, which compares actions."""
        return "policies" if self.policy is not None or isinstance(self.model, Chain) else "actions"

    @cached_property
    def value(self) -> Float[np.ndarray, " S"]:
        r"""The values whose differences the distances bound: $V^\pi$, or $V^*$ for a metric of the MDP alone."""
        return self._value_of(self.model, self.policy)

    @cached_property
    def other_value(self) -> Float[np.ndarray, " T"]:
        """The values of the states that distances lead to; `value`, where there is one model."""
        return self.value if self.other is None else self._value_of(self.other, self.other_policy)

    def __repr__(self) -> str:
        size = "1 state" if self.num_states == 1 else f"{self.num_states} states"
        size += "" if self.other is None else f" and {self.num_columns} of another model"
        what = f"{self.metric!r}, {size}, discount {self.model.discount:g}"
        return f"Solution({what}, {self.method}, error {self.error:.2g})"

    @cached_property
    def matrix(self) -> Float[np.ndarray, "S T"]:
        """The distances of all pairs of states, an array [S, S] that cannot be written to; [S, T] of two models.

        Raises:
            ValueError: If the solution holds factors of more than 10,000 states, whose matrix takes over 0.8 GB.

        Examples:
            >>> import mico.tabular as mt
            >>> mt.solve("bisimulation", mt.make("two-state", discount=0.9)).matrix.round(3)
            array([[0.   , 1.818],
                   [1.818, 0.   ]])
        """
        if isinstance(self._distances, np.ndarray):
            return self._distances
        if self.num_states > LARGEST_MATRIX:
            raise ValueError(
                f"matrix must be of at most {LARGEST_MATRIX} states, got {self.num_states}: it would take "
                f"{8e-9 * self.num_states**2:.2g} GB; row, pairs and neighbours need no matrix"
            )
        matrix = self.row(np.arange(self.num_states))
        matrix.setflags(write=False)
        return matrix

    def row(self, x: States) -> Float[np.ndarray, "... T"]:
        """The distances from a state to every state.

        Args:
            x: A state, or an array of states.

        Returns:
            A fresh array [S]; with an array of states [..., S].

        Raises:
            ValueError: If x holds no states of the model.

        Examples:
            >>> import mico.tabular as mt
            >>> mt.solve("mico", mt.make("two-state")).row(1).round(3)
            array([1.818, 0.   ])
        """
        x = checked_states("x", x, self.num_states)
        if isinstance(self._distances, MICoFactors):
            return self._distances.rows(x, self._kind)
        return self._distances[x].copy()

    def pairs(self, x: States, y: States) -> Float[np.ndarray, "..."] | np.floating:
        """The distances of pairs of states, x[i] from y[i].

        Args:
            x: A state, or an array of states.
            y: A state, or an array of states, of the other model where there is one; broadcast together with x.

        Returns:
            An array of their common shape; a number for two states.

        Raises:
            ValueError: If x or y holds no states of the model.

        Examples:
            >>> import mico.tabular as mt
            >>> mt.solve("mico", mt.make("two-state")).pairs([0, 1], [1, 1]).round(3)
            array([1.818, 0.   ])
        """
        x, y = checked_states("x", x, self.num_states), checked_states("y", y, self.num_columns)
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            raise ValueError(
                f"x and y must have shapes that broadcast, got {list(x.shape)} and {list(y.shape)}"
            ) from None
        if isinstance(self._distances, MICoFactors):
            return self._distances.pairs(x, y, self._kind)[()]
        return self._distances[x, y]

    def neighbours(self, x: int, k: int) -> Neighbours:
        """Find the k states nearest to x, without x itself; of the other model, where there is one.

        Args:
            x: A state.
            k: How many; at least 1, and fewer than there are states (as many, of another model).

        Returns:
            Their numbers `index` and distances `distance`, nearest first; of equals the lower number first.

        Raises:
            ValueError: If x is no state, or k is too small or too large.

        Examples:
            >>> import mico.tabular as mt
            >>> mt.solve("mico", mt.make("coin-chain")).neighbours(0, 2).index
            array([1, 2])
        """
        check_whole("x", x, 0, self.num_states - 1)
        everyone = np.arange(self.num_columns)
        others = np.delete(everyone, x) if self.other is None else everyone
        check_whole("k", k, 1, others.size)
        row = self.row(x)
        near = others[np.argsort(row[others], kind="stable")[:k]]
        return Neighbours(near, row[near])

    def embedding(self, k: int = 2) -> Float[np.ndarray, "S k"]:
        r"""Place the states in k dimensions by classical scaling, longest axis first.

        For mico and reduced-mico, squared distances of the points are near $\Pi U$, and exact for k large enough; for
        other metrics, distances of the points are near the distances.

        Args:
            k: Number of coordinates; beyond the number of states they are zero.

        Returns:
            A point for each state.

        Raises:
            ValueError: If k is not a positive whole number, or the distances are of two models.

        Examples:
            >>> import mico.tabular as mt
            >>> solution = mt.solve("reduced-mico", mt.make("two-state", discount=0.9))
            >>> points = solution.embedding(1)
            >>> float((points[0, 0] - points[1, 0]) ** 2 - solution.matrix[0, 1]) < 1e-12
            True
        """
        return self.scaling(k).points

    def scaling(self, k: int = 2) -> Scaling:
        """Place the states in k dimensions, and say what share of the spread that keeps.

        Args:
            k: Number of coordinates.

        Returns:
            The `points` of `embedding`, and the share `kept`: 1 where they have all distances.

        Raises:
            ValueError: As `embedding`.

        Examples:
            >>> import mico.tabular as mt
            >>> mt.solve("reduced-mico", mt.make("two-state")).scaling(1).kept
            1.0
        """
        self._check_one_model("embedding")
        if isinstance(self._distances, MICoFactors):
            return principal_scaling(self._distances.psi, k)
        if self.metric in get_args(Kind):  # ΠU is a squared distance
            own = np.diag(self.matrix) / 2
            return classical_scaling(self.matrix - own[:, None] - own, k)
        return classical_scaling(self.matrix**2, k)

    def check_axioms(self, tolerance: float | None = None) -> AxiomReport:
        """Check which axioms of a distance the matrix obeys; in time that grows with the cube of the states.

        Args:
            tolerance: By how much an axiom may be missed; by default what the certified error explains.

        Returns:
            Each axiom's worst case, and the kinds of distance that follow.

        Raises:
            ValueError: If the tolerance is negative, or the distances are of two models.

        Examples:
            >>> import mico.tabular as mt
            >>> mt.solve("mico", mt.make("two-state")).check_axioms().kinds
            ('partial-metric', 'diffuse-metric')
        """
        self._check_one_model("check_axioms")
        return check_axioms(self.matrix, _AXIOM_TERMS * self.error if tolerance is None else tolerance)

    def value_bound(self) -> ValueBound:
        r"""Check the bound $|V(x) - V(y)| \le d(x, y)$ on the values that the metric is to bound.

        Returns:
            The share of pairs that break it by more than the certified error, and the mean of $d - |\Delta V|$.

        Raises:
            ValueError: If the matrix is too large to be made from factors.

        Examples:
            >>> import mico.tabular as mt
            >>> mt.solve("bisimulation", mt.make("two-state")).value_bound().broken
            0.0
        """
        other = None if self.other is None else self.other_value
        return value_bound(self.matrix, self.value, other, error=self.error)

    def to_frame(self) -> pd.DataFrame:
        """Make a table with a line for each pair of states.

        Returns:
            A DataFrame with the columns `x`, `y` (names of states, or numbers) and `distance`.

        Raises:
            ValueError: If the matrix is too large to be made from factors.

        Examples:
            >>> import mico.tabular as mt
            >>> mt.solve("mico", mt.make("two-state", discount=0.9)).to_frame().round(3)
               x  y  distance
            0  x  x     1.056
            1  x  y     1.818
            2  y  x     1.818
            3  y  y     0.000
        """
        import pandas as pd

        rows, columns = _labels(self.model), _labels(self._columns)
        x, y = np.repeat(rows, len(columns)), np.tile(columns, len(rows))
        return pd.DataFrame({"x": x, "y": y, "distance": self.matrix.ravel()})

    def save(self, path: str | PathLike[str]) -> None:
        """Write the solution to a file, with its model.

        Args:
            path: A file whose name ends in .npz.

        Raises:
            ValueError: If the name has another ending.

        Examples:
            >>> import pathlib, tempfile
            >>> import mico.tabular as mt
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "rooms.npz"
            >>> solution = mt.solve("mico", mt.make("mirrored-rooms"))
            >>> solution.save(path)
            >>> bool((mt.Solution.load(path).matrix == solution.matrix).all())
            True
        """
        write_fields(solution_fields(self), path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Solution:
        """Read a solution from a file of `save`, or from the archive that `mico metric` wrote.

        Args:
            path: The file.

        Returns:
            The solution.

        Raises:
            ValueError: If the file cannot be read or holds no solution; the message starts with the path.

        Examples:
            >>> import pathlib, tempfile
            >>> import mico.tabular as mt
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.npz"
            >>> mt.solve("bisimulation", mt.make("two-state")).save(path)
            >>> mt.Solution.load(path)  # doctest: +ELLIPSIS
            Solution('bisimulation', 2 states, discount 0.9, dense, error ...)
        """
        return cls(**read_fields(path))

    def plot(self, ax: Axes | None = None, *, colours: Colours | Normalize = "auto") -> Axes:
        """Draw all distances as a matrix of colours.

        Args:
            ax: Where to draw; by default the Axes of a new figure of pyplot.
            colours: "linear" in the distance, by "rank", or "auto": by rank where linear colours would show more than
                two fifths of the distances as one colour (`mico.tabular.plotting.is_crowded`). A norm that
                `mico.tabular.plotting.colour_norm` makes lets several pictures share one scale.

        Returns:
            The Axes.

        Raises:
            ValueError: If the matrix is too large to be made from factors.

        Examples:
            >>> import mico.tabular as mt
            >>> ax = mt.solve("mico", mt.make("coin-chain")).plot()
            >>> ax.get_title()
            'mico'
        """
        matrix = self.matrix
        ax = plotting.checked_axes(ax)
        columns = None if self.other is None else _labels(self.other)
        plotting.plot_matrix(matrix, ax, names=self.names, columns=columns, colours=colours)
        ax.set_title(self.metric)
        return ax

    def plot_from(self, x: int, ax: Axes | None = None, *, colours: Colours | Normalize = "auto") -> Axes:
        """Draw the distances from one state: as a map where the problem has one, else as bars or points.

        On a map a circle marks the state and a star each goal. Bars are for up to 30 states, points for more. Between
        two models, the map and the names are those of the other one.

        Args:
            x: The state.
            ax: Where to draw; by default the Axes of a new figure of pyplot.
            colours: Of a map, as in `plot`.

        Returns:
            The Axes.

        Raises:
            ValueError: If x is no state of the model.

        Examples:
            >>> import mico.tabular as mt
            >>> ax = mt.solve("mico", mt.make("four-rooms")).plot_from(62)
            >>> ax.get_title()
            'mico, from state 62'
        """
        check_whole("x", x, 0, self.num_states - 1)
        ax = plotting.checked_axes(ax)
        row, shown = self.row(x), self._columns if isinstance(self._columns, Problem) else None
        origin = x if self.other is None else None
        if shown is not None and shown.layout is not None:
            image, marks = shown.layout.paint(row), plotting.map_marks(shown.layout, origin)
            plotting.plot_map(image, ax, marks=marks, colours=colours)
        else:
            plotting.plot_row(row, ax, names=None if shown is None else shown.names, origin=origin)
        ax.set_title(f"{self.metric}, from state {x if self.names is None else self.names[x]}")
        return ax

    @property
    def _kind(self) -> Kind:
        """The name of the metric, which is one of the two that factors know."""
        return cast(Kind, self.metric)

    @property
    def _columns(self) -> Model:
        """The model whose states distances lead to."""
        return self.model if self.other is None else self.other

    def _value_of(self, model: Model, policy: Policy | None) -> Float[np.ndarray, " n"]:
        if self.compares == "actions" and not isinstance(model, Chain):
            return optimal_value(model)
        return as_chain(model, policy).value()

    def _check_one_model(self, what: str) -> None:
        if self.other is not None:
            raise ValueError(f"{what} must be asked of distances within one model, got {self!r}")


def _labels(model: Model) -> tuple[str, ...] | Int[np.ndarray, " n"]:
    """Names of the states of a model, or their numbers."""
    names = model.names if isinstance(model, Problem) else None
    return np.arange(model.num_states) if names is None else names
