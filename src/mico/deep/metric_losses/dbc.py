r"""Deep bisimulation for control (Zhang et al., ICLR 2021), and MICo in its place.

What each variant is and where the sources differ: docs/deviations.md.
"""

from abc import abstractmethod
from functools import partial
from typing import ClassVar, Literal, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from mico._pair_loss_fields import BETA, Second
from mico.deep.elementwise_losses import huber
from mico.deep.fields import check_choices, check_minimum, check_range, static_field, traced_field
from mico.deep.metric_losses.dbc_models import DiagonalGaussian, LatentModels
from mico.deep.metric_losses.metric_loss import AbstractMetricLoss
from mico.deep.metric_losses.mico import angle, distance, distances
from mico.deep.types import Batch, FirstStep, Spec, Views

Variant = Literal["paper", "original", "rewrite"]


class AbstractModelLoss(AbstractMetricLoss):
    """Losses of models of the next representation and of the reward, and a weight times one of pairs of states.

    All is of one step, and added to the agent's loss as it is.
    """

    variant: Variant = static_field(
        "paper",
        "Version of DBC: as in its paper, as in its code, or as rewritten by MICo's authors (docs/deviations.md).",
    )
    weight: float = traced_field(
        0.5, "Weight of the loss on pairs of states; the model losses and the agent's have weight 1."
    )
    hidden: int = static_field(512, "Hidden units of the dynamics model and of the reward model.")
    initialiser: Literal["fan-in", "xavier"] = static_field(
        "fan-in", "Distribution that the models' initial weights are drawn from: xavier as MICo's authors released it."
    )
    reward_input: Literal["latent-action", "latent"] = static_field(
        "latent-action",
        "Input of the reward model: a latent and an action, or, as MICo's authors released it, the latent alone. That"
        " of variant original is a drawn next latent.",
    )

    dynamics: ClassVar[Literal["gaussian", "deterministic"]] = "gaussian"

    def __check_init__(self) -> None:
        check_choices(self)
        check_minimum(self, hidden=1)
        check_range(self, weight=(0.0, float("inf")))
        if self.variant == "original" and self.reward_input == "latent":
            raise ValueError(
                "reward_input must be latent-action with variant original, whose reward model reads a drawn next"
                " latent, got 'latent'"
            )

    @property
    def loss_weights(self) -> tuple[float | Float[Array, ""], float | Float[Array, ""]]:
        return 1.0, 1.0

    def check_agent(self, name, actions, horizon):
        if self.variant != "paper" and horizon > 1:
            raise ValueError(f"horizon must be 1 with this variant of the metric loss, but is {horizon}")
        if self.variant == "rewrite" and actions == "discrete":
            raise ValueError(f"variant 'rewrite' needs an agent with an actor, but agent is {name!r}")

    def init(self, key: Key[Array, ""], size: int, spec: Spec) -> LatentModels:
        outputs = 2 * size if self.dynamics == "gaussian" else size
        reads = size if self.variant == "original" or self.reward_input == "latent" else 0
        return LatentModels(size, spec, self.hidden, self.initialiser, outputs=outputs, reads=reads, key=key)

    def loss(self, params: LatentModels, views: Views, batch: Batch, key: Key[Array, ""]) -> Float[Array, ""]:
        of_draw, of_pairs = jax.random.split(key)
        step, (latent, later) = views.first_step, self._read(views)
        joined = params.joined(latent, batch.action)
        law = params.law(joined, latent.shape[-1])
        drawn = law.sample(of_draw)
        of_variant = drawn if self.variant == "original" else joined
        paid = params.rewards(latent if self.reward_input == "latent" else of_variant)
        errors = (drawn - later) ** 2 if self.variant == "rewrite" else law.nll(later)
        models = errors.mean() + ((paid - step.reward) ** 2).mean()
        return models + self.weight * self.of_pairs(views, jax.lax.stop_gradient(law), step, of_pairs)

    @abstractmethod
    def of_pairs(self, views: Views, law: DiagonalGaussian, step: FirstStep, key: Key[Array, ""]) -> Float[Array, ""]:
        """The loss by which representations learn a distance; the law is without gradients."""

    def _read(self, views: Views) -> tuple[Float[Array, "B D"], Float[Array, "B D"]]:
        """What the models read of a state, and what they should say of the next."""
        if self.variant == "rewrite":
            return views.actor.online, jax.lax.stop_gradient(views.actor.target_next)
        later = views.online_next if self.variant == "original" else views.first_step.target_next
        return views.online, jax.lax.stop_gradient(later)


class AbstractDBC(AbstractModelLoss):
    r"""$\mathbb E\,[(\|z_i - z_j\|_1 - |r_i - r_j| - \gamma\, W_2(N_i, N_j))^2]$ over shuffled pairs.

    $W_2^2 = \|\mu_i - \mu_j\|^2 + \|\sigma_i - \sigma_j\|^2$ between the models' laws of what comes next.
    """

    def of_pairs(self, views: Views, law: DiagonalGaussian, step: FirstStep, key: Key[Array, ""]) -> Float[Array, ""]:
        order = jax.random.permutation(key, step.reward.size)
        reward, (mean, deviation) = step.reward - step.reward[order], law.gaps(order)
        latent = views.online - views.online[order]
        if self.variant == "original":
            target = huber(reward)[:, None] + step.bootstrap * jnp.sqrt(mean**2 + deviation**2)
            return ((huber(latent) - target) ** 2).mean()
        if self.variant == "paper":
            apart = jnp.sqrt((mean**2 + deviation**2).sum(axis=-1))
        else:
            apart = jnp.linalg.norm(mean, axis=-1) + jnp.linalg.norm(deviation, axis=-1)
        target = jnp.abs(reward) + step.bootstrap * apart
        return ((jnp.abs(latent).sum(axis=-1) - target) ** 2).mean()

    def describe_distance(self, distance):
        name = "DBC" if self.dynamics == "gaussian" else "DBC-Det"
        return f"{name}'s mean Huber of φ − φ'" if self.variant == "original" else f"{name}'s ‖φ − φ'‖₁"

    def pairwise(self, x: Float[Array, "B D"], y: Float[Array, "C D"]) -> Float[Array, "B C"]:
        """The norm of the difference, one row at a time: all at once would take B·C·D numbers."""
        if self.variant == "original":
            return jax.lax.map(lambda row: huber(row - y).mean(axis=-1), x)
        return jax.lax.map(lambda row: jnp.abs(row - y).sum(axis=-1), x)


@final
class DBC(AbstractDBC):
    """DBC (Zhang et al., 2021): differences of representations learn a bisimulation distance by learnt models."""


@final
class DBCDet(AbstractDBC):
    """DBC with deterministic dynamics: no deviations in its distance, and 1 in its likelihood."""

    dynamics = "deterministic"


@final
class DBCMICo(AbstractModelLoss):
    r"""The MICo loss in the place of DBC's own, $\mathbb E\,[\rho(|r_i - r_j| + \gamma\,d(z'_i, z'_j) - U(z_i, z_j))]$.

    Pairs are shuffled. d is U by the target network or, as MICo's authors released it, the bare angle θ by the online
    one. Models are learnt as by DBC, and shape the representation beside it.
    """

    beta: float = traced_field(BETA.default, BETA.purpose)
    second: Second = static_field(
        "target",
        "Network that represents the second state of a pair: the target network, the online network without a"
        " gradient (frozen), or, as released, the online network with one.",
    )
    target_distance: Literal["full", "angle"] = static_field(
        "full", "Distance of the next states in the target: U, or, as released, the angle between them alone."
    )
    target_encoder: Literal["target", "online"] = static_field(
        "target", "Network that represents next states in the target: the target network, or, as released, the online."
    )

    def __check_init__(self) -> None:
        check_range(self, beta=(0.0, float("inf")))

    def check_agent(self, name, actions, horizon):
        super().check_agent(name, actions, horizon)
        if self.target_encoder == "online" and horizon > 1:
            raise ValueError(f"horizon must be 1 with target_encoder 'online', but is {horizon}")

    def of_pairs(self, views: Views, law: DiagonalGaussian, step: FirstStep, key: Key[Array, ""]) -> Float[Array, ""]:
        order = jax.random.permutation(key, step.reward.size)
        second = views.target if self.second == "target" else views.online
        second = second if self.second == "online" else jax.lax.stop_gradient(second)
        later = views.online_next if self.target_encoder == "online" else step.target_next
        apart = angle if self.target_distance == "angle" else partial(distance, beta=self.beta)
        found = jax.vmap(partial(distance, beta=self.beta))(views.online, second[order])
        target = jnp.abs(step.reward - step.reward[order]) + step.bootstrap * jax.vmap(apart)(later, later[order])
        return huber(jax.lax.stop_gradient(target) - found).mean()

    @property
    def angle_weight(self):
        return self.beta

    def describe_distance(self, distance):
        return f"DBC+MICo's {'U' if distance == 'learnt' else 'reduced distance βθ'}, β = {float(self.beta):g}"

    def pairwise(self, x: Float[Array, "B D"], y: Float[Array, "C D"]) -> Float[Array, "B C"]:
        return distances(x, y, self.beta)
