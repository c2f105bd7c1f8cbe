"""A trained run: load it, play it, evaluate it, draw it, and compare its states."""

from mico.deep.trained.trained import Trained, load

__all__ = ["Trained", "load"]
