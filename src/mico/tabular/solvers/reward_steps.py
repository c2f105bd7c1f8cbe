r"""The rewards of a chain as steps from value to value, a feature each: $\mathbb P(R_x > z_j)$."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from mico.tabular._rounding import UNIT
from mico.tabular.chain import Chain


class RewardSteps(NamedTuple):
    r"""$Z_{xj} = \sqrt{z_{j+1} - z_j}\; \mathbb P(R_x > z_j)$, the jumps $z_{j+1} - z_j$, and what rounding moved.

    Where $R > z_j$ is the rule rather than the exception, Z holds the probability of the opposite: a difference of two
    rows only changes its sign, and features that are small in most states keep rounding small.
    """

    features: Float[np.ndarray, "S p"]
    jumps: Float[np.ndarray, " p"]
    rounded_by: float  # the most that a reward was moved, and what rounding does besides: see `_rounding`

    def scaled(self) -> tuple["RewardSteps", float]:
        """Choose a unit in which rewards are about 1, a power of 4 so that nothing is rounded; return it last."""
        span = float(self.jumps.sum())
        unit = 4.0 ** round(np.log2(max(span, 1e-290)) / 2) if span else 1.0  # 1 over it is a number, too
        return RewardSteps(self.features / np.sqrt(unit), self.jumps / unit, self.rounded_by / unit), unit


def reward_steps(chain: Chain, width: float, levels: int | None, most: float) -> RewardSteps:
    """Rewards nearer than `width` count as one; with more than `levels` distinct ones left, they fall into bins.

    More than `most` jumps are refused, before features for them take memory.
    """
    rewards = chain.relative - chain.relative.min()  # midpoints of rewards far from 0 would be rounded
    raw = np.unique(rewards) if chain.law is None else chain.law.levels - chain.law.levels[0]
    group = _groups(raw, width, levels)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    low, high = raw[first], raw[np.append(first[1:], raw.size) - 1]
    jumps = np.diff((low + high) / 2)
    if jumps.size > most:
        what = f"{jumps.size + 1} distinct rewards of {chain.num_states} states"
        raise ValueError(f"levels must be given to factored_mico for {what}: it rounds rewards to so many, certified")
    if chain.law is None:
        above = (group[np.searchsorted(raw, rewards)][:, None] > np.arange(jumps.size)).astype(float)
    else:
        member = sp.csr_array((np.ones(raw.size), group, np.arange(raw.size + 1)))
        grouped = (chain.law.weights @ member).toarray()
        above = np.minimum(np.cumsum(grouped[:, ::-1], axis=1)[:, -2::-1], 1)  # sums of shares may round to more
    rare = np.where(above.mean(axis=0) > 0.5, 1 - above, above)
    features = np.sqrt(jumps) * rare
    ever = (features**2).max(axis=0, initial=0) > 0  # a value that no state ever pays, or next to never, is no step
    moved = float((high - low).max()) / 2
    return RewardSteps(features[:, ever], jumps[ever], moved + _rounding(jumps.size, chain.law is not None, raw))


def _rounding(steps: int, drawn: bool, raw: Float[np.ndarray, " k"]) -> float:
    r"""What rounding can do to half of the gap $\sum_j s_j (p_j(x) + p_j(y) - 2 p_j(x) p_j(y))$, of the span.

    Rewards less their least, midpoints and jumps: 3u. Features are off by 3u of themselves (a root, a product), so the
    sum $\sum_j s_j p_j$ of p terms by $(p + 6)u$, counted twice, and products of features by $(p + 8)u$, counted twice:
    $(4p + 31)u$ in all. Where rewards are drawn, each share above a level is a sum of k others: 6ku more.
    """
    return (2 * steps + 16 + (3 * raw.size if drawn else 0)) * UNIT * float(raw[-1])


def _groups(raw: Float[np.ndarray, " k"], width: float, levels: int | None) -> Int[np.ndarray, " k"]:
    group, start = np.zeros(raw.size, dtype=np.int64), raw[0]
    for k in range(1, raw.size):
        new = raw[k] - start > 2 * width
        group[k] = group[k - 1] + new
        start = raw[k] if new else start
    if levels is None or group[-1] < levels:
        return group
    bins = np.minimum((levels * (raw - raw[0]) / (raw[-1] - raw[0])).astype(np.int64), levels - 1)
    return np.unique(bins, return_inverse=True)[1]
