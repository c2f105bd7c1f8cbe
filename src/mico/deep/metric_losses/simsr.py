r"""The SimSR loss (Zang, Li and Wang, AAAI 2022): directions of representations learn a distance of behaviour."""

from typing import Literal, final

from jaxtyping import Array, Float

from mico import _pair_loss_fields as declared
from mico.deep.fields import static_field, traced_field
from mico.deep.metric_losses.cosine import pairwise_cosine
from mico.deep.metric_losses.metric_loss import AbstractMetricLoss
from mico.deep.metric_losses.pair_loss import AbstractPairLoss


@final
class SimSR(AbstractPairLoss):
    r"""SimSR (Zang et al., 2022): directions of representations learn a distance of behaviour.

    $\mathbb E\,[\rho(|r_x - r_y| + \gamma\, d_{\bar\omega}(x', y') - d_\omega(x, y))]$ over pairs.

    The distance is $d(x, y) = 1 - \cos(\phi_x, \phi_y)$. The paper's encoder has outputs of length one; here the loss
    normalises, and the agent may use the lengths. Next states are the sampled ones, not those of the paper's learnt
    model of latent dynamics. One step, all pairs, Huber's error and gradients through both arguments are as released;
    there the agent's loss and this one take steps in turn, for which $\alpha = \tfrac12$ stands in here.
    """

    alpha: float = traced_field(declared.SIMSR["alpha"].default, declared.ALPHA.purpose)
    second: declared.Second = static_field(declared.SIMSR["second"].default, declared.SECOND.purpose)
    horizon: declared.Horizon = static_field(declared.SIMSR["horizon"].default, declared.HORIZON.purpose)

    @classmethod
    def for_preset(cls, alpha: float, actions: Literal["discrete", "continuous"]) -> AbstractMetricLoss:
        """Make the loss of a preset, which leaves SimSR its own weight."""
        return cls()

    def describe_distance(self, distance):
        return "SimSR's 1 − cos"

    def pairwise(self, x: Float[Array, "B D"], y: Float[Array, "C D"]) -> Float[Array, "B C"]:
        return 1 - pairwise_cosine(x, y).cosine
