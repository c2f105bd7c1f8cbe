"""Which runs are compared, and up to which step."""

from collections.abc import Mapping, Sequence

import pandas as pd

from mico.pages.report_sources import Record, Sources

_NEARLY = 0.95  # of the steps: as near the end as scores ask for


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


def reached_steps(sources: Sources) -> dict[str, int]:
    """How far each run is: by its newest row, with a return or without."""
    by_rows = sources.frame.groupby("run")["step"].max().to_dict()
    return {str(run): int(step) for run, step in by_rows.items()} | {
        record.name: record.reached if record.frozen is None else record.frozen for record in sources.records
    }


def common_steps(frame: pd.DataFrame, reached: Mapping[str, int]) -> dict[str, int]:
    """For each environment the farthest step that every arm has reached with one run at least."""
    runs = frame[["arm", "env", "run"]].drop_duplicates()
    farthest = runs.assign(reached=runs["run"].map(reached)).groupby(["env", "arm"], sort=False)["reached"].max()
    return {str(env): int(step) for env, step in farthest.groupby(level="env", sort=False).min().items()}


def unfinished_envs(frame: pd.DataFrame, steps: Mapping[str, int], records: Sequence[Record]) -> dict[str, str]:
    """Environments in which no arm is near its end while others are finished, and a sentence on each."""
    ends = {record.name: float(record.steps or 0) for record in records}
    planned = frame["run"].map(lambda run: ends.get(run, 0.0)).groupby(frame["env"]).max()
    behind = {env: int(planned[env]) for env, step in steps.items() if step < _NEARLY * planned[env]}
    if len(behind) == len(steps):
        return {}
    why = "and others are finished"
    return {
        env: f"{env} is not in the aggregates: it is at step {steps[env]:,} of {end:,}, {why}"
        for env, end in behind.items()
    }


def cut(frame: pd.DataFrame, steps: Mapping[str, int]) -> pd.DataFrame:
    """The rows up to the step at which scores are taken."""
    return frame[frame["step"] <= frame["env"].map(steps)]
