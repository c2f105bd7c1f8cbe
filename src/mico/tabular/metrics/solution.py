"""A solved metric: the distances between all states, what they are of, and how exact they are."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
from jaxtyping import Float

from mico.tabular import plotting
from mico.tabular._validation import check_whole, checked_states
from mico.tabular.mdp import Reward
from mico.tabular.metrics.factored import FactoredMICo, Neighbours
from mico.tabular.plotting import Colours
from mico.tabular.policies import Policy
from mico.tabular.problems.problem import Layout, Model, Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize

Method = Literal["auto", "dense", "factored"]
LARGEST_MATRIX = 10_000  # states whose distances, 0.8 GB, are made a matrix from factors


@final
class Solution:
    """A metric between the states of a model, each distance within a certified error of the exact one.

    `solve` makes it. Its methods are the same whether it holds a matrix (`method` "dense") or factors from which
    distances are computed when they are asked for (`method` "factored").

    Attributes:
        metric: Name of the metric, a key of `METRICS`.
        model: The Problem, MDP or Chain that was solved.
        policy: The policy [S, A] that the metric is of; None for a metric of the MDP alone, or of a Chain.
        reward: Whether mean rewards were compared, or independent draws ("sampled").
        tolerance: The error that was asked for.
        error: Certified bound on the error of every distance, rounding included.
        iterations: Number of iterations of the solver; what one of them is depends on the metric.
        method: "dense" or "factored".

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
        distances: Float[np.ndarray, "S S"] | FactoredMICo,
        *,
        policy: Policy | None,
        reward: Reward,
        tolerance: float,
        error: float,
        iterations: int,
    ):
        self.metric, self.model, self.policy, self.reward = metric, model, policy, reward
        self.tolerance, self.error, self.iterations = float(tolerance), float(error), int(iterations)
        self._distances = distances
        if isinstance(distances, np.ndarray):
            distances.setflags(write=False)

    @property
    def method(self) -> Literal["dense", "factored"]:
        """What the solution holds: a matrix, or factors."""
        return "dense" if isinstance(self._distances, np.ndarray) else "factored"

    @property
    def num_states(self) -> int:
        """Number of states."""
        return self.model.num_states

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the states, where the model is a Problem that has them."""
        return self.model.names if isinstance(self.model, Problem) else None

    @property
    def layout(self) -> Layout | None:
        """The map of the states, where the model is a Problem that has one."""
        return self.model.layout if isinstance(self.model, Problem) else None

    def __repr__(self) -> str:
        size = "1 state" if self.num_states == 1 else f"{self.num_states} states"
        what = f"{self.metric!r}, {size}, discount {self.model.discount:g}"
        return f"Solution({what}, {self.method}, error {self.error:.2g})"

    @cached_property
    def matrix(self) -> Float[np.ndarray, "S S"]:
        """The distances of all pairs of states, an array [S, S] that cannot be written to.

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

    def row(self, x: Any) -> Float[np.ndarray, "... S"]:
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
        if isinstance(self._distances, FactoredMICo):
            return self._distances.rows(x, self._kind)
        return self._distances[x].copy()

    def pairs(self, x: Any, y: Any) -> Any:
        """The distances of pairs of states, x[i] from y[i].

        Args:
            x: A state, or an array of states.
            y: A state, or an array of states; the two are broadcast together.

        Returns:
            An array of their common shape; a number for two states.

        Raises:
            ValueError: If x or y holds no states of the model.

        Examples:
            >>> import mico.tabular as mt
            >>> mt.solve("mico", mt.make("two-state")).pairs([0, 1], [1, 1]).round(3)
            array([1.818, 0.   ])
        """
        x, y = checked_states("x", x, self.num_states), checked_states("y", y, self.num_states)
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            raise ValueError(
                f"x and y must have shapes that broadcast, got {list(x.shape)} and {list(y.shape)}"
            ) from None
        if isinstance(self._distances, FactoredMICo):
            return self._distances.pairs(x, y, self._kind)[()]
        return self._distances[x, y]

    def neighbours(self, x: int, k: int) -> Neighbours:
        """The k states nearest to x, without x itself.

        Args:
            x: A state.
            k: How many; at least 1, and fewer than there are states.

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
        check_whole("k", k, 1, self.num_states - 1)
        row = self.row(x)
        others = np.delete(np.arange(self.num_states), x)
        near = others[np.argsort(row[others], kind="stable")[:k]]
        return Neighbours(near, row[near])

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
        ax = plotting.new_axes() if ax is None else ax
        plotting.plot_matrix(matrix, ax, names=self.names, colours=colours)
        ax.set_title(self.metric)
        return ax

    def plot_from(self, x: int, ax: Axes | None = None, *, colours: Colours | Normalize = "auto") -> Axes:
        """Draw the distances from one state: as a map where the problem has one, else as bars or points.

        On a map a circle marks the state and a star each goal. Bars are for up to 30 states, points for more.

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
        ax = plotting.new_axes() if ax is None else ax
        row = self.row(x)
        if self.layout is not None:
            image, marks = self.layout.paint(row), plotting.map_marks(self.layout, x)
            plotting.plot_map(image, ax, marks=marks, colours=colours)
        else:
            plotting.plot_row(row, ax, names=self.names, origin=x)
        ax.set_title(f"{self.metric}, from state {x if self.names is None else self.names[x]}")
        return ax

    @property
    def _kind(self) -> Any:
        """The name of the metric, which is one of the two that factors know."""
        return self.metric
