"""Stable-Baselines3's agents with a metric loss: its own DQN, QR-DQN and SAC, whose training code is used as it is.

from mico.torch import MICoLoss
from mico.torch.sb3 import MICoDQN

model = MICoDQN("MlpPolicy", "CartPole-v1", metric=MICoLoss(alpha=0.01, beta=0.1), tensorboard_log="logs")
model.learn(50_000, progress_bar=True)
"""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import gymnasium
import numpy as np
import torch
from gymnasium.vector.utils import create_empty_array
from sb3_contrib import QRDQN
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, MaybeCallback, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from mico.torch.extractors import DenseExtractor
from mico.torch.joining import Joining, Replayed, represented
from mico.torch.losses import MICoLoss
from mico.torch.pairing import AbstractPairLoss

__all__ = ["AbstractMetricAgent", "DenseExtractor", "MICoDQN", "MICoQRDQN", "MICoSAC"]

Agent = TypeVar("Agent", bound="AbstractMetricAgent")

_EXTRACTOR = "features_extractor"


class AbstractMetricAgent(OffPolicyAlgorithm):
    r"""An agent of Stable-Baselines3 that minimises $(1 - \alpha)\,\mathcal L_{TD} + \alpha\,\mathcal L_{metric}$.

    $\phi$ is what `layer` of the online network gives, by default its features extractor or, where that has nothing to
    learn, the last hidden layer; its copy in the target network is $\phi_{\bar\omega}$. With $\alpha = 0$ nothing is
    added. All other arguments are those of the plain agent.
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
            raise ValueError(f"metric must be a loss of mico.torch, such as MICoLoss(), but is {metric!r}")
        self.metric, self.layer = metric, layer
        super().__init__(policy, env, *args, **kwargs)  # type: ignore[arg-type]

    @abstractmethod
    def networks(self) -> tuple[nn.Module, nn.Module]:
        """The network that the TD loss trains, and its target copy."""

    @abstractmethod
    def default_layer(self) -> str:
        """The layer whose outputs are φ."""

    def represent(self, observation: np.ndarray | dict[str, np.ndarray]) -> Tensor:
        """φ of a batch of observations, as the environment gives them."""
        inputs, _ = self.policy.obs_to_tensor(observation)
        with torch.no_grad():
            return represented(self.networks()[0], self._layer(), inputs, *self._actions(len(_rows(inputs))))

    def learn(
        self: Agent,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 4,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Agent:
        name = type(self).__name__ if tb_log_name is None else tb_log_name
        return super().learn(total_timesteps, callback, log_interval, name, reset_num_timesteps, progress_bar)

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        if self.metric.alpha == 0:
            super().train(gradient_steps, batch_size)
            return
        joining = Joining(self.metric, *self.networks(), layer=self._layer(), bootstrap=self._bootstrap())
        with joining.hooked(), self._shown(joining):
            super().train(gradient_steps, batch_size)
            joining.check()
        for name, values in joining.logs.items():
            self.logger.record(f"metric/{name}", np.mean(values))

    def _setup_model(self) -> None:
        kind = self.policy_aliases["MlpPolicy"]
        if not issubclass(self.policy_class, kind):
            found = f"{self.policy_class.__name__}, another agent's"
            raise ValueError(f"policy of {type(self).__name__} must be a {kind.__name__}, but is {found}")
        super()._setup_model()
        if self.metric.alpha > 0:
            self._check()

    def _check(self) -> None:
        online, _ = self.networks()
        layer = self._layer()
        names = [name for name, _ in online.named_modules() if name]
        if layer not in names:
            raise ValueError(f"layer must be one of {', '.join(names)}, but is {layer!r}")
        zeros: Any = create_empty_array(self.policy.observation_space, 2, np.zeros)
        inputs, _ = self.policy.obs_to_tensor(zeros)
        if not represented(online, layer, inputs, *self._actions(2)).requires_grad:
            raise ValueError(
                f"layer {layer!r} has nothing that the TD loss trains: choose another, or a features extractor with "
                "parameters, such as policy_kwargs={'features_extractor_class': DenseExtractor}, shared with no one"
            )
        if self.metric.terminals == "absorbing" and _numbered(self.policy.observation_space):
            raise ValueError("terminals must be 'bootstrap' where states are numbers, of which 0 is one, not a sink's")
        if self.metric.horizon == "one-step" and self._steps() > 1:
            raise ValueError(f"n_steps must be 1 with horizon='one-step', but is {self._steps()}")

    def _layer(self) -> str:
        return self.default_layer() if self.layer is None else self.layer

    def _actions(self, count: int) -> tuple[Tensor, ...]:
        """What the network is given beside observations; φ does not look at it."""
        return ()

    def _steps(self) -> int:
        return self.replay_buffer.n_steps if isinstance(self.replay_buffer, NStepReplayBuffer) else 1

    def _bootstrap(self) -> float:
        return self.gamma ** self._steps()

    @contextmanager
    def _shown(self, joining: Joining) -> Iterator[None]:
        """While the agent trains, each batch that it draws is shown to the metric loss."""
        buffer: Any = self.replay_buffer
        draw = buffer.sample

        def sample(*args: Any, **kwargs: Any) -> ReplayBufferSamples | DictReplayBufferSamples:
            joining.check()
            batch = draw(*args, **kwargs)
            joining.expect(
                Replayed(batch.observations, batch.next_observations, batch.rewards[:, 0], batch.dones[:, 0] > 0)
            )
            return batch

        buffer.sample = sample
        try:
            yield
        finally:
            del buffer.sample


class MICoDQN(AbstractMetricAgent, DQN):
    """DQN with a metric loss, MICo unless told otherwise."""

    def __init__(self, *args: Any, metric: AbstractPairLoss = MICoLoss(alpha=0.01), **kwargs: Any) -> None:  # noqa: B008
        super().__init__(*args, metric=metric, **kwargs)

    def networks(self) -> tuple[nn.Module, nn.Module]:
        return self.q_net, self.q_net_target

    def default_layer(self) -> str:
        return _last_hidden(self.q_net, "q_net")


class MICoQRDQN(AbstractMetricAgent, QRDQN):
    """QR-DQN with a metric loss, MICo unless told otherwise."""

    def __init__(self, *args: Any, metric: AbstractPairLoss = MICoLoss(alpha=0.5), **kwargs: Any) -> None:  # noqa: B008
        super().__init__(*args, metric=metric, **kwargs)

    def networks(self) -> tuple[nn.Module, nn.Module]:
        return self.quantile_net, self.quantile_net_target

    def default_layer(self) -> str:
        return _last_hidden(self.quantile_net, "quantile_net")


class MICoSAC(AbstractMetricAgent, SAC):
    """SAC with a metric loss beside that of the critics, MICo as released unless told otherwise.

    The critics see actions beside the features, so φ can only be their features extractor or a layer of it.
    """

    def __init__(
        self,
        *args: Any,
        metric: AbstractPairLoss = MICoLoss(alpha=1e-5, second="frozen"),  # noqa: B008
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, metric=metric, **kwargs)

    def networks(self) -> tuple[nn.Module, nn.Module]:
        return self.critic, self.critic_target

    def default_layer(self) -> str:
        return _EXTRACTOR

    def _check(self) -> None:
        super()._check()
        if self._layer().split(".")[0] != _EXTRACTOR:
            raise ValueError(f"layer must be {_EXTRACTOR} or in it, as others see actions, but is {self.layer!r}")

    def _actions(self, count: int) -> tuple[Tensor, ...]:
        return (torch.zeros(count, *self.action_space.shape or (), device=self.device),)


def _last_hidden(network: nn.Module, head: str) -> str:
    """The features extractor, or, if that has nothing to learn, what the last layer of the head is given."""
    if any(True for _ in network.get_submodule(_EXTRACTOR).parameters()):
        return _EXTRACTOR
    names = [name for name, _ in network.get_submodule(head).named_children()]
    return f"{head}.{names[-2]}" if len(names) > 1 else _EXTRACTOR


def _numbered(space: gymnasium.Space) -> bool:
    parts = space.spaces.values() if isinstance(space, gymnasium.spaces.Dict) else [space]
    return any(isinstance(part, (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete)) for part in parts)


def _rows(inputs: Tensor | dict[str, Tensor]) -> Tensor:
    return inputs if isinstance(inputs, Tensor) else next(iter(inputs.values()))
