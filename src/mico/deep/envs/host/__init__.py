"""Environments outside JAX: Gymnasium, Atari and the control suite, as episodes that replay from their seeds."""
