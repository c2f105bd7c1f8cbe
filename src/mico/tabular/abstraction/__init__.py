"""Fewer states: bisimilarity, partitions and quotients, clusters with bounds on the loss of value."""
