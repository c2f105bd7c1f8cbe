"""The operator that MICo and the bisimulation metrics are fixed points of."""

from collections.abc import Callable, Sequence

import numpy as np

from mico.tabular._validation import Matrix
from mico.tabular.chain import Chain

Operator = Callable[[np.ndarray], np.ndarray]
Lift = Callable[[np.ndarray, Matrix], np.ndarray]


def operator(chains: Sequence[Chain], lift: Lift) -> Operator:
    r"""$(T d)(x, y) = \max_c |r^c_x - r^c_y| + \gamma\, \mathcal C(d)(P^c_x, P^c_y)$."""

    def one(chain: Chain) -> Operator:
        gap = chain.reward_gap()
        return lambda d: gap + chain.discount * lift(d, chain.transition)

    parts = [one(chain) for chain in chains]
    return lambda d: np.max([part(d) for part in parts], axis=0)
