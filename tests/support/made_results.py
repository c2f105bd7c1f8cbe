"""Results of a study on MinAtar that nobody trained, as small files."""

import numpy as np
import pandas as pd

from mico.runs.archive import COLUMNS, KEY, WEIGHTS, Condensed, merged, read, write
from mico.runs.thinned import MEASURES


def made_rows(agent, game, seeds, weights, *, steps, points, gain=lambda alpha, beta: 2.0):
    """Curves that rise to 10, and with MICo to as much more as `gain` says; the seed moves both alike."""
    rng = np.random.default_rng(len(game))
    lines = []
    for alpha, beta in [(None, None), *weights]:
        high = 10.0 if alpha is None else 10.0 + gain(alpha, beta)
        for seed in seeds:
            for point in range(1, points + 1):
                about = (agent, "none" if alpha is None else "mico", alpha, beta, f"minatar/{game}", seed)
                score = high * point / points + 0.1 * seed % 1 + 0.01 * rng.normal()
                lines.append((*about, point * steps // points, score, 4, *rng.uniform(0.1, 0.9, len(MEASURES))))
    table = pd.DataFrame(lines, columns=list(COLUMNS))
    return table.astype({"metric.alpha": float, "metric.beta": float})


def write_results(folder, tables):
    """In a folder of small files, with those that it has."""
    every = pd.concat(tables, ignore_index=True)
    records = [_record(agent, env, rows) for (agent, env), rows in every.groupby(["agent", "env"])]
    write(merged(read(folder), Condensed(every, records)), folder)


def _record(agent, env, rows):
    runs = rows.drop_duplicates(KEY)[["metric", *WEIGHTS, "seed"]].astype(object)
    runs = runs.where(runs.notna(), None).set_axis(["metric", "alpha", "beta", "seed"], axis="columns")
    return {
        "agent": agent,
        "env": env,
        "steps": int(rows["step"].max()),
        "settings": {"none": {"agent": {"name": agent}}},
        "runs": runs.to_dict("records"),
    }
