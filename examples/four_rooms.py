"""Exact behavioural distances of four rooms, as numbers and as a picture.

python examples/four_rooms.py            # writes four_rooms.png here
"""

# ruff: noqa: T201

from matplotlib.figure import Figure

import mico.tabular as mt

rooms = mt.make("four-rooms", discount=0.99)
goal = rooms.layout.goals[0]

mico = mt.solve("mico", rooms)  # of the uniform policy
reduced = mt.solve("reduced-mico", rooms)  # less what comes from a state's own randomness
worst = mt.solve("bisimulation", rooms)  # of the MDP alone: the worst action counts
for solution in (mico, reduced, worst):
    print(solution)

near = mico.neighbours(goal, 3)
print(f"nearest to the goal, state {goal}:", dict(zip(near.index.tolist(), near.distance.round(4).tolist())))
print(f"from one corner to the other: {mico.pairs(0, rooms.num_states - 1):.4f}, within {mico.error:.0e}")

figure = Figure(figsize=(9, 3.6), layout="constrained")
left, right = figure.subplots(1, 2)
mico.plot_from(goal, left)  # a map: how far is every cell from the goal?
mico.plot(right)  # all pairs of states
figure.savefig("four_rooms.png", dpi=120)
print("wrote four_rooms.png")
