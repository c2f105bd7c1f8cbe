"""Convergence of sampled estimates: MICo reaches the exact distance, the plain estimator of bisimulation does not."""

from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal, NamedTuple

import numpy as np
import pandas as pd
import tyro
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mico._extras import require
from mico.evidence.intervals import mean_interval
from mico.experiments.cells import Evaluation, in_turn
from mico.experiments.sampled_metrics import SelfDistance, n_step_mico, sampled_bisimulation
from mico.plotting import plots
from mico.tabular import MDP, garnet, make, random_policy, solve, uniform_policy

Kind = Literal["td", "n-step", "off-policy"]
Distances = Float[np.ndarray, "S S"]

ONLINE: tuple[Kind, ...] = ("td", "n-step", "off-policy")
SWEPT = "mico-sweeps"
_TOLERANCE = 1e-10
_MOMENTS = 1_000  # when the tables of online MICo are kept
_SHOWN = 13  # of these, in the data, in even ratios


@dataclass(frozen=True)
class Config:
    """Problems and policies, drawn anew for each seed; how many updates each pair of states gets."""

    seeds: Annotated[int, tyro.conf.arg(help="Random seeds: each draws a Garnet, a policy and samples of its own.")] = 8
    num_states: Annotated[int, tyro.conf.arg(help="Number of states of the Garnets.")] = 5
    num_actions: Annotated[int, tyro.conf.arg(help="Number of actions of the Garnets.")] = 2
    side: Annotated[int, tyro.conf.arg(help="Side of the grid world, in cells.")] = 3
    discount: Annotated[float, tyro.conf.arg(help="Discount factor γ.")] = 0.9
    updates: Annotated[int, tyro.conf.arg(help="Updates of online MICo for each pair of states, on average.")] = 10_000
    horizon: Annotated[int, tyro.conf.arg(help="Number of steps n of the n-step update.")] = 3
    sweeps: Annotated[int, tyro.conf.arg(help="Updates of sampled bisimulation for each pair of states.")] = 3_000
    samples: Annotated[
        tuple[int, ...],
        tyro.conf.arg(help="Numbers of next states that an update of sampled bisimulation draws for either state."),
    ] = (1, 2, 8, 32)
    self_distance: Annotated[
        SelfDistance,
        tyro.conf.arg(help="Self-distances of sampled bisimulation: set to zero, or sampled like the others."),
    ] = "zero"

    def __post_init__(self) -> None:
        counts = ("seeds", "num_states", "num_actions", "side", "horizon")
        for name, least in {**dict.fromkeys(counts, 1), "updates": 100, "sweeps": 100}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, but is {getattr(self, name)}")
        if not self.samples or min(self.samples) < 1 or len(set(self.samples)) < len(self.samples):
            raise ValueError(f"samples must hold positive numbers, all of them different, but is {self.samples}")
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must lie in [0, 1), but is {self.discount}")
        if self.self_distance not in ("sampled", "zero"):
            raise ValueError(f"self_distance must be 'sampled' or 'zero', not {self.self_distance!r}")


QUICK = Config(seeds=2, num_states=3, side=2, updates=200, sweeps=300, samples=(1, 8))


def check(config: Config) -> None:
    """Refuse to start where JAX is not installed."""
    require("jax", "sampling transitions")


class Cell(NamedTuple):
    problem: str
    estimate: str
    seed: int
    config: Config


class Traced(NamedTuple):
    """Tables after so many updates of each pair, and the exact distances that they are held against."""

    updates: Int[np.ndarray, " K"]
    trace: Float[np.ndarray, "K S S"]
    limits: dict[str, Distances]


def run(config: Config, evaluate: Evaluation = in_turn) -> pd.DataFrame:
    r"""Measure how the error of sampled estimates of a distance falls with the number of updates.

    Online MICo by TD(0), by n-step updates and off-policy, against $U$ (n-step also against its own fixed point $U_n$);
    and, by sweeps over all pairs with known rewards, MICo against $U$ and bisimulation whose updates see m sampled next
    states of either state against $d_\pi$. A line for each problem, estimate, seed, `target` and number of `updates`:
    over pairs, the largest and the mean absolute error, and the mean signed one (`bias`).
    """
    estimates = [*ONLINE, SWEPT, *(f"bisimulation-{m}" for m in config.samples)]
    cells = [Cell(*key, config) for key in product(("garnet", "grid"), estimates, range(config.seeds))]
    return evaluate(_measured, cells)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Errors at the end, as means over seeds (± half of the 95% interval of the mean error).

    `slope` is that of the mean error in the last decade, on logarithmic axes: noise has −½, a bias that stays has 0.
    """
    lines = []
    for key, part in frame.groupby(["problem", "estimate", "target"], sort=False):
        mean = part.groupby("updates")["mean_error"].mean()
        late = mean[mean.index >= mean.index.max() / 10]
        slope = np.polyfit(np.log(late.index), np.log(late), 1)[0] if (late > 0).all() else float("nan")
        end = part[part["updates"] == part["updates"].max()]
        middle, low, _ = mean_interval(end["mean_error"].to_numpy())
        lines.append((*key, end["max_error"].mean(), middle, middle - low, end["bias"].mean(), slope))
    columns = ["problem", "estimate", "target", "max_error", "mean_error", "±", "bias", "slope"]
    return pd.DataFrame(lines, columns=columns)


def plot(frame: pd.DataFrame) -> Figure:
    """Mean errors over pairs with 95% intervals over seeds: online MICo above, sampled bisimulation below.

    Each is held against what it should go to; MICo by the same sweeps as bisimulation is drawn with it.
    """
    problems = frame["problem"].unique()
    figure = Figure(figsize=(4.6 * len(problems) + 1.6, 7.2), layout="constrained")
    above, below = figure.subplots(2, len(problems), squeeze=False)
    online = frame["estimate"].isin(ONLINE)
    own = (frame["estimate"] != "n-step") | (frame["target"] == "n-step-mico")
    short = {SWEPT: "MICo, against U", "n-step": "n-step, against U_n"}
    named = frame.assign(estimate=frame["estimate"].str.replace("bisimulation-", "m = ").replace(short))
    for name, upper, lower in zip(problems, above, below):
        here = frame["problem"] == name
        _draw(named[here & online & own], upper)
        upper.set_title(f"{name}: online MICo")
        _draw(named[here & ~online], lower)
        lower.set_title(f"{name}: bisimulation from m samples")
    for row, place in ((above, "upper"), (below, "lower")):  # beside: bands go everywhere in the Axes
        figure.legend(*row[0].get_legend_handles_labels(), loc=f"outside right {place}", frameon=False)
        for ax in row:
            ax.get_legend().remove()
    return figure


def _draw(frame: pd.DataFrame, ax: Axes) -> None:
    """Curves on logarithmic axes, and a line of slope −½ from where their mean begins."""
    plots.curves(frame.rename(columns={"updates": "step", "mean_error": "value"}), ax, by="estimate")
    mean = frame.groupby("updates")["mean_error"].mean()
    ends = np.array([mean.index.min(), mean.index.max()])
    ax.plot(ends, mean.iloc[0] * np.sqrt(ends[0] / ends), "--", color="0.5", linewidth=1, label="slope −½")
    ax.set(xscale="log", yscale="log", xlim=tuple(ends), xlabel="updates of each pair of states", ylabel="mean error")


def _measured(cell: Cell) -> pd.DataFrame:
    config = cell.config
    of_problem, of_policy, *seeds = np.random.default_rng(cell.seed).integers(2**31, size=4).tolist()
    if cell.problem == "garnet":
        mdp = garnet(config.num_states, config.num_actions, seed=of_problem, discount=config.discount).mdp
    else:
        mdp = make("open-grid", height=config.side, width=config.side, discount=config.discount).mdp
    policy = random_policy(mdp, seed=of_policy)
    found = (_online if cell.estimate in ONLINE else _swept)(mdp, policy, cell, seeds)
    named = {"problem": cell.problem, "estimate": cell.estimate, "seed": cell.seed}
    lines = []
    for target, limit in found.limits.items():
        for updates, estimate in zip(found.updates.tolist(), found.trace):
            error = estimate - limit
            sizes = {"max_error": np.abs(error).max(), "mean_error": np.abs(error).mean(), "bias": error.mean()}
            lines.append(named | {"target": target, "updates": updates} | sizes)
    return pd.DataFrame(lines)


def _online(mdp: MDP, policy: Float[np.ndarray, "S A"], cell: Cell, seeds: list[int]) -> Traced:
    """Pairs of windows that begin in states drawn uniformly; there are as many windows as updates."""
    from mico.tabular.sampling.online import Schedule, online_mico
    from mico.tabular.sampling.simulator import simulate

    config, pairs = cell.config, mdp.num_states**2
    horizon = config.horizon if cell.estimate == "n-step" else 1
    acting = uniform_policy(mdp) if cell.estimate == "off-policy" else policy
    updates, kept = config.updates * pairs, min(_MOMENTS, config.updates)
    log = simulate(mdp, acting, num_steps=horizon, num_trajectories=updates, seed=seeds[0])
    log = log.with_ratio(policy, acting)
    schedule = Schedule(updates, checkpoints=kept)
    found = online_mico(log, mdp.num_states, mdp.discount, schedule, seed=seeds[1], horizon=horizon)
    limits = {"mico": solve("mico", mdp, policy, reward="sampled", tolerance=_TOLERANCE).matrix}
    if cell.estimate == "n-step":
        limits["n-step-mico"] = n_step_mico(mdp, policy, horizon)
    at = _moments(kept) - 1
    return Traced(found.updates[at] // pairs, found.trace[at], limits)


def _swept(mdp: MDP, policy: Float[np.ndarray, "S A"], cell: Cell, seeds: list[int]) -> Traced:
    """Bisimulation from m samples; MICo is the case of one sample, self-distances included."""
    chain, moments = mdp.chain(policy), _moments(cell.config.sweeps)
    m, self_distance, target = 1, "sampled", "mico"
    if cell.estimate != SWEPT:
        m, self_distance, target = int(cell.estimate.split("-")[1]), cell.config.self_distance, "pi-bisimulation"
    trace = sampled_bisimulation(chain, m, moments, seed=seeds[0], self_distance=self_distance)
    return Traced(moments, trace, {target: solve(target, chain).matrix})


def _moments(last: int) -> Int[np.ndarray, " K"]:
    """From a thousandth of the last on, in even ratios."""
    return np.unique(np.rint(np.geomspace(max(1, last / 1_000), last, _SHOWN)).astype(int))
