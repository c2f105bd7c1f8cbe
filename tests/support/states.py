"""Training states for tests of checkpoints."""

import jax
import numpy as np

from mico.deep.training.array_store import SUFFIX
from mico.deep.training.checkpoints import Checkpoints


def numbers(step, size=1000):
    """A state that its step determines."""
    rng = np.random.default_rng(step)
    return {"weights": rng.normal(size=size), "frames": rng.integers(256, size=(size, 7), dtype=np.uint8), "step": step}


def assert_same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        assert type(a) is type(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.asarray(a).shape == np.asarray(b).shape
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def saved(folder, *steps, keep=3):
    checkpoints = Checkpoints(folder, keep)
    for step in steps:
        checkpoints.save(step, numbers(step), {"positions": [step, 2 * step]})
    return checkpoints


def names(folder):
    """List a folder, checkpoints by their steps."""
    return sorted(path.name.replace(SUFFIX, "") for path in folder.iterdir())
