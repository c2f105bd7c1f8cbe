"""Ticks of an axis of per cents that is to scale near 0, and logarithmic beyond."""

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import Locator

LINEAR = 10  # per cent up to which improvements are drawn to scale: beyond, by their logarithms
_OF_TEN = ((1, 2, 5), (1, 3), (1,))  # ticks of each decade, from many to few


class Percents(Locator):
    """0, the ends of what is drawn to scale and half of them, and beyond as many of each decade as have room."""

    def __init__(self, axis: Axis) -> None:
        self._of = axis

    def __call__(self) -> np.ndarray:
        return self.tick_values(*self._of.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> np.ndarray:
        decades = 10.0 ** np.arange(1, 1 + np.log10(max(-vmin, vmax, LINEAR)))
        place = self._of.get_transform().transform
        apart = np.ptp(place([vmin, vmax])) / (2 * max(self._of.get_tick_space(), 1))  # a line: the space counts pairs
        ticks = np.zeros(1)
        for factors in _OF_TEN:
            sizes = np.array([LINEAR / 2, *(ten * factor for ten in decades for factor in factors)])
            ticks = np.array([*-sizes[::-1], 0, *sizes])
            ticks = ticks[(vmin <= ticks) & (ticks <= vmax)]
            if np.diff(place(ticks)).min(initial=np.inf) >= apart:
                break
        return ticks
