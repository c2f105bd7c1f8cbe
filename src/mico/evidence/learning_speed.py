r"""How fast arms learn: the mean return over training, and the steps until a run scores 0.9 of the best.

Final scores say nothing where every arm ends at the best score that there is; these measures still do. All functions
take the tidy rows of runs with their arms, cut where scores are taken, and the final score of each run.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from mico.evidence.run_scores import CELL, first_returns
from mico.evidence.statistics import RESAMPLES, difference, estimate, iqm

SHARE = 0.9  # of the way to the ceiling that counts as learnt
MEASURES = ("mean", "steps")
WINDOW = 5  # rows that a run must stay at the threshold
_NEAR = 0.01  # of that way, by which an arm at the ceiling may lack


def mean_over_steps(steps: Int[np.ndarray, " rows"], returns: Float[np.ndarray, " rows"], end: int | float) -> float:
    r"""Mean of a learning curve over the steps up to `end`: the area under it, divided by its length.

    A row holds the mean return since the row before it, so the curve is constant between rows:
    $\frac1T \sum_i (s_i - s_{i-1})\, x_i$ with $s_0 = 0$. After the last row it stays where it was.

    Args:
        steps: The steps of the rows, rising.
        returns: The return of each row.
        end: T, the step up to which the mean is taken; no row lies beyond it.

    Returns:
        The mean; NaN without a row.

    Examples:
        >>> mean_over_steps(np.array([10, 20, 40]), np.array([0.0, 1.0, 1.0]), 40)
        0.75
    """
    if len(steps) == 0:
        return float("nan")
    lengths = np.diff(steps, prepend=0).astype(float)
    lengths[-1] += max(end - steps[-1], 0)
    return float(returns @ lengths / lengths.sum()) if lengths.sum() > 0 else float(returns[-1])


def steps_to(
    steps: Int[np.ndarray, " rows"], returns: Float[np.ndarray, " rows"], threshold: float, *, window: int = WINDOW
) -> float:
    """First step at which a run reaches a threshold and stays there.

    It does at a row whose return is at least the threshold, if the mean of the `window` rows from there on is so too
    (fewer near the end): one lucky episode is not enough.

    Args:
        steps: The steps of the rows, rising.
        returns: The return of each row.
        threshold: What must be reached.
        window: How many rows must have it as their mean.

    Returns:
        The step of that row; NaN if there is none.

    Examples:
        >>> steps_to(np.array([10, 20, 30, 40]), np.array([1.0, 0.0, 0.9, 1.0]), 0.9, window=2)
        30.0
    """
    for row, value in enumerate(returns):
        if value >= threshold and returns[row : row + window].mean() >= threshold:
            return float(steps[row])
    return float("nan")


def learning_targets(rows: pd.DataFrame, finals: pd.DataFrame) -> pd.DataFrame:
    """Find the ceiling of each environment, and the return that counts as learnt.

    The ceiling is the best final score of an arm, its interquartile mean over seeds. The floor is 0, or, where some
    return is negative, the mean first return of all runs. The threshold lies 0.9 of the way from floor to ceiling.

    Args:
        rows: Tidy rows with `arm`, as far as scores are taken.
        finals: The final score of each run: arm, env, seed, value.

    Returns:
        The columns floor, ceiling and threshold by env; the threshold is NaN where no arm ends above the floor.
    """
    returns = _finite_returns(rows)
    first = first_returns(rows).groupby(level="env").mean()
    floor = first.where(returns.groupby("env")["value"].min() < 0, 0.0)
    ceiling = finals.groupby(["env", "arm"])["value"].agg(_middle).groupby(level="env").max()
    targets = pd.DataFrame({"floor": floor.reindex(ceiling.index), "ceiling": ceiling})
    threshold = targets["floor"] + SHARE * (targets["ceiling"] - targets["floor"])
    return targets.assign(threshold=threshold.where(targets["ceiling"] > targets["floor"]))


def learning_speed(
    rows: pd.DataFrame, finals: pd.DataFrame, ends: Mapping[str, int], *, window: int = WINDOW
) -> pd.DataFrame:
    """Measure how fast each run learns.

    Args:
        rows: Tidy rows with `arm`, as far as scores are taken. Returns that are not finite are left out.
        finals: The final score of each run: arm, env, seed, value. Runs without one are not measured.
        ends: The step at which scores are taken, by environment.
        window: How many rows a run must stay at the threshold (`steps_to`).

    Returns:
        A row for each run: arm, env, seed; `mean`, its mean return over training; `steps`, its steps to the threshold
        of its environment (`learning_targets`), or, where it never reaches it, the step at which scores are taken; and
        whether it has `reached` the threshold. Where there is no threshold, `steps` is NaN.
    """
    targets = learning_targets(rows, finals)
    curves = dict(iter(_finite_returns(rows).groupby(CELL)))
    found = []
    for arm, env, seed in finals[CELL].itertuples(index=False, name=None):
        own, threshold = curves[arm, env, seed], float(targets["threshold"][env])
        steps, returns = own["step"].to_numpy(), own["value"].to_numpy(dtype=float)
        first = steps_to(steps, returns, threshold, window=window)
        censored = np.nan if np.isnan(threshold) else float(ends[env])
        found.append(
            {
                "arm": arm,
                "env": env,
                "seed": seed,
                "mean": mean_over_steps(steps, returns, ends[env]),
                "steps": censored if np.isnan(first) else first,
                "reached": not np.isnan(first),
            }
        )
    return pd.DataFrame(found, columns=[*CELL, "mean", "steps", "reached"])


def tied_at_ceiling(rows: pd.DataFrame, finals: pd.DataFrame) -> list[str]:
    """List the environments in which all arms, two at least, end at the ceiling.

    They do where the interquartile mean of the final scores of every arm lacks at most 1% of the way from the floor
    (`learning_targets`) to the best final score of a run: then most runs of every arm score as the best one does.

    Args:
        rows: Tidy rows with `arm`, as far as scores are taken.
        finals: The final score of each run: arm, env, seed, value.

    Returns:
        The names of these environments, sorted.
    """
    floors = learning_targets(rows, finals)["floor"]
    tied = []
    for env, own in finals.groupby("env"):
        best, floor = own["value"].max(), floors[env]
        middles = own.groupby("arm")["value"].agg(_middle)
        if len(middles) > 1 and best > floor and middles.min() >= best - _NEAR * (best - floor):
            tied.append(str(env))
    return tied


def _middle(scores: pd.Series) -> float:
    """The interquartile mean of one environment's scores."""
    return float(iqm(scores.to_numpy(dtype=float)[:, None]))


def _finite_returns(rows: pd.DataFrame) -> pd.DataFrame:
    returns = rows[(rows["name"] == "return") & np.isfinite(rows["value"].astype(float))]
    return returns.sort_values("step", kind="stable")


def speed_estimates(speed: pd.DataFrame, *, seed: int, resamples: int = RESAMPLES) -> pd.DataFrame:
    """Average the measures of `learning_speed` over seeds, with 95% bootstrap intervals.

    Args:
        speed: What `learning_speed` gives.
        seed: Of the bootstrap.
        resamples: Of the bootstrap.

    Returns:
        Two rows for each environment and arm: env, arm, `runs`, how many have `reached` the threshold, `measure`
        ("mean" or "steps"), value, low, high. A mean of steps in which a run that has not reached the threshold counts
        with the steps of its training is a lower bound.
    """
    rows = []
    for (env, arm), own in speed.sort_values("env", kind="stable").groupby(["env", "arm"], sort=False):
        about = {"env": env, "arm": arm, "runs": len(own), "reached": int(own["reached"].sum())}
        for measure in MEASURES:
            if own[measure].notna().all():
                found = estimate(own[[measure]].to_numpy(dtype=float), "mean", seed=seed, resamples=resamples)
                rows.append({**about, "measure": measure, **found._asdict()})
    return pd.DataFrame(rows, columns=["env", "arm", "runs", "reached", "measure", "value", "low", "high"])


def speed_differences(
    speed: pd.DataFrame, baseline_of: Mapping[str, str], *, seed: int, resamples: int = RESAMPLES
) -> pd.DataFrame:
    """Compare the measures of `learning_speed` with those of a baseline, paired by the seeds that both have.

    Args:
        speed: What `learning_speed` gives.
        baseline_of: The baseline of each arm that has one.
        seed: Of the bootstrap.
        resamples: Of the bootstrap.

    Returns:
        Two rows for each environment and arm with a baseline there: env, arm, baseline, `seeds` that both have,
        how many runs of either have `reached` the threshold, `measure`, and value, low, high of the difference.
        A difference of steps is left out where no run of either arm has reached the threshold.
    """
    rows = []
    for env, own in speed.groupby("env"):
        arms = {str(arm): runs.set_index("seed") for arm, runs in own.groupby("arm", sort=False)}
        for arm, base in baseline_of.items():
            seeds = arms[arm].index.intersection(arms[base].index) if {arm, base} <= set(arms) else []
            if not len(seeds):
                continue
            x, y = arms[arm].loc[seeds], arms[base].loc[seeds]
            reached = int(x["reached"].sum() + y["reached"].sum())
            about = {"env": env, "arm": arm, "baseline": base, "seeds": len(seeds), "reached": reached}
            for measure in MEASURES if reached else MEASURES[:1]:
                ours, theirs = (one[[measure]].to_numpy(dtype=float) for one in (x, y))
                found = difference(ours, theirs, "mean", seed=seed, resamples=resamples)
                rows.append({**about, "measure": measure, **found._asdict()})
    columns = ["env", "arm", "baseline", "seeds", "reached", "measure", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns)
