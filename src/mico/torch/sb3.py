"""Stable-Baselines3's DQN, QR-DQN and SAC with a metric loss; their training code is used as it is.

from mico.torch import MICoLoss
from mico.torch.sb3 import MICoDQN

model = MICoDQN("MlpPolicy", "CartPole-v1", metric=MICoLoss(alpha=0.01, beta=0.1), tensorboard_log="logs")
model.learn(50_000, progress_bar=True)
"""

import inspect
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

from mico._checks import install_hint

if find_spec("stable_baselines3") is None or find_spec("sb3_contrib") is None:
    raise ModuleNotFoundError(f"mico.torch.sb3 needs stable-baselines3 and sb3-contrib: {install_hint('torch')}")

import gymnasium
import numpy as np
import torch
from gymnasium.vector.utils import create_empty_array
from sb3_contrib import QRDQN
from sb3_contrib.qrdqn.policies import QRDQNPolicy
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, MaybeCallback, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.dqn.policies import DQNPolicy
from stable_baselines3.sac.policies import SACPolicy
from torch import Tensor, nn

from mico.torch.extractors import DenseExtractor
from mico.torch.hooks import MetricLossHook, Observations, ReplayBatch, replaced_method, represent
from mico.torch.losses import MICoLoss
from mico.torch.pairing import AbstractPairLoss

__all__ = ["AbstractMetricAgent", "DenseExtractor", "MICoDQN", "MICoQRDQN", "MICoSAC"]

Agent = TypeVar("Agent", bound="AbstractMetricAgent")
Init = TypeVar("Init", bound=Callable[..., None])

_LOG = logging.getLogger(__name__)
_EXTRACTOR = "features_extractor"
_POLICIES = (DQNPolicy, QRDQNPolicy, SACPolicy)


def _with_parameters_of(plain: type[OffPolicyAlgorithm]) -> Callable[[Init], Init]:
    """Show the plain agent's parameters too in `help` and `inspect.signature`, as its installed version has them."""

    def decorate(init: Init) -> Init:
        own, theirs = inspect.signature(init).parameters, inspect.signature(plain.__init__).parameters
        shown = [*theirs.values(), own["metric"], own["layer"]]
        init.__signature__ = inspect.Signature(shown, return_annotation=None)  # type: ignore[attr-defined]
        return init

    return decorate


class AbstractMetricAgent(OffPolicyAlgorithm):
    r"""An agent of Stable-Baselines3 that minimises $(1 - \alpha)\,\mathcal L_{TD} + \alpha\,\mathcal L_{metric}$.

    The representation φ is what `layer` of the online network gives, and $\phi_{\bar\omega}$ what the same layer of
    the target network gives. With $\alpha = 0$ nothing is added to the training of the plain agent.

    Where a policy has no layer that φ could come from, because its features extractor only flattens and nothing else
    sees observations alone, a `DenseExtractor` is inserted. This is the one difference from the plain agent; it is
    logged as a warning of the logger `mico.torch.sb3`, and is part of `policy_kwargs` from then on. Choose a features
    extractor or a `layer`, and nothing is inserted.

    To add a metric loss to another off-policy agent, derive from this class and from the agent, in this order, and
    define `networks` and `default_layer`.

    Args:
        policy: As for the plain agent.
        env: As for the plain agent.
        *args: Further arguments of the plain agent.
        metric: The metric loss, with its weight α.
        layer: Name of the layer whose outputs are φ, one of the online network's `named_modules()`. By default the
            features extractor or, if that only flattens, the last hidden layer.
        **kwargs: Further arguments of the plain agent.

    Raises:
        ValueError: If metric is no loss of `mico.torch`, or φ cannot come from that layer.
    """

    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: gymnasium.Env | VecEnv | str | None,
        *args: Any,
        metric: AbstractPairLoss,
        layer: str | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(metric, AbstractPairLoss):
            raise ValueError(f"metric must be a loss of mico.torch, such as MICoLoss(), got {metric!r}")
        self.metric, self.layer = metric, layer
        super().__init__(policy, env, *args, **kwargs)  # type: ignore[arg-type]

    @abstractmethod
    def networks(self) -> tuple[nn.Module, nn.Module]:
        """Return the network whose features the agent's loss trains, and the network for the targets."""

    @abstractmethod
    def default_layer(self) -> str:
        """Return the name of the layer whose outputs are φ unless the user chooses another."""

    def represent(self, observation: np.ndarray | Mapping[str, np.ndarray]) -> Tensor:
        """Compute φ of a batch of observations.

        Args:
            observation: Observations as the environment gives them, stacked; a dict of stacks for a Dict space.

        Returns:
            A row for each observation.

        Raises:
            ValueError: If a Dict observation lacks a part.
        """
        given = dict(observation) if isinstance(observation, Mapping) else observation
        inputs, _ = self.policy.obs_to_tensor(given)
        with torch.no_grad():
            return represent(self.networks()[0], self._layer(), inputs, self._encode)

    def learn(
        self: Agent,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 4,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Agent:
        """Train as the plain agent does; by default TensorBoard's runs are named after this class."""
        name = type(self).__name__ if tb_log_name is None else tb_log_name
        return super().learn(total_timesteps, callback, log_interval, name, reset_num_timesteps, progress_bar)

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Take gradient steps on replayed batches, as the plain agent does, with the metric loss added."""
        if self.metric.alpha == 0:
            super().train(gradient_steps, batch_size)
            return
        hook = MetricLossHook(
            self.metric,
            *self.networks(),
            layer=self._layer(),
            bootstrap=self._bootstrap(),
            method=self._method(),
            encode=self._encode,
        )
        with hook.attached(), self._batches_shown_to(hook):
            super().train(gradient_steps, batch_size)
            hook.check_used()
        for name, values in hook.logs.items():
            self.logger.record(f"metric/{name}", np.mean(values))

    def set_parameters(self, load_path_or_dict: Any, exact_match: bool = True, device: Any = "auto") -> None:
        """Load parameters, as the plain agent does."""
        try:
            super().set_parameters(load_path_or_dict, exact_match, device)
        except RuntimeError as error:
            if self.policy_kwargs.get("features_extractor_class") is DenseExtractor:
                error.add_note(f"This {type(self).__name__} has a DenseExtractor, which these parameters are not of.")
            raise

    def _setup_model(self) -> None:
        expected = self.policy_aliases["MlpPolicy"]
        if issubclass(self.policy_class, _POLICIES) and not issubclass(self.policy_class, expected):
            found = f"{self.policy_class.__name__}, another agent's"
            raise ValueError(f"policy of {type(self).__name__} must be a {expected.__name__}, got {found}")
        buffer_class = self.replay_buffer_class
        super()._setup_model()
        if self._needs_extractor():
            self._insert_extractor()
            self.replay_buffer_class = buffer_class  # as it was given, for there is a warning of some classes
            super()._setup_model()  # with the same seeds, so parameters are those of a plain agent with the extractor
        if self.metric.alpha > 0:
            self._check()

    def _needs_extractor(self) -> bool:
        """Say whether there is no layer that φ could come from, and the user has left the choice to us."""
        if self.layer is not None or f"{_EXTRACTOR}_class" in self.policy_kwargs:
            return False
        extractor = getattr(self.networks()[0], _EXTRACTOR, None)
        if not isinstance(extractor, nn.Module) or _has_parameters(extractor):
            return False
        if type(extractor) not in (FlattenExtractor, CombinedExtractor):  # the user's own
            return False
        options = inspect.signature(self.policy_class).parameters
        accepted = f"{_EXTRACTOR}_class" in options or any(x.kind is x.VAR_KEYWORD for x in options.values())
        return accepted and self.default_layer() == _EXTRACTOR

    def _insert_extractor(self) -> None:
        replaced = type(getattr(self.networks()[0], _EXTRACTOR)).__name__
        chosen = {f"{_EXTRACTOR}_class": DenseExtractor, f"{_EXTRACTOR}_kwargs": {}}
        self.policy_kwargs = {**self.policy_kwargs, **chosen}
        _LOG.warning(
            "%s: inserted a DenseExtractor as features extractor of %s, whose %s has no parameters to learn a "
            "representation with; to choose one yourself, pass policy_kwargs={'features_extractor_class': …}",
            type(self).__name__,
            self.policy_class.__name__,
            replaced,
        )

    def _check(self) -> None:
        online, _ = self.networks()
        layer = self._layer()
        names = [name for name, _ in online.named_modules() if name]
        if layer not in names:
            raise ValueError(f"layer must be one of {', '.join(names)}, got {layer!r}")
        zeros: Any = create_empty_array(self.policy.observation_space, 2, np.zeros)
        inputs, _ = self.policy.obs_to_tensor(zeros)
        if not represent(online, layer, inputs, self._encode).requires_grad:
            raise ValueError(
                f"layer must depend on parameters that are trained, got {layer!r}, which does not: choose another, or "
                "a features extractor with parameters, such as "
                "policy_kwargs={'features_extractor_class': DenseExtractor}"
            )
        if self.metric.terminals == "absorbing" and _has_discrete_part(self.policy.observation_space):
            raise ValueError(
                "terminals must be 'bootstrap' where observations are discrete, got 'absorbing', whose all-zero "
                "observation would be the state 0"
            )
        if self.metric.horizon == "one-step" and self._steps() > 1:
            raise ValueError(
                f"n_steps must be 1 with horizon='one-step', got {self._steps()}: replay buffers do not return the "
                "first steps alone"
            )

    def _layer(self) -> str:
        return self.default_layer() if self.layer is None else self.layer

    def _method(self) -> str:
        """Return the method of the online network whose outputs the agent's loss is computed from."""
        return "forward"

    def _encode(self, network: Any, observations: Observations) -> Any:
        """Run as much of a network as φ needs."""
        return network(observations)

    def _steps(self) -> int:
        return self.replay_buffer.n_steps if isinstance(self.replay_buffer, NStepReplayBuffer) else 1

    def _bootstrap(self) -> float:
        buffer = self.replay_buffer
        return buffer.gamma**buffer.n_steps if isinstance(buffer, NStepReplayBuffer) else self.gamma

    @contextmanager
    def _batches_shown_to(self, hook: MetricLossHook) -> Iterator[None]:
        """Give each batch that the agent samples to the hook, as long as the context lasts."""

        def wrap(sample: Callable[..., Any]) -> Callable[..., Any]:
            def sample_and_show(*args: Any, **kwargs: Any) -> ReplayBufferSamples | DictReplayBufferSamples:
                hook.check_used()
                batch = sample(*args, **kwargs)
                reward, terminal = batch.rewards.flatten(), batch.dones.flatten() > 0
                hook.set_batch(ReplayBatch(batch.observations, batch.next_observations, reward, terminal))
                return batch

            return sample_and_show

        with replaced_method(self.replay_buffer, "sample", wrap):
            yield


class MICoDQN(AbstractMetricAgent, DQN):
    """Stable-Baselines3's DQN with a metric loss.

    It minimises (1 − α)·L_TD + α·L_metric. Everything else is as in `stable_baselines3.DQN`, whose arguments, policies,
    replay buffers, callbacks and methods it takes.

    Args:
        policy: `"MlpPolicy"`, `"CnnPolicy"`, `"MultiInputPolicy"` or a policy class.
        env: The environment, or its Gymnasium id.
        *args: Further arguments of `stable_baselines3.DQN`.
        metric: `MICoLoss`, `KSMeLoss` or `SimSRLoss`, with its weight α. By default MICo with the paper's α = 0.01.
        layer: Name of the layer of `q_net` whose outputs are the representation φ, as in `model.q_net.named_modules()`.
            By default the features extractor or, if that only flattens, the last hidden layer.
        **kwargs: Further arguments of `stable_baselines3.DQN`.

    Raises:
        ValueError: If metric is no loss of `mico.torch`, or φ cannot come from that layer.

    Examples:
        >>> from mico.torch import MICoLoss
        >>> from mico.torch.sb3 import MICoDQN
        >>> model = MICoDQN("MlpPolicy", "CartPole-v1", metric=MICoLoss(alpha=0.1), learning_starts=50, seed=0)
        >>> _ = model.learn(100)
        >>> tuple(model.represent(model.get_env().reset()).shape)
        (1, 64)
    """

    @_with_parameters_of(DQN)
    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: gymnasium.Env | VecEnv | str | None,
        *args: Any,
        metric: AbstractPairLoss = MICoLoss(alpha=0.01),  # noqa: B008
        layer: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(policy, env, *args, metric=metric, layer=layer, **kwargs)

    def networks(self) -> tuple[nn.Module, nn.Module]:
        """Return `q_net` and `q_net_target`."""
        return self.q_net, self.q_net_target

    def default_layer(self) -> str:
        """Return the features extractor or, if that has no parameters, the last hidden layer."""
        return _last_hidden_layer(self.q_net, "q_net")


class MICoQRDQN(AbstractMetricAgent, QRDQN):
    """sb3-contrib's QR-DQN with a metric loss.

    It minimises (1 − α)·L_TD + α·L_metric. Everything else is as in `sb3_contrib.QRDQN`, whose arguments, policies,
    replay buffers, callbacks and methods it takes.

    Args:
        policy: `"MlpPolicy"`, `"CnnPolicy"`, `"MultiInputPolicy"` or a policy class.
        env: The environment, or its Gymnasium id.
        *args: Further arguments of `sb3_contrib.QRDQN`.
        metric: `MICoLoss`, `KSMeLoss` or `SimSRLoss`, with its weight α. By default MICo with α = 0.5, as in the paper:
            the loss of QR-DQN is a sum over quantiles.
        layer: Name of the layer of `quantile_net` whose outputs are the representation φ, as in
            `model.quantile_net.named_modules()`. By default the features extractor or, if that only flattens, the last
            hidden layer.
        **kwargs: Further arguments of `sb3_contrib.QRDQN`.

    Raises:
        ValueError: If metric is no loss of `mico.torch`, or φ cannot come from that layer.

    Examples:
        >>> from mico.torch.sb3 import MICoQRDQN
        >>> model = MICoQRDQN("MlpPolicy", "CartPole-v1", policy_kwargs={"n_quantiles": 10}, learning_starts=50, seed=0)
        >>> _ = model.learn(100)
        >>> tuple(model.represent(model.get_env().reset()).shape)
        (1, 64)
    """

    @_with_parameters_of(QRDQN)
    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: gymnasium.Env | VecEnv | str | None,
        *args: Any,
        metric: AbstractPairLoss = MICoLoss(alpha=0.5),  # noqa: B008
        layer: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(policy, env, *args, metric=metric, layer=layer, **kwargs)

    def networks(self) -> tuple[nn.Module, nn.Module]:
        """Return `quantile_net` and `quantile_net_target`."""
        return self.quantile_net, self.quantile_net_target

    def default_layer(self) -> str:
        """Return the features extractor or, if that has no parameters, the last hidden layer."""
        return _last_hidden_layer(self.quantile_net, "quantile_net")


class MICoSAC(AbstractMetricAgent, SAC):
    """Stable-Baselines3's SAC with a metric loss.

    It minimises (1 − α)·L_critic + α·L_metric; the actor's loss is left alone. With
    `policy_kwargs={"share_features_extractor": True}` Stable-Baselines3 trains the features extractor by the actor's
    loss instead of the critics', so there the metric loss is added to the actor's: (1 − α)·L_actor + α·L_metric.
    Everything else is as in `stable_baselines3.SAC`, whose arguments, policies, replay buffers, callbacks and methods
    it takes.

    The layers after the features extractor also see actions, so φ comes from the features extractor. With `MlpPolicy`,
    or `MultiInputPolicy` without images, that has no parameters, and a `DenseExtractor` is inserted: the one difference
    from `SAC`, logged once as a warning of the logger `mico.torch.sb3`. Choose one by
    `policy_kwargs={"features_extractor_class": …}`, and nothing is inserted.

    Args:
        policy: `"MlpPolicy"`, `"CnnPolicy"`, `"MultiInputPolicy"` or a policy class.
        env: The environment, or its Gymnasium id.
        *args: Further arguments of `stable_baselines3.SAC`.
        metric: `MICoLoss`, `KSMeLoss` or `SimSRLoss`, with its weight α. By default MICo with α = 1e-5 and
            `second="frozen"`, as the paper's authors released it for SAC.
        layer: Name of the layer whose outputs are the representation φ, `"features_extractor"` (the default) or a layer
            in it, as in `model.critic.named_modules()`.
        **kwargs: Further arguments of `stable_baselines3.SAC`.

    Raises:
        ValueError: If metric is no loss of `mico.torch`, or φ cannot come from that layer.

    Examples:
        >>> from mico.torch.sb3 import DenseExtractor, MICoSAC
        >>> extractor = {"features_extractor_class": DenseExtractor, "features_extractor_kwargs": {"features_dim": 50}}
        >>> model = MICoSAC("MlpPolicy", "Pendulum-v1", policy_kwargs=extractor, learning_starts=50, seed=0)
        >>> _ = model.learn(60)
        >>> tuple(model.represent(model.get_env().reset()).shape)
        (1, 50)
    """

    @_with_parameters_of(SAC)
    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: gymnasium.Env | VecEnv | str | None,
        *args: Any,
        metric: AbstractPairLoss = MICoLoss(alpha=1e-5, second="frozen"),  # noqa: B008
        layer: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(policy, env, *args, metric=metric, layer=layer, **kwargs)

    def networks(self) -> tuple[nn.Module, nn.Module]:
        """Return `critic`, or the `actor` if it shares its features extractor with the critics, and `critic_target`."""
        return (self.actor if self._shares_extractor() else self.critic), self.critic_target

    def default_layer(self) -> str:
        """Return the features extractor."""
        return _EXTRACTOR

    def _check(self) -> None:
        if self._layer().split(".")[0] != _EXTRACTOR:
            raise ValueError(f"layer must be {_EXTRACTOR} or in it, for others see actions too, got {self.layer!r}")
        super()._check()

    def _shares_extractor(self) -> bool:
        return self.critic.features_extractor is self.actor.features_extractor

    def _method(self) -> str:
        return "action_log_prob" if self._shares_extractor() else "forward"

    def _encode(self, network: Any, observations: Observations) -> Any:
        """Run the features extractor alone: critics also ask for actions, and actors draw them."""
        return network.extract_features(observations, network.features_extractor)


def _last_hidden_layer(network: nn.Module, head: str) -> str:
    """Find what the last layer of the head gets, if the features extractor has no parameters."""
    parts = dict(getattr(network, "_orig_mod", network).named_children())  # torch.compile wraps networks
    layers = [name for name, _ in parts[head].named_children()] if head in parts else []
    if _EXTRACTOR in parts and _has_parameters(parts[_EXTRACTOR]):
        return _EXTRACTOR
    return f"{head}.{layers[-2]}" if len(layers) > 1 else _EXTRACTOR


def _has_parameters(module: nn.Module) -> bool:
    return any(True for _ in module.parameters())


def _has_discrete_part(space: gymnasium.Space) -> bool:
    parts = space.spaces.values() if isinstance(space, gymnasium.spaces.Dict) else [space]
    return any(isinstance(part, (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete)) for part in parts)
