"""Huber's error by hand, at its joint, and where squares overflow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.elementwise_losses import ELEMENTWISE_LOSSES, huber


@pytest.mark.parametrize(
    ("error", "expected", "slope"),
    [
        (0.0, 0.0, 0.0),
        (-0.5, 0.125, -0.5),
        (1.0, 0.5, 1.0),
        (-3.0, 2.5, -1.0),
        (1e30, 1e30, 1.0),
    ],
)
def test_values_and_slopes(error, expected, slope):
    found = jax.value_and_grad(huber)(jnp.float32(error))
    np.testing.assert_allclose(found, (expected, slope), rtol=1e-6)


def test_names():
    assert ELEMENTWISE_LOSSES["huber"](jnp.float32(3.0)) == 2.5
    assert ELEMENTWISE_LOSSES["squared"](jnp.float32(3.0)) == 9.0
