"""Frames as pictures to look at: planes in colours that all can tell apart, bytes as they are, states on their map."""

import numpy as np
from jaxtyping import Bool, Shaped, UInt8

from mico.deep.envs import AbstractEnv, AbstractHostEnv, Atari, MinAtar, Tabular

_GROUND = (22, 22, 29)
_SKY, _ORANGE, _GREY, _YELLOW = (86, 180, 233), (230, 159, 0), (127, 127, 127), (240, 228, 66)
_GREEN, _RED, _PINK, _BLUE = (0, 158, 115), (213, 94, 0), (204, 121, 167), (0, 114, 178)  # Okabe and Ito, with grey
_PLANES = (_SKY, _ORANGE, _GREY, _YELLOW, _GREEN, _RED, _PINK, _BLUE, (255, 255, 255), (178, 223, 138))
_MAP = (_SKY, _GREY, _YELLOW)  # the agent, the walls, the goals


def pictures(env: AbstractEnv | AbstractHostEnv, frames: Shaped[np.ndarray, "T ..."]) -> UInt8[np.ndarray, "T H W 3"]:
    """A picture for each frame; of a pixel that several planes fill, the first of them is seen."""
    if isinstance(env, Tabular):
        return _painted(_on_map(env, frames), _MAP)
    _check_images(env)
    if env.spec.dtype == "bool":
        return _painted(frames, _PLANES)
    grey = frames[..., None] if frames.ndim == 3 else frames
    return np.broadcast_to(grey, (*grey.shape[:3], 3))


def check_pictures(env: AbstractEnv | AbstractHostEnv) -> None:
    """A ValueError if its frames cannot be looked at."""
    pictures(env, np.zeros((1, *env.spec.shape), env.spec.dtype))


def action_names(env: AbstractEnv | AbstractHostEnv) -> tuple[str, ...]:
    """As the environment calls them, or numbers."""
    if isinstance(env, MinAtar | Atari):
        return env.action_names
    if env.spec.num_actions:
        return tuple(map(str, range(env.spec.num_actions)))
    return tuple(f"action {number}" for number in range(1, env.spec.action_size + 1))


def _check_images(env: AbstractEnv | AbstractHostEnv) -> None:
    shape, dtype = env.spec.shape, env.spec.dtype
    planes = len(shape) == 3 and (dtype == "bool" or shape[2] in (1, 3))
    if dtype == "float32" or not (planes or len(shape) == 2):
        raise ValueError(f"{env.name} cannot be watched: its frames are {dtype} of shape {list(shape)}, not images")


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
    layout = env.problem.layout
    if layout is None:
        raise ValueError(f"{env.name} cannot be watched: it has no map to show its states on")
    agent = layout.cells == frames.argmax(axis=1)[:, None, None]
    still = np.stack([layout.cells < 0, np.isin(layout.cells, layout.goals)], axis=-1)
    return np.concatenate([agent[..., None], np.broadcast_to(still, (len(frames), *still.shape))], axis=-1)
