"""MinAtar (Young and Tian, 2019): five Atari games as 10×10 binary planes, one from gymnax, with sticky actions."""

from typing import Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from mico.deep.envs import asterix, breakout, freeway, seaquest
from mico.deep.envs.abstract import AbstractEnv, Outcome
from mico.deep.envs.names import near
from mico.deep.fields import check_choices, check_least, check_range, fixed, number
from mico.deep.types import Spec

Game = Literal["breakout", "asterix", "freeway", "seaquest", "space-invaders"]

_CLASSES = {
    "breakout": "MinBreakout",
    "asterix": "MinAsterix",
    "freeway": "MinFreeway",
    "seaquest": "MinSeaquest",
    "space-invaders": "MinSpaceInvaders",
}
_OURS = {"asterix": asterix, "breakout": breakout, "freeway": freeway, "seaquest": seaquest}  # from gymnax: the other
_ACTIONS = ("noop", "left", "up", "right", "down", "fire")
_FREEWAY_STEPS = 2_501  # the original counts from 2,500 down to −1


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

    game: Game = eqx.field(static=True)
    sticky: float = number(0.1, "how often the last action is repeated instead")
    actions: Literal["minimal", "all"] = fixed("minimal", "those that do something, or all six")
    max_steps: int | Literal["gymnax", "original"] = fixed("gymnax", "where episodes are cut off")

    def __check_init__(self) -> None:
        if self.game not in _CLASSES:
            raise ValueError(f"game {self.game!r} is not in MinAtar: did you mean {near(self.game, _CLASSES)}?")
        check_choices(self)
        check_range(self, sticky=(0.0, 1.0))
        if isinstance(self.max_steps, str) and self.max_steps not in ("gymnax", "original"):
            raise ValueError(f"max_steps must be a number, 'gymnax' or 'original', but is {self.max_steps!r}")
        if not isinstance(self.max_steps, str):
            check_least(self, max_steps=1)
        self._rules()  # importing gymnax, which makes arrays, is not for the midst of a trace

    @property
    def name(self) -> str:
        return f"minatar/{self.game}"

    def settings(self) -> dict[str, Any]:
        return {"sticky": self.sticky, "actions": self.actions, "max_steps": self.max_steps}

    @property
    def spec(self) -> Spec:
        rules = self._rules()
        return Spec(tuple(rules.obs_shape), "bool", rules.num_actions)

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(_ACTIONS[index] for index in self._rules().action_set.tolist())

    def reset(self, key: Key[Array, ""]) -> tuple[State, Bool[Array, "10 10 C"]]:
        with jax.enable_x64(False):
            frame, game = _reset(self._rules(), _OURS.get(self.game), key)
            # MinAtar keeps the last action across episodes; here an episode owes nothing to the one before it.
            return State(game, jnp.zeros((), jnp.int32)), frame

    def step(self, state: State, action: Int[Array, ""], key: Key[Array, ""]) -> Outcome:
        sticky_key, game_key, reset_key = jax.random.split(key, 3)
        repeats = jax.random.uniform(sticky_key, dtype=jnp.float32) < self.sticky
        action = jnp.where(repeats, state.last_action, action.astype(jnp.int32))
        advance = _STEPS.get(self.game, _step)
        with jax.enable_x64(False):
            next_frame, game, reward, terminal = advance(self._rules(), game_key, state.game, action)
        terminal, timeout = self._ends(terminal, game.time)
        played = State(game, action), next_frame
        over = terminal | timeout
        after, frame = jax.tree.map(lambda new, old: jnp.where(over, new, old), self.reset(reset_key), played)
        return Outcome(after, frame, reward, next_frame, terminal, timeout & ~terminal)

    def _ends(self, terminal: Bool[Array, ""], time: Int[Array, ""]) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        never = jnp.zeros_like(terminal)
        if self.max_steps == "original":
            return (time >= _FREEWAY_STEPS if self.game == "freeway" else terminal), never
        gymnax_limit = self._rules().default_params.max_steps_in_episode
        return terminal, time >= (gymnax_limit if self.max_steps == "gymnax" else self.max_steps)

    def _rules(self) -> Any:
        from gymnax.environments import minatar  # takes more than a second

        with jax.enable_x64(False):
            return getattr(minatar, _CLASSES[self.game])(use_minimal_action_set=self.actions == "minimal")


def _reset(rules: Any, ours: Any, key: Key[Array, ""]) -> tuple[Bool[Array, "10 10 C"], PyTree]:
    if ours:
        game = ours.reset(key)
        return ours.frame(game), game
    frame, game = rules.reset_env(key, rules.default_params)
    return frame.astype(bool), _settled(game)


def _step(
    rules: Any, key: Key[Array, ""], game: PyTree, action: Int[Array, ""]
) -> tuple[Bool[Array, "10 10 C"], PyTree, Float[Array, ""], Bool[Array, ""]]:
    """Frame, state, reward and terminal; to be traced without x64, under which gymnax mixes widths and fails."""
    frame, game, reward, terminal, _ = rules.step_env(key, game, action, rules.default_params)
    return frame.astype(bool), _settled(game), reward, terminal


def _breakout_step(
    rules: Any, key: Key[Array, ""], game: breakout.Game, action: Int[Array, ""]
) -> tuple[Bool[Array, "10 10 C"], PyTree, Float[Array, ""], Bool[Array, ""]]:
    """The same for Breakout, of which gymnax's arrays cost a GPU twice as much as an agent's choice."""
    del key
    left, right = 1, 2 if rules.num_actions == 3 else 3
    game, reward, terminal = breakout.step(game, _toward(action, right, left))
    return breakout.frame(game), game, reward, terminal


def _asterix_step(
    rules: Any, key: Key[Array, ""], game: asterix.Game, action: Int[Array, ""]
) -> tuple[Bool[Array, "10 10 C"], PyTree, Float[Array, ""], Bool[Array, ""]]:
    """The same for Asterix, in which gymnax writes entity by entity, and erases one where it finds no free row."""
    del rules
    left, up, right, down = 1, 2, 3, 4  # in either set of actions
    game, reward, terminal = asterix.step(game, _toward(action, right, left), _toward(action, down, up), key)
    return asterix.frame(game), game, reward, terminal


def _freeway_step(
    rules: Any, key: Key[Array, ""], game: freeway.Game, action: Int[Array, ""]
) -> tuple[Bool[Array, "10 10 C"], PyTree, Float[Array, ""], Bool[Array, ""]]:
    """The same for Freeway, in which gymnax writes car by car."""
    up, down = (1, 2) if rules.num_actions == 3 else (2, 4)
    game, reward = freeway.step(game, _toward(action, down, up), key)
    return freeway.frame(game), game, reward, jnp.zeros((), bool)


def _seaquest_step(
    rules: Any, key: Key[Array, ""], game: seaquest.Game, action: Int[Array, ""]
) -> tuple[Bool[Array, "10 10 C"], PyTree, Float[Array, ""], Bool[Array, ""]]:
    """The same for Seaquest, in which gymnax writes five lists of a hundred places again and again."""
    del rules
    left, up, right, down, fire = 1, 2, 3, 4, 5  # in either set of actions
    moves = _toward(action, right, left), _toward(action, down, up)
    game, reward, terminal = seaquest.step(game, *moves, action == fire, key)
    return seaquest.frame(game), game, reward, terminal


_STEPS = {"asterix": _asterix_step, "breakout": _breakout_step, "freeway": _freeway_step, "seaquest": _seaquest_step}


def _toward(action: Int[Array, ""], more: int, less: int) -> Int[Array, ""]:
    return (action == more).astype(jnp.int32) - (action == less).astype(jnp.int32)


def _settled(game: PyTree) -> PyTree:
    """Arrays of fixed types, where gymnax leaves numbers whose type depends on what they meet next."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf).astype(jnp.asarray(leaf).dtype), game)
