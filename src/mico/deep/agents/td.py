"""TD losses of one transition; `vmap` for many. `discount` is that of the next state's value, 0 after a terminal."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mico.deep.elementwise_losses import ELEMENTWISE_LOSSES

_STEEPEST = 1e-30  # errors below it are as good as 0
_TARGETS = 4  # that a loop takes at once

Scalar = Float[Array, ""]
Action = Int[Array, ""]


def q_learning(
    q: Float[Array, " A"],
    action: Action,
    reward: Scalar,
    discount: Scalar,
    q_next: Float[Array, " A"],
    error: Literal["squared", "huber"],
) -> Scalar:
    r"""$\rho(r + \gamma \max_{a'} \bar Q(x', a') - Q(x, a))$, squared or Huber's ρ (DQN: Mnih et al., 2015)."""
    target = jax.lax.stop_gradient(reward + discount * q_next.max())
    return ELEMENTWISE_LOSSES[error](target - select_action(q, action))


def categorical(
    logits: Float[Array, "A K"],
    action: Action,
    reward: Scalar,
    discount: Scalar,
    logits_next: Float[Array, "A K"],
    atoms: Float[Array, " K"],
) -> Scalar:
    r"""$-\sum_i m_i \log p_i(x, a)$, m the projected law of $r + \gamma \bar Z(x', a^*)$ (C51: Bellemare et al., 2017).

    The next action $a^*$ is greedy by the mean.
    """
    probabilities = jax.nn.softmax(logits_next)
    greedy = (probabilities * atoms).sum(axis=-1).argmax()
    target = project(reward + discount * atoms, select_action(probabilities, greedy), atoms)
    return -(jax.lax.stop_gradient(target) * jax.nn.log_softmax(select_action(logits, action))).sum()


def project(
    atoms_moved: Float[Array, " L"], probabilities: Float[Array, " L"], atoms: Float[Array, " K"]
) -> Float[Array, " K"]:
    r"""$(\Phi p)_i = \sum_j [1 - |[\hat z_j]_{z_1}^{z_K} - z_i| / \Delta z]_0^1\, p_j$, atoms evenly spaced (C51)."""
    spacing = (atoms[-1] - atoms[0]) / (atoms.size - 1)
    steps = jnp.abs(jnp.clip(atoms_moved, atoms[0], atoms[-1]) - atoms[:, None]) / spacing
    return (jnp.clip(1 - steps, 0, 1) * probabilities).sum(axis=-1)


def quantile_huber(
    quantiles: Float[Array, " N"], tau: Float[Array, " N"], targets: Float[Array, " M"], kappa: float | Scalar
) -> Scalar:
    r"""$\sum_i \mathbb E_j\,[|\tau_i - 1\{u_{ij} < 0\}|\, L_\kappa(u_{ij}) / \kappa]$, $u_{ij} = y_j - \theta_i$.

    Quantile regression (QR-DQN: Dabney et al., 2018), $L_\kappa$ Huber's error; at $\kappa = 0$ the limit, $|u|$.
    Gradients reach the quantiles $\theta$ alone.
    """
    return _quantile_huber(quantiles, *jax.lax.stop_gradient((tau, targets, jnp.asarray(kappa, quantiles.dtype))))


@jax.custom_jvp
def _quantile_huber(
    quantiles: Float[Array, " N"], tau: Float[Array, " N"], targets: Float[Array, " M"], kappa: Scalar
) -> Scalar:
    return _of_quantiles(quantiles, tau, targets, kappa)[0].sum()


@_quantile_huber.defjvp
def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Scalar, Scalar]:
    """Slopes are sums over pairs like the losses, so that nothing of their number is kept for them, or made again."""
    losses, slopes = _of_quantiles(*primals)
    return losses.sum(), (slopes * tangents[0]).sum()


def _of_quantiles(
    quantiles: Float[Array, " N"], tau: Float[Array, " N"], targets: Float[Array, " M"], kappa: Scalar
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    r"""Losses and their slopes, $-\mathbb E_j\,[|\tau_i - 1\{u_{ij} < 0\}|\, c_{ij}]$, $c = [u / \kappa]_{-1}^1$.

    $L_\kappa(u) / \kappa = c\,(u - \kappa c / 2)$, and at $\kappa = 0$ the sign c makes it $|u|$.
    """
    steep = 1 / jnp.maximum(kappa, _STEEPEST)

    def of(target: Scalar) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        error = target - quantiles
        slope = jnp.clip(error * steep, -1.0, 1.0)
        weighted = jnp.where(error < 0, 1 - tau, tau) * slope
        return weighted * (error - kappa / 2 * slope), -weighted

    if jax.default_backend() == "cpu":  # which would write all pairs down before it summed them up

        def add(sums: Any, target: Scalar) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, sums, of(target)), None

        none = jnp.zeros_like(quantiles), jnp.zeros_like(quantiles)
        (losses, slopes), _ = jax.lax.scan(add, none, targets, unroll=_TARGETS)
    else:
        losses, slopes = (pairs.sum(axis=1) for pairs in jax.vmap(of, out_axes=1)(targets))
    return losses / targets.size, slopes / targets.size


def quantile_target(
    reward: Scalar, discount: Scalar, z_next: Float[Array, "A M"], q_next: Float[Array, " A"]
) -> Float[Array, " M"]:
    r"""$r + \gamma \bar Z_{\tau'}(x', \arg\max_{a'} \bar Q(x', a'))$ (IQN: Dabney et al., 2018b)."""
    return jax.lax.stop_gradient(reward + discount * select_action(z_next, q_next.argmax()))


def munchausen_target(
    reward: Scalar,
    discount: Scalar,
    z_next: Float[Array, "A M"],
    q_next: Float[Array, " A"],
    q: Float[Array, " A"],
    action: Action,
    temperature: float | Scalar,
    scale: float | Scalar,
    clip: float | Scalar,
) -> Float[Array, " M"]:
    r"""$r + \alpha [\tau \log\pi(a|x)]_{l}^0 + \gamma \sum_{a'} \pi(a'|x') (\bar Z(x', a') - \tau \log\pi(a'|x'))$.

    The target of M-IQN (Vieillard, Pietquin and Geist, 2020): $\pi = \mathrm{softmax}(\bar Q / \tau)$, τ the
    temperature, α the scale, l the clip.
    """
    bonus = jnp.clip(select_action(_log_policy(q, temperature), action), clip, 0.0)
    later = _log_policy(q_next, temperature)[:, None]
    value = (jnp.exp(later / temperature) * (z_next - later)).sum(axis=0)
    return jax.lax.stop_gradient(reward + scale * bonus + discount * value)


def _log_policy(q: Float[Array, " A"], temperature: float | Scalar) -> Float[Array, " A"]:
    r"""$\tau \log \mathrm{softmax}(q / \tau)$, the largest value taken off first."""
    centred = q - q.max()
    return centred - temperature * jax.nn.logsumexp(centred / temperature)


def select_action(values: Float[Array, "A ..."], action: Action) -> Float[Array, "..."]:
    """The row of an action. As a sum, because the gradient of an index is a scatter, which does not fuse."""
    chosen = (jnp.arange(values.shape[0]) == action).reshape(-1, *[1] * (values.ndim - 1))
    return jnp.where(chosen, values, 0.0).sum(axis=0)
