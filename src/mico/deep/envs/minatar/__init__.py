"""MinAtar inside JAX: the games and the environment that plays them."""

from mico.deep.envs.minatar.minatar import MinAtar

__all__ = ["MinAtar"]
