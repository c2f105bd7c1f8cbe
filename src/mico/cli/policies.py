"""The policy that a user names: by a word, or by a file."""

from pathlib import Path

import numpy as np

from mico.tabular import Problem, optimal_policy, random_policy, uniform_policy
from mico.tabular._archives import DAMAGE

WORDS = ("uniform", "optimal", "random", "problem")
POLICY_HELP = (
    "Policy: `uniform`, `optimal`, `random` (which needs --policy-seed), `problem` (the one that comes with the"
    " problem), or an .npy or .npz file with an array of shape [S, A]."
)
SEED_HELP = "Random seed of --policy random."


def named_policy(name: str | None, problem: Problem, *, seed: int | None) -> np.ndarray | None:
    """`uniform`, `optimal`, `random` (by the seed), `problem` (the one it comes with), or the array in a file."""
    if name == "random":
        if seed is None:
            raise ValueError("policy 'random' needs a seed: give --policy-seed")
        return random_policy(problem.mdp, seed=seed)
    if seed is not None:
        raise ValueError(f"policy-seed = {seed} is for --policy random alone")
    if name is None:
        return None
    if name == "uniform":
        return uniform_policy(problem.mdp)
    if name == "optimal":
        return optimal_policy(problem.mdp)
    if name == "problem":
        if problem.policy is None:
            raise ValueError("policy 'problem': this problem comes with no policy")
        return problem.policy
    return _stored(Path(name))


def _stored(path: Path) -> np.ndarray:
    """The array of an .npy file; of an .npz file the one called `policy`."""
    if path.suffix.lower() not in (".npy", ".npz"):
        raise ValueError(f"policy must be {', '.join(WORDS)} or an .npy or .npz file, not {str(path)!r}")
    try:
        stored = np.load(path, allow_pickle=False)
        policy = stored if isinstance(stored, np.ndarray) else stored["policy"]
    except (KeyError, *DAMAGE) as error:
        raise ValueError(f"{path}: holds no policy: {error}") from None
    if policy.ndim != 2:
        raise ValueError(f"{path}: policy must have shape [S, A], but has {list(policy.shape)}")
    return policy
