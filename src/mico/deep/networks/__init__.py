"""How an agent sees: encoders, heads and the layers that they are made of."""

from mico.deep.networks.encoders import ENCODERS, NetworkConfig
from mico.deep.networks.heads import Head
from mico.deep.networks.layers import Conv, Dense

__all__ = ["ENCODERS", "Conv", "Dense", "Head", "NetworkConfig"]
