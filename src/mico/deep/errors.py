"""How far a prediction is from its target, for TD and metric losses alike."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def huber(error: Float[Array, "..."], delta: float | Float[Array, ""] = 1.0) -> Float[Array, "..."]:
    r"""$\tfrac12 u^2$ where $|u| < \delta$, $\delta(|u| - \tfrac12\delta)$ elsewhere (Huber, 1964)."""
    size = jnp.abs(error)
    inside = jnp.minimum(size, delta)  # squares of what is outside could overflow
    # At the joint the outer branch: there the gradient of the minimum is half of either side's.
    return jnp.where(size < delta, inside**2 / 2, delta * (size - delta / 2))


ERRORS = {"huber": huber, "squared": jnp.square}
