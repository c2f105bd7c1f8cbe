"""How an agent sees: encoders, heads and the layers that they are made of."""

from mico.deep.networks.encoders import NetworkConfig
from mico.deep.networks.heads import Head

__all__ = ["Head", "NetworkConfig"]
