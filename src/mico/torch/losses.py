"""The losses by name: what each one measures of a pair of representations."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mico.torch.pairing import AbstractPairLoss, Horizon, Second, check_number
from mico.torch.vectors import compared, products

_ROUNDING = 16  # squared sines up to this many units of rounding, which a long product may gather, are taken for 0


@final
@dataclass(frozen=True)
class MICoLoss(AbstractPairLoss):
    r"""MICo (Castro et al., 2021): norms and angles of representations learn the MICo distance.

    $\mathcal L = \mathbb E\,[\rho(|r_x - r_y| + \gamma^n U_{\bar\omega}(x', y') - U_\omega(x, y))]$ over pairs.
    """

    beta: float = 0.1  # weight of the angle

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta", self.beta, math.inf)

    def measures(self, x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"]) -> Float[Tensor, "*n B C"]:
        return mico_distances(x, y, self.beta)


@final
@dataclass(frozen=True)
class KSMeLoss(AbstractPairLoss):
    r"""KSMe (Castro et al., 2023): products of representations learn a kernel whose distance is reduced MICo.

    $\mathbb E\,[\rho(1 - \tfrac12|r_x - r_y| + \gamma^n k_{\bar\omega}(x', y') - k_\omega(x, y))]$ over pairs.
    """

    def measures(self, x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"]) -> Float[Tensor, "*n B C"]:
        return products(x, y)

    def immediate(self, gap: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return 1 - gap / 2


@final
@dataclass(frozen=True)
class SimSRLoss(AbstractPairLoss):
    r"""SimSR (Zang et al., 2022): directions of representations learn a distance of behaviour, $1 - \cos$.

    $\mathbb E\,[\rho(|r_x - r_y| + \gamma\, d_{\bar\omega}(x', y') - d_\omega(x, y))]$ over pairs.
    """

    alpha: float = 0.5
    second: Second = "online"
    horizon: Horizon = "one-step"

    def measures(self, x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"]) -> Float[Tensor, "*n B C"]:
        return 1 - compared(x, y).cosine


def mico_distance(x: Float[Tensor, "*n D"], y: Float[Tensor, "*n D"], beta: float) -> Float[Tensor, "*n"]:
    r"""$U_\omega = \tfrac12(\|\phi_x\|^2 + \|\phi_y\|^2) + \beta\,\theta(\phi_x, \phi_y)$ of each x and its own y."""
    return mico_distances(x[..., None, :], y[..., None, :], beta)[..., 0, 0]


def mico_distances(x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"], beta: float) -> Float[Tensor, "*n B C"]:
    """The MICo distance of every x to every y, through one matrix product."""
    cosine, length, other = compared(x, y)
    return (length[..., :, None] ** 2 + other[..., None, :] ** 2) / 2 + beta * _angle(cosine)


def _angle(cosine: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    r"""$\theta = \arctan2(\sqrt{1 - c^2}, c)$; where the sine is rounding, its gradient is the subgradient 0."""
    squared = 1 - cosine**2
    real = squared > _ROUNDING * torch.finfo(cosine.dtype).eps
    return torch.atan2(torch.where(real, torch.where(real, squared, 1.0).sqrt(), 0.0), cosine)


METRIC_LOSSES = {"mico": MICoLoss, "ksme": KSMeLoss, "simsr": SimSRLoss}
