"""Finite MDPs as environments: the only bridge from agents to the exact metrics of `mico.tabular`."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from mico.deep.envs.api import AbstractEnv
from mico.deep.fields import check_choices, check_minimum
from mico.deep.types import Spec, Timestep
from mico.tabular import MDP, Outcomes, Problem, load, make

Start = Literal["uniform"] | int


class State(NamedTuple):
    """Where the agent is, and how many steps of its episode it has taken."""

    position: Int[Array, ""]
    time: Int[Array, ""]


class Table(NamedTuple):
    """All that can happen: outcome k of a state and an action is the first whose `level` exceeds a uniform number."""

    level: Float[Array, "S A K"]
    next_state: Int[Array, "S A K"]
    reward: Float[Array, "S A K"]
    ends: Bool[Array, " S"]
    starts: Int[Array, " N"]


class Map(NamedTuple):
    """The state of each cell, −1 for walls, and where the goals are."""

    cells: Int[Array, "H W"]
    goals: Bool[Array, "H W"]


@final
class Tabular(AbstractEnv):
    """A finite MDP: a problem of `mico.tabular` by name, with options of that problem, from a file, or as an object.

    Entering an absorbing state without rewards is a terminal; after `max_steps` there is a time-out. Episodes start
    uniformly in the states that are not absorbing, or always in the state `start`. A "one-hot" frame marks the state;
    an "image" has planes for the agent, the walls and the goals. A file is known by its `path` and its `digest`.
    """

    preset = "table"

    source: str | Problem = eqx.field(static=True)
    options: tuple[tuple[str, Any], ...] = eqx.field(static=True)
    observation: Literal["one-hot", "image"] = eqx.field(
        static=True, metadata={"help": "What the agent sees: a one-hot vector of the state, or an image of the map."}
    )
    max_steps: int = eqx.field(static=True, metadata={"help": "Steps after which an episode is truncated."})
    start: Start = eqx.field(
        static=True,
        metadata={"help": "State in which episodes start; `uniform` is a random one of those that are not absorbing."},
    )
    shown: Spec = eqx.field(static=True)
    digest: str | None = eqx.field(static=True)
    table: Table  # a leaf, so that programs do not hold it as a constant
    map: Map | None

    def __init__(
        self,
        source: str | Problem | MDP,
        *,
        observation: Literal["one-hot", "image"] = "one-hot",
        max_steps: int = 100,
        start: Start = "uniform",
        **options: Any,
    ):
        self.source = Problem(source) if isinstance(source, MDP) else source
        if isinstance(source, str) and is_problem_file(source):
            self.source, options = Path(source).name, {"path": source, **options}
        told = options.pop("digest", None) if "path" in options else None
        if "path" in options:
            options["path"] = _place(options["path"], told)
        self.options = tuple(sorted(options.items()))
        self.observation, self.max_steps, self.start = observation, max_steps, start
        found = self.problem
        self.digest = _digest(Path(options["path"])) if "path" in options else None
        if told not in (None, self.digest):
            raise ValueError(f"{options['path']} is not as it was when the run was made")
        absorbing = _absorbing(found.mdp)
        self.table = _table(found.mdp, absorbing, _starts(start, absorbing))
        self.map = _map(found, absorbing) if observation == "image" else None
        shape = (found.mdp.num_states,) if self.map is None else (*self.map.cells.shape, 3)
        self.shown = Spec(shape, "bool", found.mdp.num_actions)

    def __check_init__(self) -> None:
        check_choices(self)
        check_minimum(self, max_steps=1)

    @property
    def name(self) -> str:
        return f"mdp/{self.source if isinstance(self.source, str) else 'unnamed'}"

    @property
    def spec(self) -> Spec:
        return self.shown

    @property
    def action_names(self) -> tuple[str, ...]:
        return super().action_names if self.problem.actions is None else self.problem.actions

    def settings(self) -> dict[str, Any]:
        if not isinstance(self.source, str):
            raise ValueError("a problem without a name cannot be described: give it by name")
        own = {"observation": self.observation, "max_steps": self.max_steps, "start": self.start}
        return own | dict(self.options) | ({} if self.digest is None else {"digest": self.digest})

    @property
    def problem(self) -> Problem:
        """What the exact metrics work on."""
        if isinstance(self.source, Problem):
            if self.options:
                raise ValueError(f"options are for problems given by name, but {self.options[0][0]} is given")
            return self.source
        options: dict[str, Any] = {name: Path(value) if name == "path" else value for name, value in self.options}
        if is_problem_file(self.source):
            path = options.pop("path")
            if options:
                raise ValueError(f"a problem from a file has no options, but {min(options)} is given")
            return load(path)
        return make(self.source, **options)

    def reset(self, key: Key[Array, ""]) -> tuple[State, Bool[Array, "..."]]:
        starts = self.table.starts
        position = starts[jax.random.randint(key, (), 0, starts.size, dtype=jnp.int32)]
        return State(position, jnp.zeros((), jnp.int32)), self._frame(position)

    def step(self, state: State, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[State, Timestep]:
        chance_key, reset_key = jax.random.split(key)
        here = state.position, action
        outcome = (jax.random.uniform(chance_key, dtype=jnp.float32) >= self.table.level[here]).sum(dtype=jnp.int32)
        position, reward = self.table.next_state[here][outcome], self.table.reward[here][outcome]
        moved = State(position, state.time + 1)
        terminal = self.table.ends[position]
        truncated = (moved.time >= self.max_steps) & ~terminal
        next_frame = self._frame(position)
        after, frame = jax.tree.map(
            lambda new, old: jnp.where(terminal | truncated, new, old), self.reset(reset_key), (moved, next_frame)
        )
        return after, Timestep(reward, next_frame, terminal, truncated, frame)

    def _frame(self, position: Int[Array, ""]) -> Bool[Array, "..."]:
        if self.map is None:
            return jnp.arange(self.spec.shape[0], dtype=jnp.int32) == position
        return jnp.stack([self.map.cells == position, self.map.cells < 0, self.map.goals], axis=-1)


def is_problem_file(name: str) -> bool:
    """Whether a name is that of a file which `mico.tabular.load` reads, by its ending."""
    return name.lower().endswith((".npz", ".json"))


def _place(path: Any, told: str | None) -> str:
    """Where a file is, from whatever folder it is read again.

    Where it is no longer, but its digest is told: the end of its path below the working folder, if the same is there.
    """
    if not isinstance(path, str | Path):
        raise ValueError(f"path must name a file, but is {path!r}")
    whole = Path(os.path.abspath(path))
    if told is not None and not whole.exists():
        ends = [Path(*whole.parts[start:]) for start in range(1, len(whole.parts))]
        whole = next((end.absolute() for end in ends if end.is_file() and _digest(end) == told), whole)
    return str(whole)


def _digest(file: Path) -> str | None:
    """Of what is in a file; a pipe can be read but once."""
    return sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def _absorbing(mdp: MDP) -> Bool[np.ndarray, " S"]:
    """The states that hold the agent for ever and for nothing."""
    outcomes = _possible(mdp)
    leaves = (outcomes.next_state != outcomes.state) | (outcomes.reward != 0)
    return np.bincount(outcomes.state, weights=leaves, minlength=mdp.num_states) == 0


def _starts(start: Start, absorbing: Bool[np.ndarray, " S"]) -> Int[np.ndarray, " N"]:
    free = np.flatnonzero(~absorbing)
    if free.size == 0:
        raise ValueError("the problem has no state to start in: all are absorbing")
    if start == "uniform":
        return free
    if start not in free:
        raise ValueError(f"start must be 'uniform' or a state that is not absorbing, but is {start!r}")
    return np.array([start])


def _table(mdp: MDP, absorbing: Bool[np.ndarray, " S"], starts: Int[np.ndarray, " N"]) -> Table:
    outcomes = _possible(mdp)
    row = outcomes.state * mdp.num_actions + outcomes.action
    count = np.bincount(row, minlength=mdp.num_states * mdp.num_actions)
    column = np.arange(row.size) - (count.cumsum() - count)[row]

    def spread(values: Shaped[np.ndarray, " outcomes"], dtype: Any) -> Shaped[np.ndarray, "S A K"]:
        padded = np.zeros((count.size, count.max()), dtype)
        padded[row, column] = values
        return padded.reshape(*mdp.shape, -1)

    level = spread(outcomes.probability, np.float64).cumsum(axis=-1)
    level[np.arange(level.shape[-1]) >= count.reshape(*mdp.shape, 1) - 1] = 1.0  # no rounding leads past the last
    return Table(
        level=jnp.asarray(level, jnp.float32),
        next_state=jnp.asarray(spread(outcomes.next_state, np.int32)),
        reward=jnp.asarray(spread(outcomes.reward, np.float32)),
        ends=jnp.asarray(absorbing),
        starts=jnp.asarray(starts, jnp.int32),
    )


def _map(found: Problem, absorbing: Bool[np.ndarray, " S"]) -> Map:
    if found.layout is None:
        raise ValueError("observation 'image' needs a problem with a map, but this one has none")
    hidden = np.setdiff1d(np.flatnonzero(~absorbing), found.layout.cells)
    if hidden.size:
        raise ValueError(f"observation 'image' needs a cell for each state, but state {hidden[0]} has none")
    goals = np.isin(found.layout.cells, found.layout.goals)
    return Map(jnp.asarray(found.layout.cells, jnp.int32), jnp.asarray(goals))


def _possible(mdp: MDP) -> Outcomes:
    outcomes = mdp.outcomes()
    return Outcomes(*(column[outcomes.probability > 0] for column in outcomes))
