"""How far a prediction is from its target, for TD and metric losses alike."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def huber(error: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\tfrac12 u^2$ where $|u| < 1$, $|u| - \tfrac12$ elsewhere (Huber, 1964)."""
    size = jnp.abs(error)
    inside = jnp.minimum(size, 1.0)  # squares of what is outside could overflow
    # At the joint the outer branch: there the gradient of the minimum is half of either side's.
    return jnp.where(size < 1.0, inside**2 / 2, size - 0.5)


ELEMENTWISE_LOSSES = {"huber": huber, "squared": jnp.square}
