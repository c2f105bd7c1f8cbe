"""The runs that a report compares, and the step up to which it does."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from mico.evidence.exclusion import AGGREGATES, Exclusion
from mico.evidence.run_scores import CELL, NEARLY, reached_steps
from mico.runs.folder import RunFolder


def once(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Exclusion, ...]]:
    """One run of each arm, environment and seed, that which went farthest, and each other as an exclusion."""
    runs = frame[["arm", "env", "seed", "run"]].drop_duplicates()
    runs = runs.assign(reached=runs["run"].map(reached_steps(frame, ["run"]))).sort_values(
        "reached", ascending=False, kind="stable"
    )
    again = runs[runs.duplicated(["arm", "env", "seed"])]
    lost = [
        Exclusion(run, f"there is a run of {arm} in {env} with seed {seed} that is as far or farther")
        for arm, env, seed, run in zip(again["arm"], again["env"], again["seed"], again["run"])
    ]
    return frame[~frame["run"].isin(again["run"])], tuple(lost)


def infinite(frame: pd.DataFrame) -> list[str]:
    """A sentence on each run with infinite returns, which its curve leaves out."""
    wrong = frame[frame["value"].abs() == math.inf]
    return [
        f"{arm}: seed {seed} of {env} has infinite returns, first at step {steps.min():,}: curves leave them out"
        for (arm, env, seed), steps in wrong.groupby(CELL, sort=False)["step"]
    ]


def unfinished_envs(
    frame: pd.DataFrame, steps: Mapping[str, int], records: Sequence[RunFolder]
) -> dict[str, Exclusion]:
    """Environments in which no arm is near its end while others are finished, and a sentence on each."""
    behind = _behind(frame, steps, records)
    if len(behind) == len(steps):
        return {}
    why = "and others are finished"
    return {
        env: Exclusion(env, f"it is at step {steps[env]:,} of {end:,}, {why}", where=AGGREGATES)
        for env, end in behind.items()
    }


def early(frame: pd.DataFrame, steps: Mapping[str, int], records: Sequence[RunFolder]) -> list[str]:
    """A sentence if in every environment scores are taken long before the end."""
    behind = _behind(frame, steps, records)
    if len(behind) < len(steps):
        return []
    env = min(behind, key=lambda env: steps[env] / behind[env])
    where = f"at step {steps[env]:,} of {behind[env]:,} in {env}"
    more = f", and so in {len(behind) - 1} more environments" if len(behind) > 1 else ""
    return [f"scores are taken long before the end, {where}{more}: not every arm has come farther"]


def _behind(frame: pd.DataFrame, steps: Mapping[str, int], records: Sequence[RunFolder]) -> dict[str, int]:
    """The planned steps of the environments in which the step of the scores is not near them."""
    ends = {record.name: float(record.steps or 0) for record in records}
    planned = frame["run"].map(lambda run: ends.get(run, 0.0)).groupby(frame["env"]).max()
    return {env: int(planned[env]) for env, step in steps.items() if step < NEARLY * planned[env]}
