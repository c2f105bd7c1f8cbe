"""MinAtar (Young and Tian, 2019): five Atari games as 10×10 binary planes, one from gymnax, with sticky actions."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from mico._suggestions import near
from mico.deep.envs.api import AbstractEnv
from mico.deep.envs.minatar import asterix, breakout, freeway, seaquest
from mico.deep.fields import check_choices, check_minimum, check_range, static_field, traced_field
from mico.deep.types import Spec, Timestep

Game = Literal["breakout", "asterix", "freeway", "seaquest", "space-invaders"]

ACTIONS = ("noop", "left", "up", "right", "down", "fire")
_FREEWAY_STEPS = 2_501  # the original counts from 2,500 down to −1


class Rules(NamedTuple):
    """What is fixed of a game: its planes, the actions that do something, and after how many steps gymnax cuts it."""

    planes: int
    minimal: tuple[str, ...]
    gymnax_limit: int


RULES = {
    "breakout": Rules(4, ("noop", "left", "right"), 1_000),
    "asterix": Rules(4, ("noop", "left", "up", "right", "down"), 1_000),
    "freeway": Rules(7, ("noop", "up", "down"), 2_500),
    "seaquest": Rules(10, ACTIONS, 1_000),
    "space-invaders": Rules(6, ("noop", "left", "right", "fire"), 1_000),
}
# Gymnax's arrays, written entity by entity, cost a GPU more than an agent's choice: its own is only the game left out.
_OURS = {"asterix": asterix, "breakout": breakout, "freeway": freeway, "seaquest": seaquest}


class State(NamedTuple):
    """The state of a game, and the action that it took last."""

    game: PyTree
    last_action: Int[Array, ""]


@final
class MinAtar(AbstractEnv):
    """A MinAtar game that repeats its last action with probability `sticky` instead of taking the new one.

    `max_steps` cuts episodes off by a time-out: after so many steps; where "gymnax" does, after 1,000 or, in Freeway,
    2,500; or never, as the "original" games, and then Freeway keeps its own end, a terminal after 2,501 steps.
    """

    preset = "minatar"

    game: Game = eqx.field(static=True)
    sticky: float = traced_field(
        0.1, "Probability of a sticky action: the last action is repeated in place of the chosen one."
    )
    actions: Literal["minimal", "all"] = static_field(
        "minimal", "Actions: those that have an effect in the game, or all six."
    )
    max_steps: int | Literal["gymnax", "original"] = static_field(
        "gymnax", "Steps after which an episode is truncated; `gymnax` is that package's limit, `original` is none."
    )

    def __check_init__(self) -> None:
        if self.game not in RULES:
            raise ValueError(f"game {self.game!r} is not in MinAtar: did you mean {near(self.game, RULES)}?")
        check_choices(self)
        check_range(self, sticky=(0.0, 1.0))
        if isinstance(self.max_steps, str) and self.max_steps not in ("gymnax", "original"):
            raise ValueError(f"max_steps must be a number, 'gymnax' or 'original', but is {self.max_steps!r}")
        if not isinstance(self.max_steps, str):
            check_minimum(self, max_steps=1)
        if self.game not in _OURS:
            self._gymnax()  # importing gymnax, which makes arrays, is not for the midst of a trace

    @property
    def name(self) -> str:
        return f"minatar/{self.game}"

    def settings(self) -> dict[str, Any]:
        return {"sticky": self.sticky, "actions": self.actions, "max_steps": self.max_steps}

    @property
    def spec(self) -> Spec:
        return Spec((10, 10, RULES[self.game].planes), "bool", len(self.action_names))

    @property
    def action_names(self) -> tuple[str, ...]:
        return RULES[self.game].minimal if self.actions == "minimal" else ACTIONS

    def reset(self, key: Key[Array, ""]) -> tuple[State, Bool[Array, "10 10 C"]]:
        with jax.enable_x64(False):
            frame, game = self._begin(key)
            # MinAtar keeps the last action across episodes; here an episode owes nothing to the one before it.
            return State(game, jnp.zeros((), jnp.int32)), frame

    def step(self, state: State, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[State, Timestep]:
        sticky_key, game_key, reset_key = jax.random.split(key, 3)
        repeats = jax.random.uniform(sticky_key, dtype=jnp.float32) < self.sticky
        action = jnp.where(repeats, state.last_action, action.astype(jnp.int32))
        with jax.enable_x64(False):
            next_frame, game, reward, terminal = self._move(state.game, action, game_key)
        terminal, truncated = self._ends(terminal, game.time)
        played = State(game, action), next_frame
        over = terminal | truncated
        after, frame = jax.tree.map(lambda new, old: jnp.where(over, new, old), self.reset(reset_key), played)
        return after, Timestep(reward, next_frame, terminal, truncated & ~terminal, frame)

    def _ends(self, terminal: Bool[Array, ""], time: Int[Array, ""]) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        never = jnp.zeros_like(terminal)
        if self.max_steps == "original":
            return (time >= _FREEWAY_STEPS if self.game == "freeway" else terminal), never
        return terminal, time >= (RULES[self.game].gymnax_limit if self.max_steps == "gymnax" else self.max_steps)

    def _begin(self, key: Key[Array, ""]) -> tuple[Bool[Array, "10 10 C"], PyTree]:
        if self.game in _OURS:
            ours = _OURS[self.game]
            game = ours.reset(key)
            return ours.frame(game), game
        rules = self._gymnax()
        frame, game = rules.reset_env(key, rules.default_params)
        return frame.astype(bool), _settled(game)

    def _move(
        self, game: PyTree, action: Int[Array, ""], key: Key[Array, ""]
    ) -> tuple[Bool[Array, "10 10 C"], PyTree, Float[Array, ""], Bool[Array, ""]]:
        """Frame, state, reward and terminal; to be traced without x64, under which gymnax mixes widths and fails."""
        if self.game in _OURS:
            ours = _OURS[self.game]
            game, reward, terminal = ours.step(game, *_moves(self.action_names, action), key)
            return ours.frame(game), game, reward, terminal
        rules = self._gymnax()
        frame, game, reward, terminal, _ = rules.step_env(key, game, action, rules.default_params)
        return frame.astype(bool), _settled(game), reward, terminal

    def _gymnax(self) -> Any:
        from gymnax.environments import minatar  # takes more than half a second

        with jax.enable_x64(False), jax.ensure_compile_time_eval():
            return minatar.MinSpaceInvaders(use_minimal_action_set=self.actions == "minimal")


def _moves(names: Sequence[str], action: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""], Bool[Array, ""]]:
    """How far an action goes to the right and down, −1, 0 or 1, and whether it fires."""
    does = lambda name: action == names.index(name) if name in names else jnp.zeros((), bool)  # noqa: E731
    toward = lambda more, less: does(more).astype(jnp.int32) - does(less)  # noqa: E731
    return toward("right", "left"), toward("down", "up"), does("fire")


def _settled(game: PyTree) -> PyTree:
    """Arrays of fixed types, where gymnax leaves numbers whose type depends on what they meet next."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf).astype(jnp.asarray(leaf).dtype), game)
