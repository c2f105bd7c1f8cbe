r"""The reward-law distance: how far apart are the laws of the reward at each time? No transport between states."""

import math

import numpy as np
from jaxtyping import Float

from mico.tabular._rounding import UNIT, longest_row
from mico.tabular.chain import Chain
from mico.tabular.solvers.progress import tell
from mico.tabular.solvers.result import SolverResult

# Where the tolerance asks for more terms than the first number, only some are summed: as many as take about four
# seconds, between the two others. Laws that come back or settle have mostly done so by then.
_MOST_TERMS, _FEW_TERMS, _FEWEST_TERMS = 1_000_000, 10_000, 1_000
_NUMBERS = 10_000_000_000  # that are subtracted in that time


class _Laps:
    r"""Terms of $\sum_t \gamma^t W_1(F^x_t, F^y_t)$, added up to a mark and since, with what rounding did to them.

    `laws` are $P^t z$ for features z whose distances are those of the laws, less those of state 0: so their size is
    that of the distances that are left, D. Each product with n probabilities a row, and the difference, adds
    $(n + 1)uD$ to what they may be off, `slip`; averaging by later rows never adds to it.
    """

    def __init__(self, chain: Chain, levels: Float[np.ndarray, " k"]):
        self.chain, self.discount = chain, chain.discount
        features = np.diff(levels) * (chain.relative[:, None] > levels[:-1])  # P(r > z), scaled by the step at z
        self.laws = self.mark = features - features[0]
        self.terms, self.marked, self.scale = 0, 0, 1.0
        self.before, self.lap = np.zeros((2, chain.num_states, chain.num_states))
        self.noise_before, self.noise_lap, self.slip, self.slip_of_mark = 0.0, 0.0, 0.0, 0.0
        self.apart, self.apart_at_mark, self.largest = 0.0, 0.0, 0.0  # D, also at the mark, and the sum of its terms
        row = longest_row(chain.transition)
        self.unit = ((row if row > 1 else 0) + 2) * UNIT
        self.relative = levels.size + 8

    def add(self) -> None:
        """Adds the present term, and goes on to the next."""
        from scipy.spatial.distance import cdist  # a tenth of the time that importing the package takes

        apart = cdist(self.laws, self.laws, "cityblock")
        self.apart = float(apart.max())
        self.lap += self.scale * apart
        self.noise_lap += self.scale * 2 * self.slip
        self.largest += self.scale * self.apart
        self.slip += self.unit * self.apart
        moved = self.chain.transition @ self.laws
        self.laws, self.terms, self.scale = moved - moved[0], self.terms + 1, self.scale * self.discount

    def start_again(self) -> None:
        """Puts the mark here."""
        self.before, self.lap = self.before + self.lap, np.zeros_like(self.lap)
        self.noise_before, self.noise_lap = self.noise_before + self.noise_lap, 0.0
        self.mark, self.marked, self.slip_of_mark, self.apart_at_mark = self.laws, self.terms, self.slip, self.apart

    @property
    def left(self) -> float:
        """The most that all later terms add, as they were rounded: none of them is larger than the last."""
        return self.scale / (1 - self.discount) * self.apart

    @property
    def slip_left(self) -> float:
        """What rounding can have hidden of that."""
        return self.scale / (1 - self.discount) * 2 * self.slip

    def to_come(self, tolerance: float, *, settling: bool) -> float:
        """How many terms more leave half the tolerance if terms shrink by the discount, or as they did in this lap."""
        rate = -math.log(self.discount)
        if settling and self.apart and self.apart_at_mark > self.apart:
            rate += math.log(self.apart_at_mark / self.apart) / (self.terms - self.marked)
        return max(0.0, math.log(2 * (self.left + self.slip_left) / tolerance)) / rate

    @property
    def share(self) -> float:
        r"""$1 - \gamma^p$, of the lap in that lap over and over."""
        return -math.expm1((self.terms - self.marked) * math.log(self.discount)) if self.discount else 1.0

    @property
    def repeated(self) -> float:
        r"""How far that is from the rest: $2\delta\gamma^t / ((1-\gamma)(1-\gamma^p))$ if the lap moved by $\delta$."""
        moved = float(np.abs(self.laws - self.mark).sum(axis=1).max()) + 2 * (self.slip + self.slip_of_mark)
        return 2 * moved * self.scale / (1 - self.discount) / self.share

    def rounding_after(self, more: float) -> float:
        """What rounding can do to the sum of so many more terms, if they do not shrink."""
        longer = self.slip + self.unit * self.apart * min(more, 1 / (1 - self.discount))
        later = 2 * longer * self.scale / (1 - self.discount) if more else 0.0
        digits = (self.relative + 2 * (self.terms + more)) * UNIT
        return self.noise_before + self.noise_lap + later + digits * (self.largest + (self.left if more else 0.0))

    def solution(self, share: float, left: float) -> SolverResult:
        """The terms, the lap over its share, with the error that `left` and rounding make."""
        tell(left)
        total = self.before + self.lap / share
        noise = self.noise_before + self.noise_lap / share
        noise += (self.relative + 2 * self.terms) * UNIT * float(total.max())
        owed = self.chain.rounding.error(self.largest + self.left + self.slip_left, self.discount)
        return SolverResult(total, left + noise + owed, self.terms)


def solve(chain: Chain, tolerance: float) -> SolverResult:
    r"""$W_{sum}(x, y) = \sum_t \gamma^t\, W_1(F^x_t, F^y_t)$ with $F^x_t$ the law of $r(X_t)$ from $X_0 = x$.

    $W_1$ on the line is the area between distribution functions. Averaging over next states brings laws no further
    apart than the two farthest, so what is left after t terms is at most $\gamma^t/(1-\gamma)$ times that. Nor does it
    move laws further: if p terms moved none by more than $\delta$, the next p do not either, and what is left is those
    p terms over and over, up to $2\delta\gamma^t / ((1-\gamma)(1-\gamma^p))$.
    """
    levels = np.unique(chain.relative)
    if levels.size == 1:
        return SolverResult(np.zeros((chain.num_states,) * 2), chain.rounding.error(0.0, chain.discount), 0)
    laps = _Laps(chain, levels)
    enough = min(max(_FEWEST_TERMS, _NUMBERS // (chain.num_states**2 * levels.size)), _FEW_TERMS)
    while True:
        laps.add()
        left = laps.left + laps.slip_left
        if laps.left <= max(tolerance / 2 - laps.slip_left, laps.rounding_after(0) + laps.slip_left):
            return laps.solution(1.0, left)
        repeated = laps.repeated
        # Summing on would take so many terms, each at the cost of rounding.
        if repeated <= max(tolerance / 2, laps.rounding_after(laps.to_come(tolerance, settling=False))):
            return laps.solution(laps.share, repeated)
        if laps.terms >= enough and laps.terms + laps.to_come(tolerance, settling=True) > _MOST_TERMS:
            return laps.solution(laps.share, repeated) if repeated < left else laps.solution(1.0, left)
        tell(left)
        if laps.terms > 4 * laps.marked:  # marks ever farther apart find a lap of any length (Brent, 1980)
            laps.start_again()
