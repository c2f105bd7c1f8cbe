"""What the losses over pairs of transitions share: who is paired, what counts as target, how errors are averaged."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from numbers import Real
from typing import Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import huber_loss, mse_loss

Second = Literal["target", "frozen", "online"]
Horizon = Literal["n-step", "one-step"]

ERRORS = {"huber": huber_loss, "squared": mse_loss}


class FirstStep(NamedTuple):
    r"""The first step alone of n-step windows: reward, $\phi_{\bar\omega}$ of where it led, its end, and $\gamma$."""

    reward: Float[Tensor, " B"]
    target_next: Float[Tensor, "B D"]
    terminal: Bool[Tensor, " B"]
    bootstrap: float | Float[Tensor, ""]


class Sink(NamedTuple):
    """How the state after a terminal one, seen as the all-zero observation, looks to both networks."""

    online: Float[Tensor, " D"]
    target: Float[Tensor, " D"]


class Pairs(NamedTuple):
    r"""What is paired: $\phi_\omega(x)$, $\phi_{\bar\omega}(x)$, $\phi_{\bar\omega}(x')$, rewards, $\gamma^n$.

    `terminal` and `sink` are for terminals="absorbing", `first_step` for horizon="one-step" where n is not 1: without
    it the pairs are taken to be of one step.
    """

    online: Float[Tensor, "B D"]
    target: Float[Tensor, "B D"]
    target_next: Float[Tensor, "B D"]
    reward: Float[Tensor, " B"]
    bootstrap: float | Float[Tensor, ""]
    terminal: Bool[Tensor, " B"] | None = None
    first_step: FirstStep | None = None
    sink: Sink | None = None


class Measured(NamedTuple):
    """What a loss makes of the pairs: what it measures now, its target, and which pairs count."""

    found: Float[Tensor, "*pairs"]
    target: Float[Tensor, "*pairs"]
    counted: Bool[Tensor, "*pairs"]

    def mean(self, of_pairs: Float[Tensor, "*pairs"]) -> Float[Tensor, ""]:
        """Over the pairs that count, 0 if there are none."""
        return torch.where(self.counted, of_pairs, 0.0).sum() / self.counted.sum().clamp(min=1)


@dataclass(frozen=True)
class AbstractPairLoss(ABC):
    r"""$\mathbb E\,[\rho(f(|r_x - r_y|) + \gamma^n m_{\bar\omega}(x', y') - m_\omega(x, y))]$ over pairs.

    A loss says what m it learns of a pair, and what f makes of the gap of rewards. Fields, names and defaults are those
    of the losses in `mico.deep.metric_losses`.
    """

    alpha: float = 0.01  # weight of this loss; the TD loss has 1 − α
    pairs: Literal["all", "shuffled"] = "all"
    self_pairs: Literal["include", "exclude"] = "include"
    second: Second = "target"
    error: Literal["huber", "squared"] = "huber"
    horizon: Horizon = "n-step"
    terminals: Literal["bootstrap", "absorbing"] = "bootstrap"

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):
            value, choices = getattr(self, field.name), get_args(hints[field.name])
            if get_origin(hints[field.name]) is Literal and value not in choices:
                raise ValueError(f"{field.name} must be one of {', '.join(choices)}, but is {value!r}")
        check_number("alpha", self.alpha, 1.0)

    @abstractmethod
    def measures(self, x: Float[Tensor, "*n B D"], y: Float[Tensor, "*n C D"]) -> Float[Tensor, "*n B C"]:
        """What is learnt of every x with every y."""

    def measure(self, x: Float[Tensor, "*n D"], y: Float[Tensor, "*n D"]) -> Float[Tensor, "*n"]:
        """What is learnt of each x with its own y."""
        return self.measures(x[..., None, :], y[..., None, :])[..., 0, 0]

    def immediate(self, gap: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The part of the target that the rewards give."""
        return gap

    def __call__(self, sides: Pairs, generator: torch.Generator | None = None) -> Float[Tensor, ""]:
        """The mean error over the pairs; gradients reach the online representations alone."""
        return self.mean_error(self.measured(sides, generator))

    def mean_error(self, measured: Measured) -> Float[Tensor, ""]:
        return measured.mean(ERRORS[self.error](measured.found, measured.target, reduction="none"))

    def measured(self, sides: Pairs, generator: torch.Generator | None = None) -> Measured:
        """Both sides of every pair; `generator` draws whom each is shuffled to."""
        sides = self._meant(sides)
        other = {"target": sides.target.detach(), "frozen": sides.online.detach(), "online": sides.online}[self.second]
        after, reward = sides.target_next.detach(), sides.reward.detach()
        if not reward.is_floating_point():  # differences of unsigned numbers wrap around
            reward = reward.to(torch.promote_types(sides.online.dtype, torch.float32))
        size, device = reward.shape[0], reward.device
        if self.pairs == "all":
            found, later = self.measures(sides.online, other), self.measures(after, after)
            gap = (reward[:, None] - reward).abs()
            same = torch.eye(size, dtype=torch.bool, device=device)
        else:
            order = torch.randperm(size, generator=generator, device=generator.device if generator else device)
            order = order.to(device)
            found, later = self.measure(sides.online, other[order]), self.measure(after, after[order])
            gap = (reward - reward[order]).abs()
            same = order == torch.arange(size, device=device)
        target = self.immediate(gap) + sides.bootstrap * later
        counted = ~same if self.self_pairs == "exclude" else torch.ones_like(same)
        return Measured(found, target.to(found.dtype), counted)

    def _meant(self, sides: Pairs) -> Pairs:
        """The pairs that horizon and terminals mean."""
        if self.horizon == "one-step" and sides.first_step is not None:
            reward, target_next, terminal, bootstrap = sides.first_step
            sides = sides._replace(reward=reward, target_next=target_next, terminal=terminal, bootstrap=bootstrap)
        if self.terminals == "bootstrap":
            sides = sides._replace(terminal=None, sink=None)
            _check(sides)
            return sides
        _check(sides)
        if sides.terminal is None or sides.sink is None:
            raise ValueError("terminals='absorbing' needs terminal and sink of the pairs, but one is None")
        online, target = sides.sink
        after = torch.where(sides.terminal[:, None], target, sides.target_next)
        return sides._replace(
            online=torch.vstack([sides.online, online]),
            target=torch.vstack([sides.target, target]),
            target_next=torch.vstack([after, target]),
            reward=torch.cat([sides.reward, sides.reward.new_zeros(1)]),
        )


def _check(sides: Pairs) -> None:
    """Tensors with a row a transition: other shapes could be broadcast to something else."""
    if not isinstance(sides.online, Tensor):
        raise ValueError(f"online must be a tensor, but is {type(sides.online).__name__}")
    if sides.online.ndim != 2:
        raise ValueError(f"online must have shape [B, D], but has {list(sides.online.shape)}")
    if isinstance(sides.bootstrap, (Tensor, np.ndarray)) and sides.bootstrap.ndim != 0:
        raise ValueError(f"bootstrap must be one number, but has shape {list(sides.bootstrap.shape)}")
    if not isinstance(sides.bootstrap, (Real, Tensor)):
        raise ValueError(f"bootstrap must be one number, but is {sides.bootstrap!r}")
    rows, width = sides.online.shape
    parts = [("target", sides.target, [rows, width]), ("target_next", sides.target_next, [rows, width])]
    parts.append(("reward", sides.reward, [rows]))
    if sides.terminal is not None:
        parts.append(("terminal", sides.terminal, [rows]))
    if sides.sink is not None:
        online, target = sides.sink
        parts += [("sink.online", online, [width]), ("sink.target", target, [width])]
    for name, part, shape in parts:
        if not isinstance(part, Tensor):
            raise ValueError(f"{name} must be a tensor, but is {type(part).__name__}")
        if list(part.shape) != shape:
            raise ValueError(f"{name} has shape {list(part.shape)}, but online asks for {shape}")
    if sides.terminal is not None and sides.terminal.dtype != torch.bool:
        raise ValueError(f"terminal must be of booleans, but is of {sides.terminal.dtype}")


def check_number(name: str, value: float, most: float) -> None:
    """A number from 0 to so much."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, but is {value!r}")
    if not (math.isfinite(value) and 0 <= value <= most):
        raise ValueError(f"{name} must be finite and lie in [0, {most:g}], but is {value!r}")
