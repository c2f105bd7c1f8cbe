r"""The MICo loss: norms and angles of representations learn the MICo distance (the paper's section 5 and appendix).

For an agent of your own, arrays in and a scalar out:

    from mico.deep.metric_losses import MICo
    from mico.deep.metric_losses.mico import Pairs

    mico = MICo(alpha=0.01, beta=0.1)

    def loss(params, target_params, x, reward, next_x, key):
        td = ...  # your own loss
        sides = Pairs(encode(params, x), encode(target_params, x), encode(target_params, next_x), reward, 0.99)
        return (1 - mico.alpha) * td + mico.alpha * mico.over(sides, key)
"""

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, Num

from mico.deep.types import Batch, Sink, Views

_ROUNDING = 16  # squared sines up to this many units of rounding, which a long product may gather, are taken for 0


class Pairs(NamedTuple):
    r"""What is paired: $\phi_\omega(x)$, $\phi_{\bar\omega}(x)$, $\phi_{\bar\omega}(x')$, rewards, $\gamma^n$."""

    online: Float[Array, "B D"]
    target: Float[Array, "B D"]
    target_next: Float[Array, "B D"]
    reward: Float[Array, " B"]
    bootstrap: Num[Array, ""] | float


class MICo(eqx.Module):
    r"""$\mathcal L = \mathbb E\,[\rho(|r_x - r_y| + \gamma^n U_{\bar\omega}(x', y') - U_\omega(x, y))]$ over pairs.

    The defaults are those of the released code; each other value is another reading of the paper (docs/fidelity.md).
    """

    alpha: float = 0.01
    beta: float = 0.1
    pairs: Literal["all", "shuffled"] = eqx.field(static=True, default="all")
    self_pairs: Literal["include", "exclude"] = eqx.field(static=True, default="include")
    second: Literal["target", "frozen", "online"] = eqx.field(static=True, default="target")
    error: Literal["huber", "squared"] = eqx.field(static=True, default="huber")
    horizon: Literal["n-step", "one-step"] = eqx.field(static=True, default="n-step")
    terminals: Literal["bootstrap", "absorbing"] = eqx.field(static=True, default="bootstrap")

    def loss(self, params: None, views: Views, batch: Batch, key: Key[Array, ""]) -> Float[Array, ""]:
        """The loss of a batch as an agent replays it."""
        del params
        sides = Pairs(views.online, views.target, views.target_next, batch.reward, batch.bootstrap)
        if self.horizon == "one-step":
            if views.first_step is None:
                raise ValueError("horizon='one-step' needs views.first_step")
            sides = sides._replace(**views.first_step._asdict())
        if self.terminals == "absorbing":
            if views.sink is None:
                raise ValueError("terminals='absorbing' needs views.sink")
            sides = _with_sink(sides, views.sink, batch.terminal)
        return self.over(sides, key)

    def over(self, sides: Pairs, key: Key[Array, ""]) -> Float[Array, ""]:
        """The mean error over the pairs; gradients reach the online representations alone."""
        sides = jax.tree.map(jnp.asarray, sides)
        fixed = jax.lax.stop_gradient(sides)
        other = {"target": fixed.target, "frozen": fixed.online, "online": sides.online}[self.second]
        if self.pairs == "all":
            found = distances(sides.online, other, self.beta)
            later = distances(fixed.target_next, fixed.target_next, self.beta)
            gap = jnp.abs(fixed.reward[:, None] - fixed.reward[None, :])
            same = jnp.eye(gap.shape[0], dtype=bool)
        else:
            order = jax.random.permutation(key, sides.reward.shape[0])
            each = jax.vmap(distance, in_axes=(0, 0, None))
            found = each(sides.online, other[order], self.beta)
            later = each(fixed.target_next, fixed.target_next[order], self.beta)
            gap = jnp.abs(fixed.reward - fixed.reward[order])
            same = order == jnp.arange(order.size)
        errors = _ERRORS[self.error](jax.lax.stop_gradient(gap + sides.bootstrap * later) - found)
        counted = ~same if self.self_pairs == "exclude" else jnp.ones_like(same)
        return jnp.where(counted, errors, 0.0).sum() / jnp.maximum(counted.sum(), 1)


def distance(x: Float[Array, " D"], y: Float[Array, " D"], beta: float | Float[Array, ""]) -> Float[Array, ""]:
    r"""$U_\omega = \tfrac12(\|\phi_x\|^2 + \|\phi_y\|^2) + \beta\,\theta(\phi_x, \phi_y)$ of two representations."""
    return (_square(x) + _square(y)) / 2 + beta * angle(x, y)


def distances(x: Float[Array, "B D"], y: Float[Array, "C D"], beta: float | Float[Array, ""]) -> Float[Array, "B C"]:
    """The distance of every x to every y, through one matrix product."""
    cosine = jnp.matmul(_direction(x), _direction(y).T, precision="highest")
    return (_square(x)[:, None] + _square(y)[None, :]) / 2 + beta * _angle(cosine)


def angle(x: Float[Array, " D"], y: Float[Array, " D"]) -> Float[Array, ""]:
    r"""$\theta = \arctan2(\sqrt{1 - c^2}, c)$ with c the cosine; 0 between two zero vectors, $\pi/2$ if one is zero."""
    return _angle(jnp.dot(_direction(x), _direction(y), precision="highest"))


def _angle(cosine: Float[Array, "..."]) -> Float[Array, "..."]:
    """Where the sine is rounding the gradient is 0, which is one of the angle's subgradients there."""
    square = 1 - cosine**2
    known = square > _ROUNDING * jnp.finfo(cosine.dtype).eps
    sine = jnp.where(known, jnp.sqrt(jnp.where(known, square, 1.0)), 0.0)
    straight = jnp.arctan2(jnp.zeros_like(cosine), jax.lax.stop_gradient(cosine))
    return jnp.where(known, jnp.arctan2(sine, jnp.where(known, cosine, 1.0)), straight)


def _direction(x: Float[Array, "... D"]) -> Float[Array, "... E"]:
    """Vectors of length one. Zero vectors point along an axis of their own; sizes from 1e-20 to 1e15 are no matter."""
    x = _precise(x)
    size = jax.lax.stop_gradient(jnp.abs(x).max(axis=-1, keepdims=True))
    zero = size == 0
    scaled = jnp.where(zero, 0.0, x / jnp.where(zero, 1.0, size))
    square = (scaled**2).sum(axis=-1, keepdims=True)
    unit = scaled / jnp.sqrt(jnp.where(zero, 1.0, square))
    return jnp.concatenate([unit, zero.astype(unit.dtype)], axis=-1)


def _square(x: Float[Array, "... D"]) -> Float[Array, "..."]:
    return (_precise(x) ** 2).sum(axis=-1)


def _precise(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """At least float32, whatever the networks compute in."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _with_sink(sides: Pairs, sink: Sink, terminal: Bool[Array, " B"]) -> Pairs:
    """Terminal windows lead to the sink, and its own transition joins them: from itself to itself, for nothing."""
    after = jnp.where(terminal[:, None], sink.target, sides.target_next)
    return sides._replace(
        online=jnp.vstack([sides.online, sink.online]),
        target=jnp.vstack([sides.target, sink.target]),
        target_next=jnp.vstack([after, sink.target]),
        reward=jnp.append(sides.reward, 0.0),
    )


def _huber(error: Float[Array, "..."]) -> Float[Array, "..."]:
    size = jnp.abs(error)
    inside = jnp.minimum(size, 1.0)  # squares of what is outside could overflow
    return jnp.where(size <= 1.0, inside**2 / 2, size - 0.5)


_ERRORS = {"huber": _huber, "squared": jnp.square}
