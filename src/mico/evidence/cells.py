"""Scores of runs as tables without gaps; with each come sentences about what is left out."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from mico.evidence.atari_scores import PAPER_GAMES, REFERENCES, WITHOUT_HUMAN, game

CELL = ["arm", "env", "seed"]

REACHED = "reached"  # name of rows that only tell how far a run has come
NEARLY = 0.95  # of the longest run's steps: a run that has not come so far is still going, or was stopped


class Scale(NamedTuple):
    """The score that counts as 0, and the difference that counts as 1."""

    zero: float
    unit: float


def human_scale(env: str) -> Scale | None:
    r"""$(x - \text{random}) / (\text{human} - \text{random})$ of an Atari game; none where no human score is known."""
    scores = REFERENCES[game(env)]
    return None if scores.human is None else Scale(scores.random, scores.human - scores.random)


NORMALISATIONS: dict[str, Callable[[str], Scale | None]] = {
    "none": lambda env: Scale(0, 1),
    "human": human_scale,
    "thousandth": lambda env: Scale(0, 1000),
}


def normalised(frame: pd.DataFrame, scale_of: Callable[[str], Scale | None]) -> tuple[pd.DataFrame, list[str]]:
    """The frame with returns of each environment on its scale, without environments that have none."""
    scales = {env: scale_of(env) for env in frame["env"].unique()}
    without = [env for env, scale in scales.items() if scale is None]
    frame = frame[~frame["env"].isin(without)]
    zero, unit = (frame["env"].map({env: scale[part] for env, scale in scales.items() if scale}) for part in (0, 1))
    value = frame["value"].mask(frame["name"] == "return", (frame["value"] - zero.astype(float)) / unit.astype(float))
    why = f"no human score is published, as for {len(WITHOUT_HUMAN)} of the paper's {len(PAPER_GAMES)} games"
    return frame.assign(value=value), [f"{env} is left out: {why}" for env in without]


def finals(frame: pd.DataFrame, last: int) -> tuple[pd.DataFrame, list[str]]:
    """The mean of the last returns of every run that has come to the end: rows of arm, env, seed, value."""
    reached = frame.groupby(CELL, sort=False)["step"].max()
    runs = pd.DataFrame({"reached": reached, "longest": reached.groupby("env").transform("max")})
    returns = frame[frame["name"] == "return"].sort_values("step", kind="stable")
    ends = returns.groupby(CELL, sort=False).tail(last)
    runs["value"] = ends.groupby(CELL)["value"].agg(lambda values: values.mean(skipna=False))
    runs["count"] = ends.groupby(CELL).size()
    why = {cell: _fault(*run) for cell, run in zip(runs.index, runs.astype(float).itertuples(index=False, name=None))}
    lost = [f"{arm}: seed {seed} of {env} is left out: {fault}" for (arm, env, seed), fault in why.items() if fault]
    return runs.loc[[not fault for fault in why.values()], "value"].reset_index(), lost


def complete(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The table without its empty cells: again and again the row or column that lacks the largest share goes."""
    lost = []
    while table.size and table.isna().to_numpy().any():
        gaps = table.isna()
        seeds, envs = gaps.mean(axis="columns"), gaps.mean(axis="index")
        if seeds.max() >= envs.max():
            seed = seeds.idxmax()
            lost.append(f"seed {seed} is left out: it has no score in {_few(table.columns[gaps.loc[seed]])}")
            table = table.drop(index=seed)
        else:
            env = envs.idxmax()
            lost.append(f"{env} is left out: it has no score of seed {_few(table.index[gaps[env]])}")
            table = table.drop(columns=env)
    return table, lost


def _few(labels: pd.Index) -> str:
    return ", ".join(map(str, labels[:3])) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")


def _fault(reached: float, longest: float, value: float, count: float) -> str:
    if reached < NEARLY * longest:
        return f"it has come to step {reached:,.0f} of {longest:,.0f}"
    if np.isnan(count):
        return f"it has no return up to step {reached:,.0f}"
    return "" if np.isfinite(value) else "its last returns are not all finite"
