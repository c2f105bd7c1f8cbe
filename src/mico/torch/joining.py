"""Adds a metric loss to the training of a network by code that knows nothing of it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mico.torch.pairing import AbstractPairLoss, Pairs, Sink

Observations = Tensor | Mapping[str, Tensor]


class Replayed(NamedTuple):
    """A batch as the training code holds it: `observations` is the very object that it passes to the network."""

    observations: Observations
    next_observations: Observations
    reward: Tensor
    terminal: Tensor


class _Joint(torch.autograd.Function):
    r"""The values as they are; gradients are those of $(1 - \alpha)\,\ell(\text{values}) + \alpha \cdot$ metric."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, metric: Tensor, alpha: float) -> Tensor:
        ctx.alpha, ctx.metric = alpha, metric.detach()
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        return (1 - ctx.alpha) * gradients[0], torch.full_like(ctx.metric, ctx.alpha), None


class Joining:
    """A metric loss of what a layer of the online network and of its target copy make of a batch.

    Within `hooked`, the online network's first pass with gradients over the observations of the batch last given to
    `expect` carries the loss along: whatever is then made of its outputs and differentiated is weighted with 1 − α, and
    the metric loss comes with α. That pass serves both losses; the outputs stay what they are.
    """

    def __init__(
        self, metric: AbstractPairLoss, online: nn.Module, target: nn.Module, *, layer: str, bootstrap: float
    ) -> None:
        self.metric, self.online, self.target = metric, online, target
        self.layer, self.bootstrap = layer, bootstrap
        self.logs: dict[str, list[float]] = defaultdict(list)
        self._batch: Replayed | None = None
        self._after: Tensor | None = None

    def expect(self, batch: Replayed) -> None:
        self._batch, self._after = batch, None

    def check(self) -> None:
        """That the batch last expected has been seen: training code that copies observations passes others."""
        if self._batch is not None:
            raise RuntimeError("no pass of the network over the batch's own observations, so no metric loss was added")

    @contextmanager
    def hooked(self) -> Iterator[None]:
        with captured(self.online, self.layer) as now, captured(self.target, self.layer) as then:
            hooks = (
                self.online.register_forward_hook(lambda _, inputs, output: self._join(inputs, output, now)),
                self.target.register_forward_hook(lambda _, inputs, __: self._keep(inputs, then)),
            )
            try:
                yield
            finally:
                for hook in hooks:
                    hook.remove()

    def _keep(self, inputs: tuple[Any, ...], then: list[Tensor]) -> None:
        """The TD loss has the target network look at next states, too: once is enough."""
        if self._batch is not None and inputs[0] is self._batch.next_observations:
            self._after = then[-1]

    def _join(self, inputs: tuple[Any, ...], output: Any, now: list[Tensor]) -> Any:
        batch = self._batch
        if batch is None or inputs[0] is not batch.observations or not torch.is_grad_enabled():
            return output
        self._batch, phi = None, now[-1]
        measured = self.metric.measured(self._sides(batch, phi, inputs[1:]))
        loss = self.metric.mean_error(measured)
        for name, value in (
            ("loss", loss),
            ("distance", measured.mean(measured.found)),
            ("target", measured.mean(measured.target)),
            ("norm", phi.norm(dim=1).mean()),
        ):
            self.logs[name].append(value.item())
        alpha = self.metric.alpha
        if isinstance(output, tuple):  # twin critics: the loss rides on the first of them
            return (_Joint.apply(output[0], loss, alpha), *(_Joint.apply(x, loss.detach(), alpha) for x in output[1:]))
        return _Joint.apply(output, loss, alpha)

    def _sides(self, batch: Replayed, online: Tensor, rest: tuple[Any, ...]) -> Pairs:
        with torch.no_grad():
            target = represented(self.target, self.layer, batch.observations, *rest)
            after = self._after
            if after is None:
                after = represented(self.target, self.layer, batch.next_observations, *rest)
        sides = Pairs(online, target, after, batch.reward, self.bootstrap, batch.terminal)
        if self.metric.terminals == "bootstrap":
            return sides
        empty, one = _zeros(batch.observations), tuple(x[:1] for x in rest)
        with torch.no_grad():
            sink = represented(self.target, self.layer, empty, *one)[0]
        return sides._replace(sink=Sink(represented(self.online, self.layer, empty, *one)[0], sink))


def represented(network: nn.Module, layer: str, *inputs: Any) -> Tensor:
    """What a layer gives, one row for each input; normalisation as in evaluation, and left as it is."""
    training = network.training
    network.train(False)
    try:
        with captured(network, layer) as seen:
            network(*inputs)
    finally:
        network.train(training)
    return seen[-1]


@contextmanager
def captured(network: nn.Module, layer: str) -> Iterator[list[Tensor]]:
    """The last output of a layer, flat, in a list that each pass refills."""
    seen: list[Tensor] = []
    hook = network.get_submodule(layer).register_forward_hook(
        lambda _, __, output: seen.__setitem__(slice(None), [output.flatten(start_dim=1)])
    )
    try:
        yield seen
    finally:
        hook.remove()


def _zeros(observations: Observations) -> Observations:
    if isinstance(observations, Tensor):
        return torch.zeros_like(observations[:1])
    return {name: torch.zeros_like(part[:1]) for name, part in observations.items()}
