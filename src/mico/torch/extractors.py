"""Features extractors for Stable-Baselines3's policies."""

import itertools
from collections.abc import Sequence

import gymnasium
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn


class DenseExtractor(BaseFeaturesExtractor):
    """Dense layers with ReLU, for policies whose own features extractor only flattens."""

    def __init__(
        self, observation_space: gymnasium.Space, features_dim: int = 64, hidden: Sequence[int] = (64,)
    ) -> None:
        if isinstance(observation_space, gymnasium.spaces.Dict):
            raise ValueError("observation_space must be of single arrays, but is a Dict, which CombinedExtractor takes")
        super().__init__(observation_space, features_dim)
        sizes = [gymnasium.spaces.flatdim(observation_space), *hidden, features_dim]
        layers = [part for size, to in itertools.pairwise(sizes) for part in (nn.Linear(size, to), nn.ReLU())]
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def forward(self, observations: Tensor) -> Tensor:
        return self.layers(observations)
