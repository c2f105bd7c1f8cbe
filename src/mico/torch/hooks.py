"""Adds a metric loss to the training of a network by code that knows nothing of it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mico.torch.pairing import AbstractPairLoss, PairBatch, Sink

Observations = Tensor | Mapping[str, Tensor]


class ReplayBatch(NamedTuple):
    """Replayed transitions; `observations` is the very object that the training code passes to the network."""

    observations: Observations
    next_observations: Observations
    reward: Tensor
    terminal: Tensor


class _AddLoss(torch.autograd.Function):
    r"""Returns values unchanged; gradients are those of $(1 - \alpha)\,\ell(\text{values}) + \alpha \cdot$ metric."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, metric: Tensor, alpha: float) -> Tensor:
        ctx.alpha, ctx.metric = alpha, metric.detach()
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        return (1 - ctx.alpha) * gradients[0], torch.full_like(ctx.metric, ctx.alpha), None


class MetricLossHook:
    """Adds a metric loss of a layer's outputs to whatever loss is computed from a network's outputs.

    While `attached`, the online network's first pass with gradients over the observations of the current batch also
    gives φ for the metric loss. The outputs keep their values; a loss that is computed from them and differentiated
    gets the weight 1 − α, and the metric loss is differentiated with it, with the weight α.

    Args:
        metric: The metric loss, with its weight α.
        online: The network that is trained.
        target: A copy of it, or of the part that has the layer, for the targets.
        layer: Name of the layer whose outputs are φ, in both networks.
        bootstrap: The discount between the two observations of a transition.
        method: Method of the online network whose outputs the loss is computed from.
        encode: Runs as much of a network as φ needs; by default all of it.
    """

    def __init__(
        self,
        metric: AbstractPairLoss,
        online: nn.Module,
        target: nn.Module,
        *,
        layer: str,
        bootstrap: float,
        method: str = "forward",
        encode: Callable[[Any, Observations], Any] = lambda network, observations: network(observations),
    ) -> None:
        self.metric, self.online, self.target = metric, online, target
        self.layer, self.bootstrap, self.method, self.encode = layer, bootstrap, method, encode
        self.logs: dict[str, list[float]] = defaultdict(list)
        self._batch: ReplayBatch | None = None
        self._target_next: Tensor | None = None

    def set_batch(self, batch: ReplayBatch) -> None:
        """Make this batch the current one, whose pass through the online network is still to come."""
        self._batch, self._target_next = batch, None

    def check_used(self) -> None:
        """Raise RuntimeError if the last batch never passed through the network: copies of it are not recognised."""
        if self._batch is not None:
            raise RuntimeError("no pass of the network over the batch's own observations, so no metric loss was added")

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Watch both networks, as long as the context lasts."""
        with captured(self.online, self.layer) as online, captured(self.target, self.layer) as target:

            def watch_online(original: Callable[..., Any]) -> Callable[..., Any]:
                return lambda *args, **kwargs: self._add(_first(args, kwargs), original(*args, **kwargs), online)

            def watch_target(original: Callable[..., Any]) -> Callable[..., Any]:
                return lambda *args, **kwargs: self._keep(_first(args, kwargs), original(*args, **kwargs), target)

            with (
                replaced_method(self.online, self.method, watch_online),
                replaced_method(self.target, "forward", watch_target),
            ):
                yield

    def _keep(self, observations: Any, outputs: Any, captured_phi: list[Tensor]) -> Any:
        """Keep φ of the next observations, which the TD loss has the target network look at: once is enough."""
        if self._batch is not None and observations is self._batch.next_observations:
            self._target_next = captured_phi[-1]
        return outputs

    def _add(self, observations: Any, outputs: Any, captured_phi: list[Tensor]) -> Any:
        batch = self._batch
        if batch is None or observations is not batch.observations or not torch.is_grad_enabled():
            return outputs
        phi = captured_phi[-1] if captured_phi else None
        if phi is None or not phi.requires_grad:
            found = "was not run" if phi is None else "depends on no parameter that is trained"
            raise RuntimeError(f"layer {self.layer!r} {found}, so no metric loss can be added")
        self._batch = None
        values = self.metric.evaluate(self._pairs(batch, phi))
        loss = self.metric.mean_error(values)
        for name, value in (
            ("loss", loss),
            ("distance", values.mean(values.prediction)),
            ("target", values.mean(values.target)),
            ("norm", phi.norm(dim=1).mean()),
        ):
            self.logs[name].append(value.item())
        alpha = self.metric.alpha
        if isinstance(outputs, tuple):  # such as twin critics: the first one brings the gradient of the metric loss
            rest = (_AddLoss.apply(part, loss.detach(), alpha) for part in outputs[1:])
            return (_AddLoss.apply(outputs[0], loss, alpha), *rest)
        return _AddLoss.apply(outputs, loss, alpha)

    def _pairs(self, batch: ReplayBatch, online: Tensor) -> PairBatch:
        with torch.no_grad():
            target = represent(self.target, self.layer, batch.observations, self.encode)
            target_next = self._target_next
            if target_next is None:
                target_next = represent(self.target, self.layer, batch.next_observations, self.encode)
        pairs = PairBatch(online, target, target_next, batch.reward, self.bootstrap, batch.terminal)
        if self.metric.terminals == "bootstrap":
            return pairs
        zeros = _zeros(batch.observations)
        with torch.no_grad():
            sink = represent(self.target, self.layer, zeros, self.encode)[0]
        return pairs._replace(sink=Sink(represent(self.online, self.layer, zeros, self.encode)[0], sink))


def represent(
    network: nn.Module, layer: str, observations: Observations, encode: Callable[[Any, Observations], Any]
) -> Tensor:
    """Compute what a layer makes of observations, a row for each; layers such as batch norm are in evaluation mode."""
    training = network.training
    network.train(False)
    try:
        with captured(network, layer) as outputs:
            encode(network, observations)
    finally:
        network.train(training)
    return outputs[-1]


@contextmanager
def captured(network: nn.Module, layer: str) -> Iterator[list[Tensor]]:
    """Yield a list that always holds the layer's last output, flat."""
    last: list[Tensor] = []
    hook = network.get_submodule(layer).register_forward_hook(
        lambda _, __, output: last.__setitem__(slice(None), [output.flatten(start_dim=1)])
    )
    try:
        yield last
    finally:
        hook.remove()


@contextmanager
def replaced_method(owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Replace a method of one object by what `wrap` makes of it, as long as the context lasts."""
    own, original = name in vars(owner), getattr(owner, name)
    setattr(owner, name, wrap(original))
    try:
        yield
    finally:
        if own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)


def _first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0] if args else next(iter(kwargs.values()), None)


def _zeros(observations: Observations) -> Observations:
    if isinstance(observations, Tensor):
        return torch.zeros_like(observations[:1])
    return {name: torch.zeros_like(part[:1]) for name, part in observations.items()}
