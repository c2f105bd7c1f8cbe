"""Features extractors for Stable-Baselines3's policies."""

import itertools
from collections.abc import Mapping, Sequence

import gymnasium
import torch
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn


class DenseExtractor(BaseFeaturesExtractor):
    """Dense layers with ReLU over flat observations, for policies whose own features extractor only flattens.

    Parts of a Dict observation are flattened and put beside each other. Discrete parts arrive as one-hot vectors, as
    Stable-Baselines3 gives them to every features extractor.

    Args:
        observation_space: Any space that Stable-Baselines3 supports.
        features_dim: Number of features, the width of the last layer.
        hidden: Widths of the layers before it.

    Raises:
        ValueError: If a width is not positive.

    Examples:
        >>> import gymnasium, torch
        >>> from mico.torch.sb3 import DenseExtractor
        >>> extractor = DenseExtractor(gymnasium.spaces.Box(-1, 1, (3,)), features_dim=50)
        >>> tuple(extractor(torch.zeros(2, 3)).shape)
        (2, 50)
    """

    def __init__(
        self, observation_space: gymnasium.Space, features_dim: int = 64, hidden: Sequence[int] = (64,)
    ) -> None:
        if min(features_dim, *hidden, features_dim) < 1:
            raise ValueError(f"features_dim and hidden must be at least 1, got {features_dim} and {tuple(hidden)}")
        super().__init__(observation_space, features_dim)
        parts = observation_space.spaces if isinstance(observation_space, gymnasium.spaces.Dict) else None
        self.names = None if parts is None else tuple(parts)
        inputs = sum(get_flattened_obs_dim(part) for part in (parts or {"": observation_space}).values())
        widths = [inputs, *hidden, features_dim]
        layers = [part for size, to in itertools.pairwise(widths) for part in (nn.Linear(size, to), nn.ReLU())]
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def forward(self, observations: Tensor | Mapping[str, Tensor]) -> Tensor:
        """Compute the features of a batch, a row for each observation."""
        if isinstance(observations, Tensor):
            return self.layers(observations)
        return self.layers(torch.cat([observations[name].flatten(start_dim=1) for name in self.names or ()], dim=1))
