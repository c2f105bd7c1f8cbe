"""Grids of runs: grouped into fleets, trained here or on a cluster."""
