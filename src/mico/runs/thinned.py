"""The log of a run as a curve of few points."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mico._checks import check_plain_name
from mico.runs.folder import read_run
from mico.runs.log import FROZEN, few
from mico.runs.returns import EPISODES, mean_returns

WEIGHTS = ("metric.alpha", "metric.beta")
MEASURES = ("norm", "angle", "effective_rank", "dead_units", "agreement", "distance", "q")
_NEEDED = ("agent", "metric", "env", "seed", "steps", "starts", "settings")
COLUMNS = ("agent", "metric", *WEIGHTS, "env", "seed", "step", "score", "episodes", *MEASURES)


class Logged(NamedTuple):
    """A run as its folder has it."""

    folder: Path
    config: dict[str, Any]
    log: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> "Logged":
        """Read what lies in a run's folder; a ValueError names the file that is not a run's."""
        file = folder / "config.json"
        run, log = read_run(folder, needed=_NEEDED)
        config = run.config
        if config["steps"] is None or config["settings"] is None:
            raise ValueError(f"{file} must tell steps and settings, got null")
        metric = config["settings"].get("metric") or {}
        for weight in WEIGHTS:
            given = metric.get(weight.partition(".")[2])
            if not isinstance(given, int | float | None):
                raise ValueError(f"{file}: settings.{weight} must be a number, got {given!r:.80}")
        for name in (config["agent"], config["settings"]["agent"]["name"]):  # files are named after the agent
            check_plain_name(name, f"the agent in {file}")
        return cls(folder, config, log)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of the curve, without the row that says that the run froze."""
        return [row for row in self.log if FROZEN not in row]

    @property
    def last(self) -> int:
        """The step that it has come to."""
        return max((row["step"] for row in self.rows), default=0)


def thinned(run: Logged, points: int) -> pd.DataFrame:
    """A row for each whole piece, so many of a run that is at its end; or those of the log, if these are fewer."""
    config = run.config
    if run.last > config["steps"]:
        raise ValueError(f"{run.folder / 'log.jsonl'} has step {run.last:,}, beyond the {config['steps']:,} of its run")
    if len(run.rows) * config["steps"] < points * run.last:  # pieces would be shorter than what lies between rows
        edges = np.unique([row["step"] for row in run.rows])
    else:
        edges = np.linspace(0, config["steps"], points + 1)[1:].round().astype(int)
    of_row = np.searchsorted(edges, [row["step"] for row in run.rows]).tolist()
    returns = _returns(run.rows, of_row)
    pieces: list[list[dict[str, Any]]] = [[] for _ in edges]
    for row, piece in zip(run.rows, of_row):
        pieces[piece].append(row)
    found = [
        {"step": edge, **returns.get(number, {"score": np.nan, EPISODES: 0}), **_last(piece)}
        for number, (edge, piece) in enumerate(zip(edges.tolist(), pieces))
        if piece and edge <= run.last
    ]
    metric = config["settings"]["metric"] or {}
    about = {"agent": config["agent"], "metric": config["metric"] or "none", "env": config["env"]}
    about |= {"seed": config["seed"], **{name: metric.get(name.partition(".")[2], np.nan) for name in WEIGHTS}}
    return pd.DataFrame([about | one for one in found], columns=list(COLUMNS))


def tell_cut(logs: Sequence[Logged], tables: Sequence[pd.DataFrame]) -> None:
    """A warning for each run that has no whole piece yet, and one for all that have a part of another."""
    cut = []
    for run, table in zip(logs, tables, strict=True):
        if table.empty:
            so_far = f"at step {run.last:,} of {run.config['steps']:,}, before the end of its first piece"
            warnings.warn(f"{run.folder.parent.name}/{run.folder.name} is left out: it is {so_far}", stacklevel=3)
        elif table["step"].iloc[-1] < run.last:
            cut.append(run.folder.name)
    if cut:
        warnings.warn(f"rows after the last whole piece of a run are left out: {few(cut)}", stacklevel=3)


def _returns(rows: Sequence[dict[str, Any]], piece_of: Sequence[int]) -> dict[int, dict[str, float]]:
    """The mean return of each piece that has one, and the number of its episodes."""
    found = [(n, row["return"], row.get(EPISODES, 1)) for n, row in zip(piece_of, rows) if "return" in row]
    table = pd.DataFrame(found, columns=["piece", "value", EPISODES])
    scores, episodes = mean_returns(table, "piece"), table.groupby("piece", sort=False)[EPISODES].sum()
    return {int(n): {"score": float(scores[n]), EPISODES: int(episodes[n])} for n in scores.index}


def _last(piece: Sequence[dict[str, Any]]) -> dict[str, float]:
    found = {name: value for row in piece for name, value in row.items() if name in MEASURES}
    return {name: found.get(name, np.nan) for name in MEASURES}
