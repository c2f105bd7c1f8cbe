"""A partition of the states into classes, maps both ways, and the MDP or chain on the classes."""

from dataclasses import dataclass
from typing import Any, final, overload

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int, Shaped

from mico.tabular._rounding import Rounding, longest_row, mean_rounding, normalising
from mico.tabular._validation import Matrix, check_kind, numbers
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP
from mico.tabular.outcomes import Outcomes, RewardLaw
from mico.tabular.problems.problem import Model, Problem, as_mdp


@final
@dataclass(frozen=True, eq=False)
class Partition:
    """`block[x]` is the class of state x; classes are numbered by their first state, so equal partitions look equal."""

    block: Int[np.ndarray, " S"]

    def __post_init__(self):
        numbered = _numbered(self.block)
        wrong = np.flatnonzero(numbered != self.block)
        if wrong.size:
            x = wrong[0]
            raise ValueError(f"block[{x}] = {self.block[x]}, but by first appearance that class is {numbered[x]}")
        numbered.setflags(write=False)
        object.__setattr__(self, "block", numbered)

    @classmethod
    def from_labels(cls, labels: Any) -> "Partition":
        """States with one label, any integer, share a class."""
        return cls(_numbered(labels))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and np.array_equal(self.block, other.block)

    def __hash__(self) -> int:
        return hash(self.block.tobytes())

    @property
    def num_states(self) -> int:
        return self.block.size

    @property
    def num_classes(self) -> int:
        return int(self.block.max()) + 1

    @property
    def sizes(self) -> Int[np.ndarray, " C"]:
        return np.bincount(self.block)

    @property
    def membership(self) -> sp.csr_array:
        """[S, C]: 1 where the state belongs to the class."""
        entries = np.ones(self.num_states), (np.arange(self.num_states), self.block)
        return sp.csr_array(entries, shape=(self.num_states, self.num_classes))

    @property
    def averages(self) -> sp.csr_array:
        """[C, S]: the uniform distribution on each class."""
        return sp.csr_array(sp.diags_array(1.0 / self.sizes) @ self.membership.T)

    def members(self, number: int) -> Int[np.ndarray, " m"]:
        """The states of one class, ascending."""
        if not 0 <= number < self.num_classes:
            raise ValueError(f"number = {number} is not a class: they are 0..{self.num_classes - 1}")
        return np.flatnonzero(self.block == number)

    def lift(self, values: Any) -> Shaped[np.ndarray, "S ..."]:
        """Give each state what its class has: values [C], a policy [C, A]."""
        rows = _rows(np.asarray(values), self.num_classes, "classes")
        return rows[self.block]

    def lower(self, values: Any) -> Float[np.ndarray, "C ..."]:
        """Give each class the mean over its states: of values [S], a policy [S, A]."""
        rows = _rows(numbers("values", values), self.num_states, "states")
        flat = self.averages @ rows.reshape(self.num_states, -1)
        return flat.reshape(self.num_classes, *rows.shape[1:])


def _rows(values: Shaped[np.ndarray, "..."], length: int, what: str) -> Shaped[np.ndarray, "..."]:
    if values.ndim == 0 or len(values) != length:
        raise ValueError(f"values has shape {list(values.shape)}, but there are {length} {what}")
    return values


def _numbered(labels: Any) -> Int[np.ndarray, " S"]:
    """Number classes 0, 1, … in order of first appearance."""
    given = np.asarray(labels)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise ValueError(f"block must be a vector of integers, one a state, not {given.dtype} {list(given.shape)}")
    label, low = given, int(given.min())
    if int(given.max()) - low < 2 * given.size:
        label = (given - given.min() if given.dtype.kind == "u" else given.astype(np.int64) - low).astype(np.int64)
    else:  # numbers far apart would make too long a table
        label = np.unique(given, return_inverse=True)[1]
    first = np.full(int(label.max()) + 1, given.size)
    first[label[::-1]] = np.arange(given.size)[::-1]  # of states with one label the first is written last
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(first.size)
    return number[label]


@overload
def quotient(model: MDP | Problem, partition: Partition) -> MDP: ...
@overload
def quotient(model: Chain, partition: Partition) -> Chain: ...
def quotient(model: Model, partition: Partition) -> MDP | Chain:
    r"""The model on classes, $\bar r^a_c$ and $\bar P^a_c(c')$ the means over $x \in c$ of $r^a_x$ and $P^a_x(c')$.

    Sparse stays sparse. A chain's law of the reward is averaged as well, and so are an MDP's outcomes, where rewards
    were given by outcome. The `rounding` is that of these means.
    """
    model = model if isinstance(model, Chain) else as_mdp(model, "model")
    check_kind("partition", partition, Partition, "a Partition")
    _check_states(model, partition)
    return _on_classes(model, partition, model.rounding)


def lump(model: MDP | Chain, partition: Partition) -> MDP | Chain:
    """The `quotient`, its `rounding` also of how far each state is from the mean of its class.

    So what is certified of a metric of the quotient that vanishes inside classes is certified of the model's states.
    """
    _check_states(model, partition)
    kernels = [model.transition] if isinstance(model, Chain) else model.kernels
    rewards = float(np.abs(model.relative - partition.lift(partition.lower(model.relative))).max())
    rows = 0.0
    for kernel in kernels:
        into = kernel @ partition.membership
        rows = max(rows, float(abs(into - (partition.averages @ into)[partition.block]).sum(axis=1).max()))
    # What was measured is rounded as the means are; their rounding counts a second time for it.
    return _on_classes(model, partition, _rounding(model, partition, model.rounding).plus(rewards, rows))


def _check_states(model: MDP | Chain, partition: Partition) -> None:
    if model.num_states != partition.num_states:
        raise ValueError(f"partition has {partition.num_states} states, but the model has {model.num_states}")


def _on_classes(model: MDP | Chain, partition: Partition, rounding: Rounding) -> MDP | Chain:
    reward, rounding = partition.lower(model.reward), _rounding(model, partition, rounding)
    if isinstance(model, Chain):
        law = None if model.law is None else RewardLaw(model.law.levels, partition.averages @ model.law.weights)
        return Chain(
            _merged(model.transition, partition),
            reward,
            model.discount,
            law=law,
            relative=partition.lower(model.relative),
            middle=model.middle,
            rounding=rounding,
        )
    kernels: Any = [_merged(kernel, partition) for kernel in model.kernels]
    kernels = kernels if isinstance(model.transition, tuple) else np.stack(kernels, axis=1)
    if model.has_outcome_rewards:
        return MDP(kernels, _merged_outcomes(model.outcomes(), partition), model.discount, rounding=rounding)
    relative = partition.lower(model.relative)
    return MDP(kernels, reward, model.discount, relative=relative, middle=model.middle, rounding=rounding)


def _rounding(model: MDP | Chain, partition: Partition, rounding: Rounding) -> Rounding:
    """Rounding of means over classes, of at most m states with n transitions each: see `mean_rounding`."""
    most = int(partition.sizes.max())
    if most == 1:
        return rounding
    kernels = [model.transition] if isinstance(model, Chain) else model.kernels
    rewards = mean_rounding(most, float(np.abs(model.relative).max()))
    if isinstance(model, Chain) and model.law is not None:
        rewards = max(rewards, mean_rounding(most, float(np.ptp(model.law.levels))))
    return rounding.plus(rewards, normalising(most + max(map(longest_row, kernels))))


def _merged(kernel: Matrix, partition: Partition) -> Matrix:
    return partition.averages @ (kernel @ partition.membership)


def _merged_outcomes(outcomes: Outcomes, partition: Partition) -> Outcomes:
    """What can happen to a state that is drawn from its class."""
    own = partition.block[outcomes.state]
    return Outcomes(
        own,
        outcomes.action,
        partition.block[outcomes.next_state],
        outcomes.probability / partition.sizes[own],
        outcomes.reward,
    ).sorted()
