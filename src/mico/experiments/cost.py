r"""Time of every metric and solver against states, tolerance, discount and actions, beside the paper's complexity.

Times differ from run to run: `TIMINGS` names the columns that hold them, and all others (iterations, certified errors,
agreement) are the same again. Seconds are those of the processor, so that what else the machine does counts little, and
a worker process has one thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from tyro.conf import arg

from mico.evidence.scaling import power_law
from mico.experiments.cells import Evaluation, in_turn
from mico.experiments.solvers import SOLVERS, Solver, timed
from mico.plotting import plots
from mico.tabular import MDP, METRICS, Chain, garnet, make, solve

WORKERS = 1
TIMINGS: tuple[str, ...] = ("seconds",)

# The powers in the paper's bounds, S⁴ log ε / log γ and S⁵ A log ε / log γ, of what the axes show.
PAPER = {
    "mico": {"states": 4, "tolerance": 1, "discount": 1, "actions": 0},
    "bisimulation": {"states": 5, "tolerance": 1, "discount": 1, "actions": 1},
}
AXES = {
    "states": "number of states S",
    "tolerance": "tolerance ε, by log 1/ε",
    "discount": "discount γ, by 1 / log(1/γ)",
    "actions": "number of actions",
}
_AS_PRINTED = ("mico-entries", "bisimulation-sweeps")  # the ways that the bounds are of
_Sizes = tuple[int, ...]
_TIGHTER = 0.01  # of the tolerance: how exactly that is solved which others are compared with
_STYLES = {"sweeps": "--", "entries": ":", "lifted": "-.", "lyapunov": (0, (5, 1, 1, 1, 1, 1)), "factored": (0, (9, 2))}


@dataclass(frozen=True)
class Config:
    """Sizes for each kind of solver, up to where one would take some 20 s, and what varies on a Garnet of one size."""

    products: Annotated[_Sizes, arg(help="Numbers of states for the solvers by repeated squaring (doubling).")] = (
        32,
        64,
        128,
        256,
        512,
        1024,
    )
    sweeps: Annotated[
        _Sizes,
        arg(help="Numbers of states for sweeps of matrix products, SciPy's Lyapunov solver and reward laws."),
    ] = (16, 32, 64, 128, 256, 512)
    lifted: Annotated[
        _Sizes, arg(help="Numbers of states for sums over pairs of states, and linear systems of that size.")
    ] = (8, 12, 16, 24, 32, 48, 64)
    transport: Annotated[_Sizes, arg(help="Numbers of states for policy iteration on couplings.")] = (
        8,
        12,
        16,
        24,
        32,
        48,
        64,
    )
    transport_sweeps: Annotated[
        _Sizes, arg(help="Numbers of states for sweeps that solve a transport problem for each pair of states.")
    ] = (4, 6, 8, 12, 16, 24)
    grids: Annotated[_Sizes, arg(help="Sides of the grids, in cells, for the factored solver.")] = (
        10,
        32,
        100,
        316,
        1000,
    )
    tolerances: Annotated[
        tuple[float, ...], arg(help="Tolerances ε to compare; the last is used where something else varies.")
    ] = (1e-1, 1e-2, 1e-4, 1e-6)
    discounts: Annotated[
        tuple[float, ...], arg(help="Discount factors γ to compare; the first is used where something else varies.")
    ] = (0.9, 0.5, 0.8, 0.95, 0.98)
    actions: Annotated[
        tuple[int, ...], arg(help="Numbers of actions to compare; the first is used where something else varies.")
    ] = (2, 4, 8)
    states: Annotated[
        int, arg(help="Number of states of the Garnets on which tolerance, discount and actions vary.")
    ] = 10
    side: Annotated[
        int, arg(help="Side of the grid, in cells, on which tolerance and discount vary for the factored solver.")
    ] = 100
    solvers: Annotated[tuple[str, ...], arg(help="Solvers to measure.")] = tuple(SOLVERS)
    mdps: Annotated[int, arg(help="Garnets drawn of each size.")] = 3
    repeats: Annotated[
        int, arg(help="Repetitions of each measurement, of which the quickest counts; fewer where they are long.")
    ] = 3
    compared: Annotated[
        int, arg(help="Most states for which the result is also compared with a solution of smaller tolerance.")
    ] = 64
    seed: Annotated[int, arg(help="Random seed of the Garnets.")] = 0

    def __post_init__(self) -> None:
        least = {"actions": 1, "states": 2, "side": 2, "mdps": 1, "repeats": 1, "seed": 0}
        lists = dict.fromkeys((solver.sizes for solver in SOLVERS.values()), 2)
        for name, bound in (least | lists).items():
            if not np.size(getattr(self, name)) or np.min(getattr(self, name)) < bound:
                raise ValueError(f"{name} must be at least {bound}, but is {getattr(self, name)}")
        for name, bound in (("tolerances", 1e-10), ("discounts", 1e-3)):
            if not all(bound <= each < 1 for each in getattr(self, name) or (np.nan,)):
                raise ValueError(f"{name} must lie in [{bound:g}, 1), but is {getattr(self, name)}")
        if not self.solvers or not set(self.solvers) <= set(SOLVERS):
            raise ValueError(f"solvers must be among {', '.join(SOLVERS)}, but is {self.solvers}")


QUICK = Config(
    products=(16, 32, 64),
    sweeps=(8, 16, 32),
    lifted=(4, 6, 8),
    transport=(4, 6, 8),
    transport_sweeps=(3, 4, 6),
    grids=(4, 8, 16),
    tolerances=(1e-2, 1e-4),
    discounts=(0.9, 0.5),
    actions=(2, 4),
    states=5,
    side=6,
    mdps=1,
)


class Cell(NamedTuple):
    """One solver on one MDP, and what it is measured `against`."""

    solver: str
    against: str
    states: int
    actions: int
    discount: float
    tolerance: float
    mdp: int
    repeats: int
    compared: int
    seed: int


def run(config: Config, evaluate: Evaluation = in_turn) -> pd.DataFrame:
    """Measure how the time of every solver grows with states, tolerance, discount and actions.

    `error` is certified, `apart` the largest difference from our solver with a hundredth of the tolerance (for small
    problems). MDPs are Garnets, for the factored solver open grids with sparse moves; policies are uniform. The chain
    of a policy is there when time starts.
    """
    return evaluate(_measured, list(_cells(config)))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The time at the largest value of each axis, and the power that fits, beside the power in the paper's bound.

    "±" is the half width of the 95% interval of `exponent`; powers are of S, log 1/ε, 1 / log(1/γ) and A.
    """
    lines = []
    for against, solver in product(AXES, frame["solver"].unique()):
        part = frame[(frame["against"] == against) & (frame["solver"] == solver)]
        if part.empty:
            continue
        x = _axis(against, part[against].to_numpy(dtype=float))
        power, last = power_law(x, part["seconds"].to_numpy()), part[x == x.max()]
        line = {"solver": solver, "against": against, "at": f"{last[against].iloc[0]:,}"}
        line |= {"seconds": last["seconds"].mean(), "exponent": power.exponent, "±": power.half}
        paper = PAPER.get(SOLVERS[solver].metric, {}).get(against, np.nan)
        lines.append(line | {"paper": float(paper), "iterations": last["iterations"].mean()})
    return pd.DataFrame(lines)


def plot(frame: pd.DataFrame) -> Figure:
    """A panel for each axis, both scales logarithmic: times of each solver, colour by metric, line by way."""
    figure = Figure(figsize=(11, 8), layout="constrained")
    axes = figure.subplots(2, 2)
    for against, ax in zip(AXES, axes.flat):
        _draw(frame[frame["against"] == against], ax, against)
    legend = axes[0, 0].get_legend_handles_labels()
    figure.legend(*legend, loc="outside right center", frameon=False, title="power of S, 95% interval")
    return figure


def _cells(config: Config) -> Iterator[Cell]:
    for name in config.solvers:
        on_grid = SOLVERS[name].sizes == "grids"
        sizes = getattr(config, SOLVERS[name].sizes)
        states = config.side**2 if on_grid else config.states
        usual = {"states": states, "actions": 4 if on_grid else config.actions[0]}
        usual |= {"discount": config.discounts[0], "tolerance": config.tolerances[-1]}
        varied = {"states": [size**2 for size in sizes] if on_grid else sizes}
        varied |= {"tolerance": config.tolerances, "discount": config.discounts}
        varied |= {} if on_grid else {"actions": config.actions}
        rest = {"repeats": config.repeats, "compared": config.compared, "seed": config.seed}
        for against, values in varied.items():
            for value in values:
                for mdp in range(1 if on_grid else config.mdps):
                    yield Cell(name, against, mdp=mdp, **(usual | {against: value}), **rest)


def _measured(cell: Cell) -> pd.DataFrame:
    solver = SOLVERS[cell.solver]
    solver.solve(_subject(solver, cell._replace(states=4)), cell.tolerance)  # loads what the first call loads
    subject = _subject(solver, cell)
    solution, seconds = timed(lambda: solver.solve(subject, cell.tolerance), cell.repeats)
    apart = np.nan
    if cell.states <= cell.compared:
        exact = solve(solver.metric, subject, tolerance=_TIGHTER * cell.tolerance, method="dense").matrix
        apart = float(np.abs(solution.matrix - exact).max())
    line = {name: getattr(cell, name) for name in Cell._fields[:7]}
    more = {"iterations": solution.iterations, "error": float(solution.error), "apart": apart, "seconds": seconds}
    return pd.DataFrame([line | more])


def _subject(solver: Solver, cell: Cell) -> MDP | Chain:
    if solver.sizes == "grids":
        side = round(cell.states**0.5)
        mdp = make("open-grid", height=side, width=side, discount=cell.discount).mdp
    else:
        entropy = np.random.SeedSequence((cell.seed, cell.states, cell.actions, cell.mdp))
        mdp = garnet(cell.states, cell.actions, seed=int(entropy.generate_state(1)[0]), discount=cell.discount).mdp
    return METRICS[solver.metric].subject(mdp)


def _axis(against: str, values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """The quantity whose powers the paper's bounds are."""
    if against == "tolerance":
        return -np.log(values)
    return -1 / np.log(values) if against == "discount" else values


def _draw(frame: pd.DataFrame, ax: Axes, against: str) -> None:
    colour_of = plots.colours(METRICS)
    for name, part in frame.groupby("solver", sort=False):
        metric = SOLVERS[name].metric
        way = name.removeprefix(metric).removeprefix("-")
        x, seconds = _axis(against, part[against].to_numpy(dtype=float)), part["seconds"].to_numpy()
        power = power_law(x, seconds)
        label = f"{metric}{way and ', ' + way}: {power.exponent:.2f} ± {power.half:.2f}".replace("nan", "–")
        means = part.assign(x=x).groupby("x")["seconds"].mean()
        ax.plot(x, seconds, ".", color=colour_of[metric], markersize=4)
        ax.plot(means.index, means, color=colour_of[metric], linestyle=_STYLES.get(way, "-"), label=label)
        if name in _AS_PRINTED:
            bound = means.iloc[-1] * (means.index / means.index[-1]) ** PAPER[metric][against]
            label = f"{metric}, the paper's power"
            ax.plot(means.index, bound, color="0.6", linewidth=4, alpha=0.5, zorder=0, label=label)
    ax.set(xscale="log", yscale="log", xlabel=AXES[against], ylabel="seconds of CPU")
    ax.spines[["top", "right"]].set_visible(False)
    if against != "states":
        shown = np.sort(frame[against].unique())
        ax.set_xticks(_axis(against, shown.astype(float)), [f"{value:g}" for value in shown])
        ax.xaxis.set_minor_locator(NullLocator())
