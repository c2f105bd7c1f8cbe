"""Lengths and cosines of representations, exact and with finite gradients for vectors of every size."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

_SHORT = 2.0**-48  # squares of lengths below this lose digits in float32
_LIFT = 2.0**60  # but not if the vector is multiplied by this first


class PairwiseCosine(NamedTuple):
    """The cosine of every x with every y (1 if both are zero, 0 if one is), and the lengths of both."""

    cosine: Float[Tensor, "*n B C"]
    length: Float[Tensor, "*n B"]
    other: Float[Tensor, "*n C"]


def pairwise_cosine(x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"]) -> PairwiseCosine:
    """Compare in float32 at least, whatever the networks compute in, also for lengths from 1e-20 to 1e15."""
    x, y = _wide(x), _wide(y)
    length, other = _length(x), _length(y)
    cosine = inner_products(_unit(x, length), _unit(y, other))
    both_zero = (length == 0)[..., :, None] & (other == 0)[..., None, :]
    return PairwiseCosine(cosine + both_zero, length, other)


def inner_products(x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"]) -> Float[Tensor, "*n B C"]:
    r"""Compute $\langle x, y \rangle$ of every x with every y, in float32 at least, also under autocast."""
    x, y = _wide(x), _wide(y)
    with torch.autocast(x.device.type, enabled=False):
        return x @ y.transpose(-1, -2)


def _length(x: Float[Tensor, "*n D"]) -> Float[Tensor, "*n"]:
    short = x.detach().square().sum(dim=-1) <= _SHORT**2
    scale = torch.where(short, _LIFT, 1.0).to(x.dtype)
    squared = (x * scale[..., None]).square().sum(dim=-1)
    zero = squared == 0
    # The root of 0 has no gradient, and a gradient that `where` drops must be finite all the same.
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt()) / scale


def _unit(x: Float[Tensor, "*n D"], length: Float[Tensor, "*n"]) -> Float[Tensor, "*n D"]:
    """Divide by the length; zero vectors have no direction, and get no gradient."""
    zero = (length == 0)[..., None]
    return torch.where(zero, 0.0, x / torch.where(zero, 1.0, length[..., None]))


def _wide(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    if not isinstance(x, Tensor):
        raise ValueError(
            f"representations must be PyTorch tensors, got {type(x).__name__}; losses for JAX are in mico.deep"
        )
    return x.to(torch.promote_types(x.dtype, torch.float32))
