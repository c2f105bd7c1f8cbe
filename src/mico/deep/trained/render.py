"""Frames as pictures to look at: planes in colours that all can tell apart, bytes as they are, states on their map."""

import math
from contextlib import closing

import numpy as np
from jaxtyping import Bool, Int, Shaped, UInt8
from PIL import Image

from mico.deep.envs import AbstractEnv, AbstractHostEnv, Episodes, Gym, Tabular
from mico.tabular.problems import Layout, Problem

_GROUND = (22, 22, 29)
_SKY, _ORANGE, _GREY, _YELLOW = (86, 180, 233), (230, 159, 0), (127, 127, 127), (240, 228, 66)
_GREEN, _RED, _PINK, _BLUE = (0, 158, 115), (213, 94, 0), (204, 121, 167), (0, 114, 178)  # Okabe and Ito, with grey
_PLANES = (_SKY, _ORANGE, _GREY, _YELLOW, _GREEN, _RED, _PINK, _BLUE, (255, 255, 255), (178, 223, 138))
_MAP = (_SKY, _GREY, _YELLOW)  # the agent, the walls, the goals
_STATES = (_SKY, _YELLOW, (90, 90, 100))  # the agent, absorbing states, the others: where there is no map
_GAPS_UP_TO = 80  # states in a row, beyond which there is no room for gaps between them


def pictures(env: AbstractEnv | AbstractHostEnv, frames: Shaped[np.ndarray, "T ..."]) -> UInt8[np.ndarray, "T H W 3"]:
    """Draw an image for each frame; of a pixel that several planes fill, the first of them is seen."""
    drawn = env.draw(frames)
    if drawn is not None:
        return drawn
    if isinstance(env, Tabular) and env.problem.layout is None:
        return _painted(_in_rows(env, states(env, frames)), _STATES)
    if isinstance(env, Tabular):
        return _painted(_on_map(env, frames), _MAP)
    if env.spec.dtype == "bool" and len(env.spec.shape) == 1:
        return _painted(frames[:, None, :, None], _PLANES)
    _check_images(env)
    if env.spec.dtype == "bool":
        return _painted(frames, _PLANES)
    grey = frames[..., None] if frames.ndim == 3 else frames
    return np.broadcast_to(grey, (*grey.shape[:3], 3))


def check_pictures(env: AbstractEnv | AbstractHostEnv) -> None:
    """Refuse an environment that cannot be looked at.

    Raises:
        ModuleNotFoundError: If its images need a package that is not installed.
        ValueError: If it has no images.
    """
    if env.is_rendered:
        drawn = env.make_rendered()
        with closing(Episodes(drawn, np.zeros(1, dtype=int))) as envs:
            envs.start()
            drawn.render()
    else:
        pictures(env, np.zeros((1, *env.spec.shape), env.spec.dtype))


def shrunk(image: UInt8[np.ndarray, "H W 3"], side: int) -> UInt8[np.ndarray, "I J 3"]:
    """An image whose longer side has at most so many pixels."""
    height, width, _ = image.shape
    scale = side / max(height, width)
    if scale >= 1:
        return image
    size = max(round(width * scale), 1), max(round(height * scale), 1)
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BOX))


def states(env: Tabular, frames: Shaped[np.ndarray, "T ..."]) -> Int[np.ndarray, " T"]:
    """The state that each frame of an MDP shows."""
    if env.map is None:
        return frames.argmax(axis=1)
    return (frames[..., 0] * np.asarray(env.map.cells)).sum(axis=(1, 2))


def state_names(env: AbstractEnv | AbstractHostEnv, frames: Shaped[np.ndarray, "T ..."]) -> tuple[str, ...]:
    """The name or the number of the state in each frame of an MDP; none for other environments."""
    if not isinstance(env, Tabular):
        return ()
    names = env.problem.names
    return tuple(f"state {state}" if names is None else names[state] for state in states(env, frames).tolist())


def _check_images(env: AbstractEnv | AbstractHostEnv) -> None:
    shape, dtype = env.spec.shape, env.spec.dtype
    planes = len(shape) == 3 and (dtype == "bool" or shape[2] in (1, 3))
    if dtype == "float32" or not (planes or len(shape) == 2):
        has_none = "it has no render mode rgb_array, and " if isinstance(env, Gym) else ""
        frames = f"its frames are {dtype} of shape {list(shape)}, not images"
        raise ValueError(f"{env.name} cannot be watched: {has_none}{frames}")


def _painted(
    planes: Bool[np.ndarray, "T H W C"], colours: tuple[tuple[int, int, int], ...]
) -> UInt8[np.ndarray, "T H W 3"]:
    found = np.full((*planes.shape[:3], 3), _GROUND, dtype=np.uint8)
    for plane in reversed(range(planes.shape[3])):
        found[planes[..., plane]] = colours[plane % len(colours)]
    return found


def _on_map(env: Tabular, frames: Bool[np.ndarray, "T ..."]) -> Bool[np.ndarray, "T H W 3"]:
    """The agent, the walls and the goals; a state that has no cell is nowhere."""
    if env.observation == "image":
        return frames
    layout = _layout(env.problem)
    agent = layout.cells == frames.argmax(axis=1)[:, None, None]
    still = np.stack([layout.cells < 0, np.isin(layout.cells, layout.goals)], axis=-1)
    return np.concatenate([agent[..., None], np.broadcast_to(still, (len(frames), *still.shape))], axis=-1)


def _in_rows(env: Tabular, agent: Int[np.ndarray, " T"]) -> Bool[np.ndarray, "T H W 3"]:
    """States without a map as squares in rows of equal length: that of the agent, absorbing ones, and the others."""
    ends = np.asarray(env.table.ends)
    columns = math.ceil(math.sqrt(ends.size))
    rows = math.ceil(ends.size / columns)
    numbers = np.full(rows * columns, -1)
    numbers[: ends.size] = np.arange(ends.size)
    cells = numbers.reshape(rows, columns)
    if columns <= _GAPS_UP_TO:
        squares = np.full((rows, 4, columns, 4), -1)
        squares[:, :3, :, :3] = cells[:, None, :, None]
        cells = np.pad(squares.reshape(4 * rows, 4 * columns), [(1, 0), (1, 0)], constant_values=-1)
    here = cells == agent[:, None, None]
    still = np.stack([(cells >= 0) & ends[cells], cells >= 0], axis=-1)
    return np.concatenate([here[..., None], np.broadcast_to(still, (len(agent), *still.shape))], axis=-1)


def _layout(problem: Problem) -> Layout:
    if problem.layout is None:
        raise ValueError("the problem has no map")
    return problem.layout
