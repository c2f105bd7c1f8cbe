r"""Deep bisimulation for control (Zhang et al., ICLR 2021), and MICo in its place.

What each variant is and where the sources differ: docs/fidelity.md.
"""

from abc import abstractmethod
from typing import ClassVar, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from mico.deep.elementwise_losses import huber
from mico.deep.fields import check_choices, check_minimum, check_range, static_field, traced_field
from mico.deep.metric_losses.dbc_models import DiagonalGaussian, LatentModels
from mico.deep.metric_losses.metric_loss import AbstractMetricLoss
from mico.deep.metric_losses.mico import MICo, distances
from mico.deep.metric_losses.pair_loss import PairBatch
from mico.deep.types import Batch, FirstStep, Spec, Views

Variant = Literal["paper", "original", "rewrite"]


class AbstractModelLoss(AbstractMetricLoss):
    """Losses of models of the next representation and of the reward, and a weight times one of pairs of states.

    All is of one step, and added to the agent's loss as it is.
    """

    variant: Variant = static_field(
        "paper",
        "Version of DBC: as in its paper, as in its code, or as rewritten by MICo's authors (docs/fidelity.md).",
    )
    weight: float = traced_field(
        0.5, "Weight of the loss on pairs of states; the model losses and the agent's have weight 1."
    )
    hidden: int = static_field(512, "Hidden units of the dynamics model and of the reward model.")

    dynamics: ClassVar[Literal["gaussian", "deterministic"]] = "gaussian"

    def __check_init__(self) -> None:
        check_choices(self)
        check_minimum(self, hidden=1)
        check_range(self, weight=(0.0, float("inf")))

    @property
    def loss_weights(self):
        return 1.0, 1.0

    @property
    def needs(self) -> frozenset[str]:
        also = {"paper": (), "original": ("online-next",), "rewrite": ("actor",)}[self.variant]
        return frozenset({"first-step", *also})

    def init(self, key: Key[Array, ""], size: int, spec: Spec) -> LatentModels:
        outputs = 2 * size if self.dynamics == "gaussian" else size
        reads = size if self.variant == "original" else 0
        return LatentModels(size, spec, self.hidden, outputs=outputs, reads=reads, key=key)

    def loss(self, params: LatentModels, views: Views, batch: Batch, key: Key[Array, ""]) -> Float[Array, ""]:
        of_draw, of_pairs = jax.random.split(key)
        step, (latent, later) = _first_step(views), self._read(views)
        joined = params.joined(latent, batch.action)
        law = params.law(joined, latent.shape[-1])
        drawn = law.sample(of_draw)
        paid = params.rewards(drawn if self.variant == "original" else joined)
        errors = (drawn - later) ** 2 if self.variant == "rewrite" else law.nll(later)
        models = errors.mean() + ((paid - step.reward) ** 2).mean()
        return models + self.weight * self.of_pairs(views, jax.lax.stop_gradient(law), step, of_pairs)

    @abstractmethod
    def of_pairs(self, views: Views, law: DiagonalGaussian, step: FirstStep, key: Key[Array, ""]) -> Float[Array, ""]:
        """The loss by which representations learn a distance; the law is without gradients."""

    def _read(self, views: Views) -> tuple[Float[Array, "B D"], Float[Array, "B D"]]:
        """What the models read of a state, and what they should say of the next."""
        if self.variant == "rewrite":
            if views.actor is None:
                raise ValueError("variant='rewrite' needs views.actor")
            return views.actor.online, jax.lax.stop_gradient(views.actor.target_next)
        later = views.online_next if self.variant == "original" else _first_step(views).target_next
        if later is None:
            raise ValueError("variant='original' needs views.online_next")
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
    """The MICo loss in the place of DBC's own: full U, the target network for the second state, shuffled pairs.

    Models are learnt as by DBC, and shape the representation beside it.
    """

    beta: float = traced_field(
        0.1, "Weight β of the angle between representations in MICo's parametrisation of the distance."
    )

    def __check_init__(self) -> None:
        check_range(self, beta=(0.0, float("inf")))

    def of_pairs(self, views: Views, law: DiagonalGaussian, step: FirstStep, key: Key[Array, ""]) -> Float[Array, ""]:
        sides = PairBatch(views.online, views.target, step.target_next, step.reward, step.bootstrap)
        mico = eqx.tree_at(lambda loss: loss.beta, MICo(pairs="shuffled"), self.beta)  # in a fleet not a float
        return mico(sides, key)

    def pairwise(self, x: Float[Array, "B D"], y: Float[Array, "C D"]) -> Float[Array, "B C"]:
        return distances(x, y, self.beta)


def _first_step(views: Views) -> FirstStep:
    if views.first_step is None:
        raise ValueError("models are of one step: they need views.first_step")
    return views.first_step
