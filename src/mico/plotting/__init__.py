"""Figures of results: data and Axes in, Axes out."""
