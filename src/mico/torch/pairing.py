"""Losses over pairs of transitions: which pairs a batch has, their targets, and the mean of their errors."""

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import huber_loss, mse_loss

from mico import _pair_loss_fields as fields

ELEMENTWISE_LOSSES = {"huber": huber_loss, "squared": mse_loss}


class FirstStep(NamedTuple):
    r"""The first step of each n-step transition, for `horizon="one-step"`.

    Args:
        reward: Rewards of the first steps.
        target_next: $\phi_{\bar\omega}$ of the observations after the first steps.
        terminal: Which first steps ended their episode.
        bootstrap: The discount γ of one step.
    """

    reward: Float[Tensor, " B"]
    target_next: Float[Tensor, "B D"]
    terminal: Bool[Tensor, " B"]
    bootstrap: float | Float[Tensor, ""]


class Sink(NamedTuple):
    r"""Representations of the state after a terminal one, for `terminals="absorbing"`.

    Args:
        online: $\phi_\omega$ of the all-zero observation, with gradients.
        target: $\phi_{\bar\omega}$ of the all-zero observation.
    """

    online: Float[Tensor, " D"]
    target: Float[Tensor, " D"]


class PairBatch(NamedTuple):
    r"""A batch of B transitions, as representations of D numbers; the loss pairs its rows.

    Args:
        online: $\phi_\omega(x)$, the online network's representations, with gradients.
        target: $\phi_{\bar\omega}(x)$, the target network's representations of the same observations.
        target_next: $\phi_{\bar\omega}(x')$, the target network's representations of the next observations.
        reward: Rewards, one per row; of n-step transitions the discounted sum of n.
        bootstrap: The discount between x and x′: γ, or γⁿ of n-step transitions.
        terminal: Which rows ended their episode. Needed for `terminals="absorbing"` only.
        first_step: The first steps of n-step transitions. Needed for `horizon="one-step"` only, and not if n is 1.
        sink: The state after a terminal one. Needed for `terminals="absorbing"` only.

    Examples:
        >>> import torch
        >>> from mico.torch import MICoLoss, PairBatch
        >>> phi = torch.ones(2, 3)
        >>> MICoLoss()(PairBatch(phi, phi, phi, reward=torch.tensor([0.0, 1.0]), bootstrap=0.99)).item() > 0
        True
    """

    online: Float[Tensor, "B D"]
    target: Float[Tensor, "B D"]
    target_next: Float[Tensor, "B D"]
    reward: Float[Tensor, " B"]
    bootstrap: float | Float[Tensor, ""]
    terminal: Bool[Tensor, " B"] | None = None
    first_step: FirstStep | None = None
    sink: Sink | None = None


class PairValues(NamedTuple):
    """What is learnt of each pair now, what it should be, and which pairs count."""

    prediction: Float[Tensor, "*pairs"]
    target: Float[Tensor, "*pairs"]
    mask: Bool[Tensor, "*pairs"]

    def mean(self, values: Float[Tensor, "*pairs"]) -> Float[Tensor, ""]:
        """Average over the pairs that count; 0 if there are none."""
        return torch.where(self.mask, values, 0.0).sum() / self.mask.sum().clamp(min=1)


@fields.explain_fields(fields.PAIR_LOSS)
@dataclass(frozen=True)
class AbstractPairLoss(ABC):
    r"""$\mathbb E\,[\rho(f(|r_x - r_y|) + \gamma^n m_{\bar\omega}(x', y') - m_\omega(x, y))]$ over pairs of a batch.

    To define a loss of your own, subclass it as a frozen dataclass and define `pairwise`, the $m$ that is learnt of a
    pair; override `reward_term` if the rewards enter the target otherwise than as $|r_x - r_y|$. Fields, names and
    defaults are those of the JAX losses in `mico.deep.metric_losses`. Calling a loss does not apply its weight α. With
    `horizon="one-step"` the first steps are those of `PairBatch.first_step`; `terminals="absorbing"` asks for
    `PairBatch.terminal` and `PairBatch.sink`.
    """

    alpha: float = fields.ALPHA.default
    pairs: fields.Pairs = fields.PAIRS.default
    self_pairs: fields.SelfPairs = fields.SELF_PAIRS.default
    second: fields.Second = fields.SECOND.default
    error: fields.Error = fields.ERROR.default
    horizon: fields.Horizon = fields.HORIZON.default
    terminals: fields.Terminals = fields.TERMINALS.default

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value, choices = getattr(self, field.name), get_args(hints[field.name])
            if get_origin(hints[field.name]) is Literal and value not in choices:
                raise ValueError(f"{field.name} must be one of {', '.join(choices)}, got {value!r}")
        check_number("alpha", self.alpha, 1.0)

    @abstractmethod
    def pairwise(self, x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"]) -> Float[Tensor, "*n B C"]:
        """Measure every x with every y: the distance, or the kernel, that is learnt."""

    def measure(self, x: Float[Tensor, "*n D"], y: Float[Tensor, "*n D"]) -> Float[Tensor, "*n"]:
        """Measure each x with its own y."""
        return self.pairwise(x[..., None, :], y[..., None, :])[..., 0, 0]

    def reward_term(self, gap: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Turn differences of rewards into their part of the target."""
        return gap

    def __call__(self, pairs: PairBatch, generator: torch.Generator | None = None) -> Float[Tensor, ""]:
        """Average the error over the pairs, without the weight α.

        Args:
            pairs: The batch. Gradients reach `online`, and the online part of the sink, alone.
            generator: Draws who is paired with whom for `pairs="shuffled"`; by default PyTorch's global one.

        Returns:
            The loss, a scalar; 0 where no pair counts.

        Raises:
            ValueError: If shapes or types do not fit, or a part is missing that a field needs.
        """
        return self.mean_error(self.evaluate(pairs, generator))

    def mean_error(self, values: PairValues) -> Float[Tensor, ""]:
        """Average the error of the predictions over the pairs that count."""
        return values.mean(ELEMENTWISE_LOSSES[self.error](values.prediction, values.target, reduction="none"))

    def evaluate(self, pairs: PairBatch, generator: torch.Generator | None = None) -> PairValues:
        """Compute the prediction and the target of every pair; the arguments are those of a call."""
        pairs = self._select(pairs)
        second = {"target": pairs.target.detach(), "frozen": pairs.online.detach(), "online": pairs.online}[self.second]
        after, reward = pairs.target_next.detach(), pairs.reward.detach()
        if not reward.is_floating_point():  # differences of unsigned numbers wrap around
            reward = reward.to(torch.promote_types(pairs.online.dtype, torch.float32))
        size, device = reward.shape[0], reward.device
        if self.pairs == "all":
            prediction, later = self.pairwise(pairs.online, second), self.pairwise(after, after)
            gap = (reward[:, None] - reward).abs()
            same = torch.eye(size, dtype=torch.bool, device=device)
        else:
            order = torch.randperm(size, generator=generator, device=generator.device if generator else device)
            order = order.to(device)
            prediction, later = self.measure(pairs.online, second[order]), self.measure(after, after[order])
            gap = (reward - reward[order]).abs()
            same = order == torch.arange(size, device=device)
        target = self.reward_term(gap) + pairs.bootstrap * later
        mask = ~same if self.self_pairs == "exclude" else torch.ones_like(same)
        return PairValues(prediction, target.to(prediction.dtype), mask)

    def _select(self, pairs: PairBatch) -> PairBatch:
        """Apply `horizon` and `terminals`: the first steps alone, and a row for the sink."""
        if self.horizon == "one-step" and pairs.first_step is not None:
            reward, target_next, terminal, bootstrap = pairs.first_step
            pairs = pairs._replace(reward=reward, target_next=target_next, terminal=terminal, bootstrap=bootstrap)
        if self.terminals == "bootstrap":
            pairs = pairs._replace(terminal=None, sink=None)
            _check(pairs)
            return pairs
        _check(pairs)
        if pairs.terminal is None or pairs.sink is None:
            missing = "terminal" if pairs.terminal is None else "sink"
            raise ValueError(f"{missing} of the pairs must be given with terminals='absorbing', got None")
        online, target = pairs.sink
        after = torch.where(pairs.terminal[:, None], target, pairs.target_next)
        return pairs._replace(
            online=torch.vstack([pairs.online, online]),
            target=torch.vstack([pairs.target, target]),
            target_next=torch.vstack([after, target]),
            reward=torch.cat([pairs.reward, pairs.reward.new_zeros(1)]),
        )


def _check(pairs: PairBatch) -> None:
    """Refuse what is no tensor with a row per transition: other shapes could be broadcast to something else."""
    if not isinstance(pairs.online, Tensor):
        raise ValueError(f"online must be a tensor, got {type(pairs.online).__name__}")
    if pairs.online.ndim != 2:
        raise ValueError(f"online must have shape [B, D], got {list(pairs.online.shape)}")
    if isinstance(pairs.bootstrap, (Tensor, np.ndarray)) and pairs.bootstrap.ndim != 0:
        raise ValueError(f"bootstrap must be one number, got shape {list(pairs.bootstrap.shape)}")
    if not isinstance(pairs.bootstrap, (Real, Tensor)):
        raise ValueError(f"bootstrap must be one number, got {pairs.bootstrap!r}")
    rows, width = pairs.online.shape
    parts = [("target", pairs.target, [rows, width]), ("target_next", pairs.target_next, [rows, width])]
    parts.append(("reward", pairs.reward, [rows]))
    if pairs.terminal is not None:
        parts.append(("terminal", pairs.terminal, [rows]))
    if pairs.sink is not None:
        online, target = pairs.sink
        parts += [("sink.online", online, [width]), ("sink.target", target, [width])]
    for name, part, shape in parts:
        if not isinstance(part, Tensor):
            raise ValueError(f"{name} must be a tensor, got {type(part).__name__}")
        if list(part.shape) != shape:
            flatten = "; flatten it" if part.numel() == math.prod(shape) else ""
            raise ValueError(f"{name} must have shape {shape} as online has, got {list(part.shape)}{flatten}")
    if pairs.terminal is not None and pairs.terminal.dtype != torch.bool:
        raise ValueError(f"terminal must be of booleans, got {pairs.terminal.dtype}; give `dones.bool()`")


def check_number(name: str, value: float, most: float) -> None:
    """Refuse what is no finite number from 0 to `most`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if not (math.isfinite(value) and 0 <= value <= most):
        raise ValueError(f"{name} must be finite and lie in [0, {most:g}], got {value!r}")
