"""The score of a run, and the step at which scores are taken: one definition for all tables, figures and experiments.

All functions take tidy rows with their arms. Beside rows named "return" there may be others: a row of any name tells
how far a run has come, one named `REACHED` nothing else, and one named `FROZEN` that it stopped learning because a
number was not finite, with the step as its value.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from mico.evidence.exclusion import Exclusion
from mico.runs.log import FROZEN, REACHED
from mico.runs.returns import mean_returns

CELL = ["arm", "env", "seed"]
LAST = 0.1  # of the steps, whose returns are a run's score
NEARLY = 0.95  # of the steps at which scores are taken: a run that has not come so far is still going, or was stopped
_ROUNDING = 1e-9  # of a step, relative: where a tenth of the steps begins


def final_scores(
    frame: pd.DataFrame, *, last: float = LAST, steps: Mapping[str, int] | None = None
) -> tuple[pd.DataFrame, list[Exclusion]]:
    r"""Score runs: the mean return over the episodes of the last tenth of the steps up to T.

    That is $\sum_i e_i x_i / \sum_i e_i$ over the rows i with $0.9\,T < s_i \le T$, where a row at step $s_i$ holds the
    mean return $x_i$ of $e_i$ `episodes`, or of one where that is not known. A run without a return in that tenth has
    its newest one up to T as its score.

    Args:
        frame: Tidy rows with `arm`.
        last: The share of the steps in place of a tenth.
        steps: T of each environment; by default the last step that all arms have in common (`common_steps`), which for
            an arm alone is its last.

    Returns:
        Rows of arm, env, seed, value, and an exclusion for each run that has no score: it has not come to T, or has no
        return up to T, or not all of those returns are finite.
    """
    if not 0 < last <= 1:
        raise ValueError(f"last must be a share of the steps, above 0 and at most 1, got {last}")
    steps = common_steps(frame) if steps is None else steps
    ends = frame["env"].map(steps).astype(float)
    is_return = (frame["name"] == "return") & (frame["step"] <= ends)
    returns = frame[is_return].sort_values("step", kind="stable")
    late = returns["step"] > (ends[is_return] * (1 - last + _ROUNDING)).reindex(returns.index)
    newest = ~returns.duplicated(CELL, keep="last")
    counted = returns[late | newest & ~late.groupby([returns[name] for name in CELL]).transform("any")]
    runs = pd.DataFrame({"reached": reached_steps(frame)})
    runs["end"] = runs.index.get_level_values("env").map(steps).astype(float)
    runs["reached"] = np.minimum(runs["reached"], runs["end"])
    runs["value"] = mean_returns(counted, CELL)
    runs["sound"] = np.isfinite(counted["value"].astype(float)).groupby([counted[name] for name in CELL]).all()
    why = {cell: _fault(*run) for cell, run in zip(runs.index, runs.itertuples(index=False, name=None))}
    lost = [Exclusion(f"{arm}: seed {seed} of {env}", fault) for (arm, env, seed), fault in why.items() if fault]
    return runs.loc[[not fault for fault in why.values()], "value"].reset_index(), lost


def _fault(reached: float, end: float, value: float, sound: bool | float) -> str:
    if reached < NEARLY * end:
        return f"it has come to step {reached:,.0f} of {end:,.0f}"
    if not isinstance(sound, bool | np.bool_):
        return f"it has no return up to step {reached:,.0f}"
    return "" if sound and np.isfinite(value) else "its last returns are not all finite"


def first_returns(frame: pd.DataFrame) -> pd.Series:
    """Find the first return of each run that is finite, by arm, env and seed."""
    found = frame[(frame["name"] == "return") & np.isfinite(frame["value"].astype(float))]
    return found.sort_values("step", kind="stable").groupby(CELL, sort=False)["value"].first()


def reached_steps(frame: pd.DataFrame, by: Sequence[str] = CELL) -> pd.Series:
    """Tell how far each run has come, by arm, env and seed: to its newest row of any name, or to where it froze."""
    step = frame["step"].where(frame["name"] != FROZEN, frame["value"]).astype(np.int64)
    return frame.assign(step=step).groupby([*by], sort=False)["step"].max()


def common_steps(frame: pd.DataFrame) -> dict[str, int]:
    """Find for each environment the farthest step that every arm has reached with one run at least.

    A frozen run comes no farther, and does not hold back the others unless all are frozen.
    """
    runs = reached_steps(frame).reset_index()
    frozen = frame.loc[frame["name"] == FROZEN, CELL].drop_duplicates().assign(frozen=True)
    sound = runs.merge(frozen, how="left", on=CELL)["frozen"].isna()
    runs = runs[sound | ~sound.groupby(runs["env"]).transform("any")]
    farthest = runs.groupby(["env", "arm"], sort=False)["step"].max()
    return {str(env): int(step) for env, step in farthest.groupby(level="env", sort=False).min().items()}


def cut(frame: pd.DataFrame, steps: Mapping[str, int]) -> pd.DataFrame:
    """Cut rows at the step where scores are taken, and add to each run one that says how far it has come by then."""
    ends = frame.drop_duplicates(CELL)
    reached = reached_steps(frame).to_numpy()  # in the order in which runs appear, as the rows of `ends`
    ends = ends.assign(step=np.minimum(reached, ends["env"].map(steps)), name=REACHED, value=np.nan)
    kept = frame[(frame["step"] <= frame["env"].map(steps)) & ~frame["name"].isin((REACHED, FROZEN))]
    return pd.concat([kept, ends.astype({"step": np.int64})], ignore_index=True)
