"""Returns of a trained run: one episode in each of many environments, so that short ones do not count twice."""

import numpy as np
from jaxtyping import Float

from mico.deep.trained.rollout import TrainedRun, rollout


def evaluate(
    trained: TrainedRun, *, episodes: int, seed: int, epsilon: float = 0.001, max_steps: int = 27_000
) -> Float[np.ndarray, " E"]:
    """Play episodes of a trained run, ε-greedily, and return the undiscounted return of each.

    Args:
        trained: The run.
        episodes: How many episodes.
        seed: Random seed of environments and actions.
        epsilon: Probability of a random action.
        max_steps: Steps after which an episode is cut.

    Returns:
        The returns.

    Raises:
        ValueError: If a number is out of its range.
    """
    most = trained.settings.env.max_parallel or max(episodes, 1)
    rounds = np.array_split(np.arange(max(episodes, 1)), max(1, -(-episodes // most)))
    found = []
    for which in rounds:
        returns, over = np.zeros(which.size), np.zeros(which.size, dtype=bool)
        every = rollout(trained, episodes=episodes, seed=seed, epsilon=epsilon, max_steps=max_steps, which=which)
        for steps in every:
            before = steps.ended.cumsum(axis=0) - steps.ended + over
            returns += np.where(before == 0, steps.reward, 0.0).sum(axis=0)
            over |= steps.ended.any(axis=0)
            if over.all():
                break
        every.close()
        found.append(returns)
    return np.concatenate(found)
