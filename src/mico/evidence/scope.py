"""The runs that a report compares, and the step up to which it does."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from mico.evidence.cells import CELL, NEARLY, REACHED
from mico.evidence.sources import Record, Sources


def once(frame: pd.DataFrame, reached: Mapping[str, int]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """One run of each arm, environment and seed, that which went farthest, and a sentence on each other."""
    runs = frame[["arm", "env", "seed", "run"]].drop_duplicates()
    runs = runs.assign(reached=runs["run"].map(reached)).sort_values("reached", ascending=False, kind="stable")
    again = runs[runs.duplicated(["arm", "env", "seed"])]
    sentences = [
        f"{run} is left out: there is a run of {arm} in {env} with seed {seed} that is as far or farther"
        for arm, env, seed, run in zip(again["arm"], again["env"], again["seed"], again["run"])
    ]
    return frame[~frame["run"].isin(again["run"])], tuple(sentences)


def infinite(frame: pd.DataFrame) -> list[str]:
    """A sentence on each run with infinite returns, which its curve leaves out."""
    wrong = frame[np.isinf(frame["value"])]
    return [
        f"{arm}: seed {seed} of {env} has infinite returns, first at step {steps.min():,}: curves leave them out"
        for (arm, env, seed), steps in wrong.groupby(CELL, sort=False)["step"]
    ]


def reached_steps(sources: Sources) -> dict[str, int]:
    """How far each run is: by its newest row, with a return or without."""
    by_rows = sources.frame.groupby("run")["step"].max().to_dict()
    return {str(run): int(step) for run, step in by_rows.items()} | {
        record.name: record.reached if record.frozen is None else record.frozen for record in sources.records
    }


def with_ends(frame: pd.DataFrame, reached: Mapping[str, int]) -> pd.DataFrame:
    """A row more for each run, at the step that it has come to: its last return may lie long before."""
    ends = frame.drop_duplicates("run")
    ends = ends.assign(step=ends["run"].map(reached), name=REACHED, value=np.nan)
    return pd.concat([frame, ends], ignore_index=True)


def common_steps(frame: pd.DataFrame, reached: Mapping[str, int], records: Sequence[Record]) -> dict[str, int]:
    """For each environment the farthest step that every arm has reached with one run at least.

    A frozen run comes no farther, and does not hold back the others unless all are frozen.
    """
    frozen = {record.name for record in records if record.frozen is not None}
    runs = frame[["arm", "env", "run"]].drop_duplicates()
    sound = ~runs["run"].isin(frozen)
    runs = runs[sound | ~sound.groupby(runs["env"]).transform("any")]
    farthest = runs.assign(reached=runs["run"].map(reached)).groupby(["env", "arm"], sort=False)["reached"].max()
    return {str(env): int(step) for env, step in farthest.groupby(level="env", sort=False).min().items()}


def unfinished_envs(frame: pd.DataFrame, steps: Mapping[str, int], records: Sequence[Record]) -> dict[str, str]:
    """Environments in which no arm is near its end while others are finished, and a sentence on each."""
    behind = _behind(frame, steps, records)
    if len(behind) == len(steps):
        return {}
    why = "and others are finished"
    return {
        env: f"{env} is not in the aggregates: it is at step {steps[env]:,} of {end:,}, {why}"
        for env, end in behind.items()
    }


def early(frame: pd.DataFrame, steps: Mapping[str, int], records: Sequence[Record]) -> list[str]:
    """A sentence if in every environment scores are taken long before the end."""
    behind = _behind(frame, steps, records)
    if len(behind) < len(steps):
        return []
    env = min(behind, key=lambda env: steps[env] / behind[env])
    where = f"at step {steps[env]:,} of {behind[env]:,} in {env}"
    more = f", and so in {len(behind) - 1} more environments" if len(behind) > 1 else ""
    return [f"scores are taken long before the end, {where}{more}: not every arm has come farther"]


def _behind(frame: pd.DataFrame, steps: Mapping[str, int], records: Sequence[Record]) -> dict[str, int]:
    """The planned steps of the environments in which the step of the scores is not near them."""
    ends = {record.name: float(record.steps or 0) for record in records}
    planned = frame["run"].map(lambda run: ends.get(run, 0.0)).groupby(frame["env"]).max()
    return {env: int(planned[env]) for env, step in steps.items() if step < NEARLY * planned[env]}


def cut(frame: pd.DataFrame, steps: Mapping[str, int]) -> pd.DataFrame:
    """The rows up to the step at which scores are taken; runs that went farther have come to it."""
    most = frame["env"].map(steps)
    step = frame["step"].where(frame["name"] != REACHED, np.minimum(frame["step"], most))
    return frame.assign(step=step)[step <= most]
