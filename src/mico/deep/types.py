"""The shared vocabulary of agents and metric losses: what a batch holds, and how states look to the networks."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float, Int, Shaped


class FirstStep(NamedTuple):
    r"""The first step alone of n-step windows: reward, $\phi_{\bar\omega}$ of the state it led to, and $\gamma$."""

    reward: Float[Array, " B"]
    target_next: Float[Array, "B D"]
    bootstrap: Float[Array, ""]


class Sink(NamedTuple):
    """How the state after a terminal one, seen as the all-zero observation, looks to both networks."""

    online: Float[Array, " D"]
    target: Float[Array, " D"]


class Views(NamedTuple):
    r"""Representations $\phi_\omega(x)$, $\phi_{\bar\omega}(x)$, $\phi_{\bar\omega}(x')$; others where a loss asks."""

    online: Float[Array, "B D"]
    target: Float[Array, "B D"]
    target_next: Float[Array, "B D"]
    first_step: FirstStep | None = None
    sink: Sink | None = None


class Batch(NamedTuple):
    r"""Replayed transitions of n steps, $n = 1$ included.

    `reward` is $\sum_k \gamma^k r_k$; `bootstrap` is $\gamma^n$, one number for all; `terminal` says that the episode
    ended inside the window; `weight` corrects for how the replay sampled.
    """

    observation: Shaped[Array, "B ..."]
    action: Int[Array, " B"]
    reward: Float[Array, " B"]
    next_observation: Shaped[Array, "B ..."]
    terminal: Bool[Array, " B"]
    bootstrap: Float[Array, ""]
    weight: Float[Array, " B"]
