r"""Small MDPs made by hand: numbers printed in the paper beside those computed here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import tyro
from jaxtyping import Float
from matplotlib.figure import Figure

from mico.experiments.cells import Evaluation, in_turn
from mico.tabular import MDP, Chain, lukaszyk_karmowski, make, solve

_NONE = float("nan")
_ROUNDING = 1e-6  # how near what is printed as a formula must be


@dataclass(frozen=True)
class Config:
    """The discount of all examples, and the reward of the good action where bisimulation is no bound."""

    discount: Annotated[
        float,
        tyro.conf.arg(help="Discount factor γ of all examples; the paper prints some of its numbers for 0.9 alone."),
    ] = 0.9
    k: Annotated[
        float, tyro.conf.arg(help="Reward of action b in the example where bisimulation does not bound values.")
    ] = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must lie in [0, 1), but is {self.discount}")
        if not 1 <= self.k < float("inf"):
            raise ValueError(f"k must be at least 1, but is {self.k}")


QUICK = Config()


class Cell(NamedTuple):
    example: str
    discount: float
    k: float


class Line(NamedTuple):
    """A quantity, what the paper prints for it (NaN if nothing), what we compute, and how exact the print is.

    Of some quantities it says no more than that they are `positive`.
    """

    quantity: str
    printed: float
    computed: float
    within: float = _ROUNDING
    positive: bool = False


def run(config: Config, evaluate: Evaluation = in_turn) -> pd.DataFrame:
    """Compute each quantity of the paper's small examples, and compare it with the printed number.

    A line has the number `printed` in the paper, if there is one, the number `computed` here, and a verdict.

    The verdict is "agrees", "slip" where what the paper says is not what its own definitions give, and
    "not printed" for examples from beyond the paper.
    """
    return evaluate(_measured, [Cell(name, config.discount, config.k) for name in _EXAMPLES])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def plot(frame: pd.DataFrame) -> Figure:
    """Printed (rings) beside computed (dots), a line for each quantity."""
    figure = Figure(figsize=(8.5, 0.28 * len(frame) + 1), layout="constrained")
    ax = figure.subplots()
    height = np.arange(len(frame))[::-1]
    slip = (frame["verdict"] == "slip").to_numpy()
    said = frame["printed"].fillna(frame["computed"])
    ax.hlines(height, frame["printed"], frame["computed"], color="#d55e00", linewidth=2)
    ax.plot(frame["computed"], height, "o", color="#0072b2", markersize=5, linestyle="none", label="computed")
    ax.plot(frame["printed"], height, "o", color="0.3", fillstyle="none", markersize=10, label="printed")
    ax.plot(said[slip], height[slip], "x", color="#d55e00", markersize=10, label="a slip")
    ax.set_yticks(height, [f"{line.example}: {line.quantity}" for line in frame.itertuples()], parse_math=False)
    ax.set_xlabel("value")
    ax.grid(axis="x", color="0.9")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(left=False)
    ax.legend(loc="lower right")
    return figure


def _measured(cell: Cell) -> pd.DataFrame:
    lines = _EXAMPLES[cell.example](cell)
    frame = pd.DataFrame(lines, columns=Line._fields)
    apart = (frame["printed"] - frame["computed"]).abs() > frame["within"]
    missed = apart | frame["positive"] & (frame["computed"] < _ROUNDING)
    silent = frame["printed"].isna() & ~frame["positive"]
    verdict = np.select([silent, missed], ["not printed", "slip"], "agrees")
    return frame.assign(example=cell.example, verdict=verdict)[
        ["example", "quantity", "printed", "computed", "verdict"]
    ]


def _bound_fails(cell: Cell) -> list[Line]:
    """The figure: no bound for every policy."""
    whole = 1 / (1 - cell.discount)
    found = {
        policy: make("bound-example", discount=cell.discount, k=cell.k, policy=policy)
        for policy in ("printed", "mirrored")
    }
    gaps = {policy: float(np.ptp(one.mdp.chain(one.policy).value())) for policy, one in found.items()}
    mdp = found["printed"].mdp
    return [
        Line("d~(x, y)", whole, float(solve("bisimulation", mdp).matrix[0, 1])),
        Line("|ΔV|, b in x and a in y", cell.k * whole, gaps["printed"]),
        Line("|ΔV|, a in x and b in y", _NONE, gaps["mirrored"]),
        Line(
            "U(x, y), a in x and b in y",
            _NONE,
            _distances("mico", found["mirrored"].mdp, found["mirrored"].policy)[0, 1],
        ),
    ]


def _reduced_is_no_bound(cell: Cell) -> list[Line]:
    """The lemma, whose numbers are for γ = 0.9."""
    mdp = make("two-state", discount=cell.discount).mdp
    full, reduced = _distances("mico", mdp), _distances("reduced-mico", mdp)
    found = {
        "V(x)": (1.8, float(mdp.chain().value()[0]), 0.05),
        "U(x, x)": (1.06, full[0, 0], 0.005),
        "U(x, y)": (1.82, full[0, 1], 0.005),
        "ΠU(x, y)": (1.29, reduced[0, 1], 0.005),
    }
    at_hand = cell.discount == 0.9
    return [
        Line(name, printed if at_hand else _NONE, computed, within)
        for name, (printed, computed, within) in found.items()
    ]


def _not_partial(cell: Cell) -> list[Line]:
    """The appendix: Łukaszyk–Karmowski of δ₀, δ₁ and η = (δ₀ + δ₁)/2 on {0, 1}."""
    zero, one, both, apart = np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.5, 0.5]), 1 - np.eye(2)
    between = lukaszyk_karmowski(zero, both, apart) + lukaszyk_karmowski(one, both, apart)
    return [
        Line("d(δ₀, δ₁)", 1.0, float(lukaszyk_karmowski(zero, one, apart))),
        Line("d(δ₀, η) + d(δ₁, η) − d(η, η)", 0.5, float(between - lukaszyk_karmowski(both, both, apart))),
    ]


def _no_discount(cell: Cell) -> list[Line]:
    """U written with the Łukaszyk–Karmowski distance, where the discount is left out."""
    mdp = make("two-state", discount=cell.discount).mdp
    chain = mdp.chain()
    both = np.kron(chain.dense_transition(), chain.dense_transition())[:3, :3]  # the pair (y, y) stays where it is
    printed = np.linalg.solve(np.eye(3) - both, chain.reward_gap().ravel()[:3])
    return [Line("U(x, y) of two states, by the equation as printed", float(printed[1]), _distances("mico", mdp)[0, 1])]


def _terminals(cell: Cell) -> list[Line]:
    """Without the sink's distance, |ΔV| ≤ U would fail."""
    mdp = make("terminals", discount=cell.discount).mdp
    value = mdp.chain().value()
    dropped = np.abs(mdp.chain().reward[:, None] - mdp.chain().reward)  # x and y never go on together
    return [
        Line("|V(x) − V(y)|", _NONE, float(abs(value[0] - value[1]))),
        Line("U(x, y), the sink counts", _NONE, _distances("mico", mdp)[0, 1]),
        Line("U(x, y), dropped where one ends", _NONE, float(dropped[0, 1])),
    ]


def _random_reward(cell: Cell) -> list[Line]:
    """One state that pays 0 or 1: sampled updates do not go to the operator's fixed point."""
    mdp = make("random-reward", discount=cell.discount).mdp
    return [
        Line("U(x, x) of the operator on mean rewards", _NONE, _distances("mico", mdp)[0, 0]),
        Line("U(x, x) of sampled updates", _NONE, _distances("mico", mdp, reward="sampled")[0, 0]),
    ]


def _action_reward(cell: Cell) -> list[Line]:
    """One state whose actions pay 0 and 1: comparing states, and comparing states with actions."""
    mdp = make("action-reward", discount=cell.discount).mdp
    pairs = Chain(np.full((2, 2), 0.5), mdp.reward[0], cell.discount)  # (x, a) leads to either action again
    return [
        Line("U(x, x)", _NONE, _distances("mico", mdp)[0, 0]),
        Line("mean of U((x, a), (x, b))", _NONE, float(_distances("mico", pairs).mean())),
    ]


def _self_distance(cell: Cell) -> list[Line]:
    """Said to be positive unless the chain is deterministic; but only rewards have to be."""
    alike = Chain([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0.0, 1.0, 1.0], cell.discount)
    coin = make("coin-chain", discount=cell.discount).mdp
    return [
        Line(
            "U(x, x), a coin flip between states of equal reward", _NONE, _distances("mico", alike)[0, 0], positive=True
        ),
        Line(
            "U(x, x), a coin flip between states of different reward",
            _NONE,
            _distances("mico", coin)[0, 0],
            positive=True,
        ),
    ]


def _pessimism(cell: Cell) -> list[Line]:
    """Two states of equal value whose good actions have different names."""
    found = make("pessimism", discount=cell.discount)
    return [
        Line("d~(s, t)", _NONE, _distances("bisimulation", found.mdp)[0, 1]),
        Line("lax d~(s, t)", _NONE, _distances("lax-bisimulation", found.mdp)[0, 1]),
        Line("U(s, t) under the optimal policy", _NONE, _distances("mico", found.mdp, found.policy)[0, 1]),
    ]


def _distances(name: str, subject: MDP | Chain, policy: Any = None, **options: Any) -> Float[np.ndarray, "S S"]:
    return solve(name, subject, policy, **options).matrix


_EXAMPLES: dict[str, Callable[[Cell], list[Line]]] = {
    "bisimulation is no bound": _bound_fails,
    "ΠU is no bound": _reduced_is_no_bound,
    "no partial metric": _not_partial,
    "no discount": _no_discount,
    "terminals": _terminals,
    "random reward": _random_reward,
    "reward of actions": _action_reward,
    "self-distance": _self_distance,
    "pessimism": _pessimism,
}
