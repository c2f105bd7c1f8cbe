"""An MDP of your own: from arrays to distances, a file, and a bound on values.

    python examples/your_own_mdp.py          # writes machine.json and machine.png here

A machine is new, worn or broken; every day it is used or repaired.
"""

# ruff: noqa: T201

import numpy as np
from matplotlib.figure import Figure

import mico.tabular as mt

NEW, WORN, BROKEN = range(3)
USE, REPAIR = range(2)

transition = np.zeros((3, 2, 3))  # [state, action, next state]
transition[NEW, USE] = [0.7, 0.3, 0.0]
transition[WORN, USE] = [0.0, 0.6, 0.4]
transition[BROKEN, USE] = [0.0, 0.0, 1.0]
transition[:, REPAIR] = [1.0, 0.0, 0.0]
reward = np.array([[10.0, -2.0], [6.0, -3.0], [0.0, -8.0]])  # [state, action]

machine = mt.Problem(mt.MDP(transition, reward, discount=0.9), names=("new", "worn", "broken"))
mt.save("machine.json", machine)  # `mico metric machine.json` and `mico explore machine.json` read it
machine = mt.make("machine.json")

value, policy = mt.optimal(machine)
for name, best, row in zip(machine.names, value, policy):
    print(f"{name:>6}: value {best:.1f}, {('use', 'repair')[row.argmax()]}")

distance = mt.solve("mico", machine, "optimal")
print(distance)
print(distance.matrix.round(2))

gap = np.abs(value[:, None] - value)
print("differences of value are bounded:", bool((gap <= distance.matrix + distance.error).all()))

figure = Figure(figsize=(4.6, 3.8), layout="constrained")
distance.plot(figure.subplots())
figure.savefig("machine.png", dpi=120)
print("wrote machine.json and machine.png")
