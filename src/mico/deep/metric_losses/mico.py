r"""The MICo loss: norms and angles of representations learn the MICo distance (the paper's section 5 and appendix).

For an agent of your own, arrays in and a scalar out:

    from mico.deep.metric_losses import MICo, PairBatch

    mico = MICo(alpha=0.01, beta=0.1)

    def loss(params, target_params, x, reward, next_x, key):
        td = ...  # your own loss
        batch = PairBatch(encode(params, x), encode(target_params, x), encode(target_params, next_x), reward, 0.99)
        return (1 - mico.alpha) * td + mico.alpha * mico(batch, key)
"""

from typing import Literal, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mico import _pair_loss_fields as declared
from mico.deep.fields import check_range, traced_field
from mico.deep.metric_losses.cosine import pairwise_cosine
from mico.deep.metric_losses.metric_loss import AbstractMetricLoss
from mico.deep.metric_losses.pair_loss import AbstractPairLoss, PairBatch

__all__ = ["MICo", "PairBatch", "angle", "distance", "distances"]

_ROUNDING = 16  # squared sines up to this many units of rounding, which a long product may gather, are taken for 0


@final
class MICo(AbstractPairLoss):
    r"""MICo (Castro et al., 2021): norms and angles of representations learn the MICo distance.

    $\mathcal L = \mathbb E\,[\rho(|r_x - r_y| + \gamma^n U_{\bar\omega}(x', y') - U_\omega(x, y))]$ over pairs.

    The defaults are those of the released code; each other value is another reading of the paper (docs/deviations.md).
    """

    beta: float = traced_field(declared.BETA.default, declared.BETA.purpose)

    def __check_init__(self) -> None:
        check_range(self, beta=(0.0, float("inf")))

    @classmethod
    def for_preset(cls, alpha: float, actions: Literal["discrete", "continuous"]) -> AbstractMetricLoss:
        """Make the loss of a preset; beside continuous actions the second state is seen as in the released code."""
        return cls(alpha=alpha, second="frozen") if actions == "continuous" else cls(alpha=alpha)

    @property
    def angle_weight(self):
        return self.beta

    def describe_distance(self, distance):
        return f"MICo's {'U' if distance == 'learnt' else 'reduced distance βθ'}, β = {float(self.beta):g}"

    def pairwise(self, x: Float[Array, "B D"], y: Float[Array, "C D"]) -> Float[Array, "B C"]:
        return distances(x, y, self.beta)


def distance(x: Float[Array, " D"], y: Float[Array, " D"], beta: float | Float[Array, ""]) -> Float[Array, ""]:
    r"""$U_\omega = \tfrac12(\|\phi_x\|^2 + \|\phi_y\|^2) + \beta\,\theta(\phi_x, \phi_y)$ of two representations."""
    return distances(x[None], y[None], beta)[0, 0]


def distances(x: Float[Array, "B D"], y: Float[Array, "C D"], beta: float | Float[Array, ""]) -> Float[Array, "B C"]:
    """The distance of every x to every y, through one matrix product."""
    cosine, length, other = pairwise_cosine(x, y)
    return (length[:, None] ** 2 + other**2) / 2 + beta * _angle(cosine)


def angle(x: Float[Array, " D"], y: Float[Array, " D"]) -> Float[Array, ""]:
    r"""$\theta = \arctan2(\sqrt{1 - c^2}, c)$ with c the cosine; 0 between two zero vectors, $\pi/2$ if one is zero."""
    return _angle(pairwise_cosine(x[None], y[None]).cosine)[0, 0]


@jax.custom_jvp
def _angle(cosine: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.arctan2(_sine(cosine), cosine)


@_angle.defjvp
def _angle_jvp(
    primals: tuple[Float[Array, "..."]], tangents: tuple[Float[Array, "..."]]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    r"""$-\dot c / \sqrt{1 - c^2}$; 0, which is one of the angle's subgradients, where the sine is rounding."""
    (cosine,), (change,) = primals, tangents
    sine = _sine(cosine)
    return jnp.arctan2(sine, cosine), jnp.where(sine > 0, -change / jnp.where(sine > 0, sine, 1.0), 0.0)


def _sine(cosine: Float[Array, "..."]) -> Float[Array, "..."]:
    """0 where it is no more than rounding."""
    squared = 1 - cosine**2
    return jnp.sqrt(jnp.where(squared > _ROUNDING * jnp.finfo(cosine.dtype).eps, squared, 0.0))
