"""The shared vocabulary of environments, replay, agents and metric losses."""

from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
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
    first: FirstTransition


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


class ActorLatents(NamedTuple):
    r"""An actor's own view of $x$ and, by the target network, of $x'$."""

    online: Float[Array, "B D"]
    target_next: Float[Array, "B D"]


class Representations(NamedTuple):
    r"""$\phi_\omega(x)$, $\phi_{\bar\omega}(x)$ and $\phi_{\bar\omega}(x')$, of one transition or of a batch."""

    online: Float[Array, "*B D"]
    target: Float[Array, "*B D"]
    target_next: Float[Array, "*B D"]


class Views:
    """What the online and the target network make of a batch. Each view is computed when it is first asked for."""

    def __init__(self, agent: Any, params: Params, target: Params, batch: Batch):
        self._given = agent, params, target, batch

    @cached_property
    def online(self) -> Float[Array, "B D"]:
        r"""$\phi_\omega(x)$."""
        return _project(self._given[1], self.features)

    @cached_property
    def target(self) -> Float[Array, "B D"]:
        r"""$\phi_{\bar\omega}(x)$."""
        _, _, target, batch = self._given
        return _project(target, _features(target, batch.observation))

    @cached_property
    def target_next(self) -> Float[Array, "B D"]:
        r"""$\phi_{\bar\omega}(x')$."""
        return _project(self._given[2], self.target_features_next)

    @cached_property
    def online_next(self) -> Float[Array, "B D"]:
        r"""$\phi_\omega(x')$, without gradients."""
        return jax.lax.stop_gradient(_project(self._given[1], self.features_next))

    @cached_property
    def features(self) -> Float[Array, "B F"]:
        r"""Features of $x$ by the online network, of which $\phi$ is a projection."""
        _, params, _, batch = self._given
        return _features(params, batch.observation)

    @cached_property
    def features_next(self) -> Float[Array, "B F"]:
        r"""Features of $x'$ by the online network, without gradients."""
        _, params, _, batch = self._given
        return jax.lax.stop_gradient(_features(params, batch.next_observation))

    @cached_property
    def target_features_next(self) -> Float[Array, "B F"]:
        r"""Features of $x'$ by the target network."""
        _, _, target, batch = self._given
        return _features(target, batch.next_observation)

    @cached_property
    def first_step(self) -> FirstStep:
        """The first step alone of n-step windows."""
        agent, _, target, batch = self._given
        after = self.target_next
        if agent.horizon > 1:
            after = _project(target, _features(target, batch.first.next_observation))
        discount = jnp.asarray(agent.discount, dtype=batch.reward.dtype)
        return FirstStep(batch.first.reward, after, batch.first.terminal, discount)

    @cached_property
    def sink(self) -> Sink:
        """The state after a terminal one by either network."""
        _, params, target, batch = self._given
        nothing = jnp.zeros_like(batch.observation[0])
        return Sink(params.encoder(nothing), target.encoder(nothing))

    @cached_property
    def actor(self) -> ActorLatents:
        """The actor's own view of the batch, of an agent that has an actor."""
        agent, params, target, _ = self._given
        return agent.actor_latents(params, target, self)

    def stop_gradients_unless(self, counts: Bool[Array, ""]) -> "Views":
        """Make views of the same values, from which gradients come only where `counts`; nothing is computed again."""
        agent, params, target, batch = self._given
        stop = partial(stop_gradients_unless, counts)
        views = Views(agent, stop(params), target, batch)
        vars(views).update({name: stop(view) for name, view in vars(self).items() if name != "_given"})
        return views


def stop_gradients_unless(counts: Bool[Array, ""], tree: Any) -> Any:
    """Stop the gradients of a tree where they do not count; 0 times one that is not finite would not be 0."""
    return jax.tree.map(lambda leaf: jnp.where(counts, leaf, jax.lax.stop_gradient(leaf)), tree)


def _features(params: Params, observations: Shaped[Array, "B ..."]) -> Float[Array, "B F"]:
    return jax.vmap(lambda encoder, one: encoder.features(one), in_axes=(None, 0))(params.encoder, observations)


def _project(params: Params, features: Float[Array, "B F"]) -> Float[Array, "B D"]:
    return jax.vmap(lambda encoder, one: encoder.project(one), in_axes=(None, 0))(params.encoder, features)
