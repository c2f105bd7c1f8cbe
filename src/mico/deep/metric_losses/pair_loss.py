"""What the losses over pairs of transitions share: who is paired, what counts as target, how errors are averaged."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from array_api_compat import is_torch_array
from jaxtyping import Array, Bool, Float, Key, Num

from mico import _pair_loss_fields as declared
from mico.deep.elementwise_losses import ELEMENTWISE_LOSSES
from mico.deep.fields import check_choices, check_range, static_field, traced_field
from mico.deep.metric_losses.metric_loss import AbstractMetricLoss
from mico.deep.types import Batch, FirstStep, Sink, Spec, Views


class PairBatch(NamedTuple):
    r"""What is paired: $\phi_\omega(x)$, $\phi_{\bar\omega}(x)$, $\phi_{\bar\omega}(x')$, rewards, $\gamma^n$.

    `terminal` and `sink` are for terminals="absorbing", `first_step` for horizon="one-step" where n is not 1: without
    it the pairs are taken to be of one step. Their types are those of `mico.deep.types`.
    """

    online: Float[Array, "B D"]
    target: Float[Array, "B D"]
    target_next: Float[Array, "B D"]
    reward: Float[Array, " B"]
    bootstrap: Num[Array, ""] | float
    terminal: Bool[Array, " B"] | None = None
    first_step: FirstStep | None = None
    sink: Sink | None = None


class AbstractPairLoss(AbstractMetricLoss):
    r"""$\mathbb E\,[\rho(f(|r_x - r_y|) + \gamma^n m_{\bar\omega}(x', y') - m_\omega(x, y))]$ over pairs.

    A loss says what m it learns of a pair, and what f makes of the gap of rewards.
    """

    alpha: float = traced_field(declared.ALPHA.default, declared.ALPHA.purpose)
    pairs: declared.Pairs = static_field(declared.PAIRS.default, declared.PAIRS.purpose)
    self_pairs: declared.SelfPairs = static_field(declared.SELF_PAIRS.default, declared.SELF_PAIRS.purpose)
    second: declared.Second = static_field(declared.SECOND.default, declared.SECOND.purpose)
    error: declared.Error = static_field(declared.ERROR.default, declared.ERROR.purpose)
    horizon: declared.Horizon = static_field(declared.HORIZON.default, declared.HORIZON.purpose)
    terminals: declared.Terminals = static_field(declared.TERMINALS.default, declared.TERMINALS.purpose)

    def __check_init__(self) -> None:
        check_choices(self)
        check_range(self, alpha=(0.0, 1.0))

    @classmethod
    def for_preset(cls, alpha: float, actions: Literal["discrete", "continuous"]) -> AbstractMetricLoss:
        return cls(alpha=alpha)

    @property
    def loss_weights(self) -> tuple[float | Float[Array, ""], float | Float[Array, ""]]:
        return 1 - self.alpha, self.alpha

    def priority_term(self, weighted: Float[Array, ""]) -> Float[Array, ""]:
        return weighted

    def reward_term(self, gap: Float[Array, "..."]) -> Float[Array, "..."]:
        """The part of the target that the rewards give."""
        return gap

    def init(self, key: Key[Array, ""], size: int, spec: Spec) -> None:
        """No parameters of its own."""
        del key, size, spec

    def loss(self, params: None, views: Views, batch: Batch, key: Key[Array, ""]) -> Float[Array, ""]:
        del params
        sides = PairBatch(views.online, views.target, views.target_next, batch.reward, batch.bootstrap, batch.terminal)
        if self.horizon == "one-step":
            sides = sides._replace(first_step=views.first_step)
        if self.terminals == "absorbing":
            sides = sides._replace(sink=views.sink)
        return self(sides, key)

    def __call__(self, sides: PairBatch, key: Key[Array, ""]) -> Float[Array, ""]:
        """The mean error over the pairs; gradients reach the online representations alone."""
        for name, part in sides._asdict().items():
            if any(map(is_torch_array, jax.tree.leaves(part))):
                raise ValueError(f"{name} must be an array, as for PyTorch's tensors there is mico.torch")
        first_step, sink = sides.first_step and FirstStep(*sides.first_step), sides.sink and Sink(*sides.sink)
        sides = sides._replace(first_step=first_step, sink=sink)
        sides = self._meant(jax.tree.map(jnp.asarray, sides, is_leaf=lambda part: type(part) in (list, tuple)))
        constant = jax.lax.stop_gradient(sides)
        other = {"target": constant.target, "frozen": constant.online, "online": sides.online}[self.second]
        if self.pairs == "all":
            found = self.pairwise(sides.online, other)
            later = self.pairwise(constant.target_next, constant.target_next)
            gap = jnp.abs(constant.reward[:, None] - constant.reward[None, :])
            same = jnp.eye(gap.shape[0], dtype=bool)
        else:
            order = jax.random.permutation(key, sides.reward.shape[0])
            found = jax.vmap(self.measure)(sides.online, other[order])
            later = jax.vmap(self.measure)(constant.target_next, constant.target_next[order])
            gap = jnp.abs(constant.reward - constant.reward[order])
            same = order == jnp.arange(order.size)
        target = jax.lax.stop_gradient(self.reward_term(gap) + constant.bootstrap * later)
        errors = ELEMENTWISE_LOSSES[self.error](target - found)
        counted = ~same if self.self_pairs == "exclude" else jnp.ones_like(same)
        return jnp.where(counted, errors, 0.0).sum() / jnp.maximum(counted.sum(), 1)

    def _meant(self, sides: PairBatch) -> PairBatch:
        """The pairs that horizon and terminals mean, with nothing beside them."""
        if self.horizon == "one-step" and sides.first_step is not None:
            reward, target_next, terminal, bootstrap = sides.first_step
            sides = sides._replace(reward=reward, target_next=target_next, terminal=terminal, bootstrap=bootstrap)
        if self.terminals == "bootstrap":
            sides = sides._replace(terminal=None, sink=None)
        _check(sides)
        if not jnp.issubdtype(sides.reward.dtype, jnp.floating):  # differences of unsigned numbers wrap around
            sides = sides._replace(reward=sides.reward.astype(jnp.promote_types(sides.online.dtype, jnp.float32)))
        bare = sides._replace(terminal=None, first_step=None, sink=None)
        if self.terminals == "bootstrap":
            return bare
        if sides.terminal is None or sides.sink is None:
            raise ValueError("terminals='absorbing' needs terminal and sink of the pairs, but one is None")
        return _with_sink(bare, sides.sink, sides.terminal)


def _check(sides: PairBatch) -> None:
    """A row a transition: other shapes could be broadcast to something else."""
    if sides.online.ndim != 2:
        raise ValueError(f"online must have shape [B, D], but has {list(sides.online.shape)}")
    if jnp.ndim(sides.bootstrap) != 0:
        raise ValueError(f"bootstrap must be one number, but has shape {list(jnp.shape(sides.bootstrap))}")
    rows, width = sides.online.shape
    parts = [("target", sides.target, [rows, width]), ("target_next", sides.target_next, [rows, width])]
    parts.append(("reward", sides.reward, [rows]))
    if sides.terminal is not None:
        parts.append(("terminal", sides.terminal, [rows]))
    if sides.sink is not None:
        online, target = sides.sink
        parts += [("sink.online", online, [width]), ("sink.target", target, [width])]
    for name, part, shape in parts:
        if list(part.shape) != shape:
            raise ValueError(f"{name} has shape {list(part.shape)}, but online asks for {shape}")
    if sides.terminal is not None and sides.terminal.dtype != bool:
        raise ValueError(f"terminal must be of booleans, but is of {sides.terminal.dtype}")


def _with_sink(sides: PairBatch, sink: Sink, terminal: Bool[Array, " B"]) -> PairBatch:
    """Terminal transitions lead to the sink, and its own joins them: from itself to itself, for nothing."""
    after = jnp.where(terminal[:, None], sink.target, sides.target_next)
    return sides._replace(
        online=jnp.vstack([sides.online, sink.online]),
        target=jnp.vstack([sides.target, sink.target]),
        target_next=jnp.vstack([after, sink.target]),
        reward=jnp.append(sides.reward, 0.0),
    )
