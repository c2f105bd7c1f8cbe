"""How an agent sees: encoders, heads and the layers that they are made of."""

from mico.deep.networks.encoders import Head, Network

__all__ = ["Head", "Network"]
