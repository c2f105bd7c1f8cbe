"""A finite MDP: RiverSwim (Strehl and Littman, 2008) with all its probabilities known."""

import numpy as np

from mico.tabular import MDP, Problem


def river(*, length: int = 6, current: float = 0.05, discount: float = 0.95) -> Problem:
    """RiverSwim: swim against the current to a large reward, or stay downstream at a small one.

    Args:
        length: Number of cells of the river.
        current: Probability of being carried back by a stroke upstream.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    cells = np.arange(length)
    transition, reward = np.zeros((length, 2, length)), np.zeros((length, 2))
    transition[cells, 0, np.maximum(cells - 1, 0)] = 1
    for change, probability in ((-1, current), (0, 0.65 - current), (1, 0.35)):
        np.add.at(transition, (cells, 1, np.clip(cells + change, 0, length - 1)), probability)
    reward[0, 0], reward[-1, 1] = 0.005, 1
    return Problem(MDP(transition, reward, discount), names=tuple(f"cell {cell}" for cell in cells))
