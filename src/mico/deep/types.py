"""The shared vocabulary of environments, replay, agents and metric losses."""

from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Shaped


class Spec(NamedTuple):
    """What an environment shows, one frame at a time, and what actions it takes.

    Either one of `num_actions`, or a vector of `action_size` numbers, each in [-1, 1]; the other count is 0.
    """

    shape: tuple[int, ...]
    dtype: str  # bool, uint8 or float32
    num_actions: int
    action_size: int = 0

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Of one action."""
        return () if self.num_actions else (self.action_size,)

    @property
    def action_dtype(self) -> str:
        return "int32" if self.num_actions else "float32"


class Params(NamedTuple):
    r"""What is learnt: $\omega$ of the encoder, the head, and a metric loss's own."""

    encoder: Any
    head: Any
    metric: Any


class Timestep(NamedTuple):
    """One step of one or several environments, in JAX's arrays or NumPy's; axes of time or environments come first.

    An environment fills in what it knows; whoever steps it adds the rest.

    Attributes:
        reward: The reward of the action.
        next_frame: The frame that the action led to, also where the episode ended with it.
        terminal: Whether the episode ended there.
        truncated: Whether the episode was cut off there by a time limit; never together with `terminal`.
        reset_frame: The frame to act on next: `next_frame`, or the first one of the next episode.
        observation_frame: The frame before the action.
        action: The action.
    """

    reward: Any
    next_frame: Any
    terminal: Any
    truncated: Any
    reset_frame: Any = None
    observation_frame: Any = None
    action: Any = None

    @property
    def ended(self) -> Any:
        """Whether the episode ended in either way."""
        return self.terminal | self.truncated


class FirstTransition(NamedTuple):
    """The first step alone of windows of n steps."""

    reward: Float[Array, " B"]
    next_observation: Shaped[Array, "B ..."]
    terminal: Bool[Array, " B"]


class Batch(NamedTuple):
    r"""Replayed windows of n steps, $n = 1$ included; a window stops early where its episode ends.

    `reward` is $\sum_{k<m} \gamma^k r_k$ over the m steps taken, `discount` is $\gamma^m$, or 0 after a terminal;
    `bootstrap` is $\gamma^n$, one number for all; `weight` corrects for how the replay sampled.
    """

    observation: Shaped[Array, "B ..."]
    action: Shaped[Array, "B ..."]
    reward: Float[Array, " B"]
    next_observation: Shaped[Array, "B ..."]
    terminal: Bool[Array, " B"]
    discount: Float[Array, " B"]
    bootstrap: Float[Array, ""]
    weight: Float[Array, " B"]
    first: FirstTransition | None = None


class FirstStep(NamedTuple):
    r"""The first step alone of n-step windows: reward, $\phi_{\bar\omega}$ of where it led, its end, and $\gamma$."""

    reward: Float[Array, " B"]
    target_next: Float[Array, "B D"]
    terminal: Bool[Array, " B"]
    bootstrap: Float[Array, ""]


class Sink(NamedTuple):
    """How the state after a terminal one, seen as the all-zero observation, looks to both networks."""

    online: Float[Array, " D"]
    target: Float[Array, " D"]


class Features(NamedTuple):
    r"""What $\phi$ is projected from: $x$ and $x'$ (without gradients) as seen online, $x'$ by the target network."""

    now: Float[Array, "B F"]
    later: Float[Array, "B F"]
    target_later: Float[Array, "B F"]


class ActorLatents(NamedTuple):
    r"""An actor's own view of $x$ and, by the target network, of $x'$."""

    online: Float[Array, "B D"]
    target_next: Float[Array, "B D"]


class Views(NamedTuple):
    r"""Representations $\phi_\omega(x)$, $\phi_{\bar\omega}(x)$, $\phi_{\bar\omega}(x')$; others where a loss asks."""

    online: Float[Array, "B D"]
    target: Float[Array, "B D"]
    target_next: Float[Array, "B D"]
    first_step: FirstStep | None = None
    sink: Sink | None = None
    features: Features | None = None
    online_next: Float[Array, "B D"] | None = None  # without gradients
    actor: ActorLatents | None = None
