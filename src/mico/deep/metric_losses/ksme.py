r"""The KSMe loss: inner products of representations learn a kernel whose squared distance is the reduced MICo distance.

Castro, Kastner, Panangaden and Rowland, "A Kernel Perspective on Behavioural Metrics for Markov Decision Processes",
TMLR 2023.
"""

from typing import final

from jaxtyping import Array, Float

from mico.deep.metric_losses.cosine import inner_products
from mico.deep.metric_losses.pair_loss import AbstractPairLoss


@final
class KSMe(AbstractPairLoss):
    r"""KSMe (Castro et al., 2023): products of representations learn a kernel whose distance is reduced MICo.

    $\mathbb E\,[\rho(1 - \tfrac12|r_x - r_y| + \gamma^n k_{\bar\omega}(x', y') - k_\omega(x, y))]$ over pairs.

    The kernel is $k(x, y) = \langle\phi_x, \phi_y\rangle$. The immediate similarity $1 - \tfrac12|r_x - r_y|$ is that
    of rewards in $[-1, 1]$, where it is a kernel with values in $[0, 1]$; rewards beyond, n-step sums among them, go
    through the same formula, as released. Pairs, error, second argument and DQN's $\alpha$ are there those of MICo.
    """

    nearest = "largest"

    def describe_distance(self, distance):
        return "KSMe's kernel, largest first" if distance == "learnt" else "KSMe's ½‖φ − φ'‖²"

    def pairwise(self, x: Float[Array, "B D"], y: Float[Array, "C D"]) -> Float[Array, "B C"]:
        return inner_products(x, y)

    def reward_term(self, gap: Float[Array, "..."]) -> Float[Array, "..."]:
        return 1 - gap / 2
