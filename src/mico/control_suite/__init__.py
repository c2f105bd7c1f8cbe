"""The DeepMind Control suite in processes of its own, which start quickly because nothing here imports JAX."""
