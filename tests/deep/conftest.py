"""What the tests of agents and their training share."""

import jax
import pytest


@pytest.fixture(scope="module")
def light():
    """Programs that are compiled in half the time, where that is longer than they run."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
