"""Solvers of the metrics' equations, each with a certified error."""
