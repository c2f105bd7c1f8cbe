"""Behavioural metrics in reinforcement learning: exact on finite MDPs, learnt in deep agents."""

__version__ = "0.1.0"
