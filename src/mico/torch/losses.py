"""MICo, KSMe and SimSR: what each one learns of a pair of representations."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mico import _pair_loss_fields as fields
from mico.torch.pairing import AbstractPairLoss, check_number
from mico.torch.vectors import inner_products, pairwise_cosine

_ROUNDING = 16  # squared sines up to this many units of rounding, which a long product may gather, are taken for 0


@final
@fields.explain_fields(fields.MICO)
@dataclass(frozen=True)
class MICoLoss(AbstractPairLoss):
    r"""MICo (Castro et al., 2021): norms and angles of representations learn the MICo distance.

    $\mathcal L = \mathbb E\,[\rho(|r_x - r_y| + \gamma^n U_{\bar\omega}(x', y') - U_\omega(x, y))]$ over pairs, with
    $U(x, y) = \tfrac12(\|\phi_x\|^2 + \|\phi_y\|^2) + \beta\,\theta(\phi_x, \phi_y)$, where θ is the angle.

    Calling the loss does not apply its weight α.

    Raises:
        ValueError: If a field has no such value.

    Examples:
        >>> import torch
        >>> from mico.torch import MICoLoss, PairBatch
        >>> phi = torch.tensor([[2.0, 0.0], [0.0, 3.0]], requires_grad=True)  # of two observations, by your encoder
        >>> mico = MICoLoss(alpha=0.01, beta=0.1)
        >>> loss = mico(PairBatch(phi, phi.detach(), phi.detach(), reward=torch.tensor([1.0, 0.0]), bootstrap=0.99))
        >>> (mico.alpha * loss).backward()  # beside (1 - mico.alpha) * your TD loss
        >>> tuple(phi.grad.shape)
        (2, 2)
    """

    beta: float = fields.BETA.default

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta", self.beta, math.inf)

    def pairwise(self, x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"]) -> Float[Tensor, "*n B C"]:
        r"""Compute $U(x, y)$ of every x with every y."""
        return mico_distances(x, y, self.beta)


@final
@fields.explain_fields(fields.PAIR_LOSS)
@dataclass(frozen=True)
class KSMeLoss(AbstractPairLoss):
    r"""KSMe (Castro et al., 2023): products of representations learn a kernel whose distance is the reduced MICo.

    $\mathcal L = \mathbb E\,[\rho(1 - \tfrac12|r_x - r_y| + \gamma^n k_{\bar\omega}(x', y') - k_\omega(x, y))]$ over
    pairs, with $k(x, y) = \langle\phi_x, \phi_y\rangle$, large where states are similar.

    Calling the loss does not apply its weight α.

    Raises:
        ValueError: If a field has no such value.

    Examples:
        >>> import torch
        >>> from mico.torch import KSMeLoss, PairBatch
        >>> phi = torch.eye(2)
        >>> KSMeLoss(error="squared")(PairBatch(phi, phi, phi, reward=torch.zeros(2), bootstrap=0.0)).item()
        0.5
    """

    def pairwise(self, x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"]) -> Float[Tensor, "*n B C"]:
        r"""Compute $\langle x, y\rangle$ of every x with every y."""
        return inner_products(x, y)

    def reward_term(self, gap: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Turn differences of rewards into similarities, 1 − ½|r_x − r_y|."""
        return 1 - gap / 2


@final
@fields.explain_fields(fields.SIMSR)
@dataclass(frozen=True)
class SimSRLoss(AbstractPairLoss):
    r"""SimSR (Zang et al., 2022): directions of representations learn a behavioural distance, $d = 1 - \cos$.

    $\mathcal L = \mathbb E\,[\rho(|r_x - r_y| + \gamma\, d_{\bar\omega}(x', y') - d_\omega(x, y))]$ over pairs.

    Calling the loss does not apply its weight α.

    Raises:
        ValueError: If a field has no such value.

    Examples:
        >>> import torch
        >>> from mico.torch import PairBatch, SimSRLoss
        >>> phi = torch.eye(2)
        >>> SimSRLoss(error="squared")(PairBatch(phi, phi, phi, reward=torch.zeros(2), bootstrap=0.0)).item()
        0.5
    """

    alpha: float = fields.SIMSR["alpha"].default
    second: fields.Second = fields.SIMSR["second"].default
    horizon: fields.Horizon = fields.SIMSR["horizon"].default

    def pairwise(self, x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"]) -> Float[Tensor, "*n B C"]:
        r"""Compute $1 - \cos$ of every x with every y."""
        return 1 - pairwise_cosine(x, y).cosine


def mico_distance(x: Float[Tensor, "*n D"], y: Float[Tensor, "*n D"], beta: float) -> Float[Tensor, "*n"]:
    r"""Compute $U = \tfrac12(\|\phi_x\|^2 + \|\phi_y\|^2) + \beta\,\theta(\phi_x, \phi_y)$ of each x and its own y.

    Args:
        x: Representations, one per row.
        y: As many.
        beta: Weight of the angle.

    Returns:
        One distance per row.

    Examples:
        >>> import torch
        >>> from mico.torch import mico_distance
        >>> round(mico_distance(torch.tensor([2.0, 0.0]), torch.tensor([0.0, 3.0]), beta=0.5).item(), 4)
        7.2854
    """
    return mico_distances(x[..., None, :], y[..., None, :], beta)[..., 0, 0]


def mico_distances(x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"], beta: float) -> Float[Tensor, "*n B C"]:
    """Compute the MICo distance of every x to every y, by one matrix product.

    Args:
        x: Representations, one per row.
        y: Others, one per row.
        beta: Weight of the angle.

    Returns:
        A matrix with a row for each x and a column for each y.

    Examples:
        >>> import torch
        >>> from mico.torch import mico_distances
        >>> mico_distances(torch.eye(3), torch.eye(3)[:2], beta=0.0).tolist()
        [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """
    cosine, length, other = pairwise_cosine(x, y)
    return (length[..., :, None] ** 2 + other[..., None, :] ** 2) / 2 + beta * _angle(cosine)


def _angle(cosine: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    r"""Compute $\arctan2(\sqrt{1 - c^2}, c)$; where the sine is rounding, its gradient is the subgradient 0."""
    squared = 1 - cosine**2
    real = squared > _ROUNDING * torch.finfo(cosine.dtype).eps
    return torch.atan2(torch.where(real, torch.where(real, squared, 1.0).sqrt(), 0.0), cosine)


METRIC_LOSSES = {"mico": MICoLoss, "ksme": KSMeLoss, "simsr": SimSRLoss}
