"""MDPs of any size with what a network sees of their states; every reward is of the state, and of a few levels.

So |r_x − r_y| is what samples show, exact distances need few Krylov spaces, and policy and action do not matter to it.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from mico.tabular import MDP, make
from mico.tabular.problems.breakout import Breakout

Kind = Literal["grid", "garnet", "breakout"]

_TILE = 5  # cells to a side of a square of equal reward
_LEVELS = 3
_REACH = 2  # cells that are seen in each direction
_FEATURES = 32
_HEIGHT, _BRICK_ROWS = 5, 1


class World(NamedTuple):
    """An MDP and one observation a state."""

    mdp: MDP
    observations: Shaped[np.ndarray, "S D"]


def world(kind: Kind, size: int, *, discount: float, seed: int) -> World:
    """A grid of `size` cells to a side, a Garnet of `size` states, or Breakout on a board of `size` columns."""
    if kind == "grid":
        return _grid(size, discount, seed)
    if kind == "garnet":
        return _garnet(size, discount, seed)
    game = Breakout(_HEIGHT, size, _BRICK_ROWS)
    return World(game.mdp(discount), game.screens().reshape(len(game.positions().row), -1))


def has_more_states(kind: Kind, size: int, count: int) -> bool:
    """Whether such a world has more than so many states, without making it."""
    if kind == "breakout":
        return Breakout(_HEIGHT, size, _BRICK_ROWS).reachable(count).size > count
    return (size**2 if kind == "grid" else size) > count


def _grid(side: int, discount: float, seed: int) -> World:
    """An open grid in tiles of 5 × 5 cells, each of which pays 0, ½ or 1, drawn evenly, in all of its cells.

    Seen are the coordinates, and of the 5 × 5 cells around what each pays and which of them are off the map.
    """
    across = -(-side // _TILE)
    tiles = np.random.default_rng(seed).integers(_LEVELS, size=(across, across)) / (_LEVELS - 1)
    if np.ptp(tiles) == 0:
        raise ValueError(
            f"seed {seed} makes all {tiles.size} tiles of a grid of side {side} have the same reward: take another"
        )
    pay = np.kron(tiles, np.ones((_TILE, _TILE)))[:side, :side]
    open_grid = make("open-grid", height=side, width=side, discount=discount, dynamics="continuing").mdp
    mdp = MDP(open_grid.transition, np.repeat(pay.reshape(-1, 1), open_grid.num_actions, axis=1), discount)
    ahead = np.indices((side, side)).reshape(2, -1).T / max(1, side - 1)
    seen = [_windows(pay, 0.0), _windows(np.zeros_like(pay), 1.0)]
    return World(mdp, np.concatenate([ahead, *seen], axis=1).astype(np.float32))


def _windows(plane: Float[np.ndarray, "H W"], outside: float) -> Float[np.ndarray, "S C"]:
    """The window around each cell, row by row."""
    width = 2 * _REACH + 1
    padded = np.pad(plane, _REACH, constant_values=outside)
    return np.lib.stride_tricks.sliding_window_view(padded, (width, width)).reshape(plane.size, -1)


def _garnet(num_states: int, discount: float, seed: int) -> World:
    """A sparse Garnet; a state looks like 32 normal numbers that say nothing of it but which it is."""
    of_garnet, of_features = np.random.SeedSequence(seed).generate_state(2).tolist()
    mdp = make("sparse-garnet", seed=of_garnet, num_states=num_states, levels=_LEVELS, discount=discount).mdp
    features = np.random.default_rng(of_features).normal(size=(num_states, _FEATURES))
    return World(mdp, features.astype(np.float32))
