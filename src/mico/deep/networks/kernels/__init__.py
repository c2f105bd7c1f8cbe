"""Layers that compute what others do, faster on one device: they are here for speed alone."""
