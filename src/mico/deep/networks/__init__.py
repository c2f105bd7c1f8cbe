"""How an agent sees: encoders, heads and the layers that they are made of."""

from mico.deep.networks.encoders import ENCODERS, Head, Network
from mico.deep.networks.layers import Conv, Dense

__all__ = ["ENCODERS", "Conv", "Dense", "Head", "Network"]
