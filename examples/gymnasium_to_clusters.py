"""From a Gymnasium environment to clusters of similar states, and what merging them costs in value.

python examples/gymnasium_to_clusters.py
"""

# ruff: noqa: T201

import numpy as np

import mico.tabular as mt
from mico.tabular.abstraction.clustering import k_medoids, value_loss_bound
from mico.tabular.abstraction.partition import quotient

lake = mt.make("FrozenLake-v1", discount=0.9, map_name="8x8", is_slippery=True)
print(lake)  # 64 cells, and a last state that ended episodes lead to

policy = mt.optimal_policy(lake)
chain = lake.mdp.chain(policy)
distance = mt.solve("pi-bisimulation", chain, tolerance=1e-6)

for num_clusters in (5, 10, 20, 40):
    clusters = k_medoids(distance, num_clusters=num_clusters, seed=0)
    small = quotient(chain, clusters.partition)  # the chain of the clusters
    loss = np.abs(clusters.partition.lift(small.value()) - chain.value()).max()
    bound = value_loss_bound(distance, clusters.partition, lake.discount).max()
    print(f"{num_clusters:>2} clusters: largest error of a value {loss:.4f}, bounded by {bound:.4f}")

on_the_map = lake.layout.paint(k_medoids(distance, num_clusters=10, seed=0).partition.block)
print(on_the_map.astype(int))
