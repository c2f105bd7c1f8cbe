"""How fast arms learn, as tables of a report; they lead where all arms end at the ceiling."""

from collections.abc import Sequence

import pandas as pd

from mico.evidence.intervals import bracketed
from mico.evidence.learning_speed import MEASURES, SHARE, speed_differences, speed_estimates
from mico.evidence.sheets import Sheet, Tabled
from mico.evidence.statistics import Estimate
from mico.evidence.study import Study

LABELS = {"mean": "mean return over training", "steps": f"steps to {SHARE:g} of the best"}
_NAMES = 3  # environments that a sentence names


def speed_tables(study: Study) -> list[Tabled]:
    """The table of all arms and, where there are baselines, that of differences; none where there are no curves."""
    if study.rows_of_runs.max() < 2:
        return []
    tables = [_arms(study)]
    differences = speed_differences(study.speed, study.baseline_of, **study.bootstrap)
    return [*tables, _differences(study, differences)] if len(differences) else tables


def speed_note(study: Study) -> str | None:
    """Why the report leads with these tables, if it does."""
    if not study.leads_with_speed or study.rows_of_runs.max() < 2:
        return None
    best = study.targets["ceiling"]
    shown = [f"{env} ({bracketed(float(best[env]))})" for env in study.tied[:_NAMES]]
    more = f" and {len(study.tied) - _NAMES} more environments" if len(study.tied) > _NAMES else ""
    return (
        f"Most runs of every arm end at the best score: {', '.join(shown)}{more}. Final scores do not tell the arms "
        "apart, so the report leads with how fast they learn."
    )


def _arms(study: Study) -> Tabled:
    numbers = speed_estimates(study.speed, **study.bootstrap)
    numbers = numbers.merge(study.targets.reset_index(), on="env", how="left")
    lines = []
    for (env, arm), own in numbers.groupby(["env", "arm"], sort=False):
        found = _by_measure(own)
        reached, runs = int(own["reached"].iloc[0]), int(own["runs"].iloc[0])
        steps = found.get("steps")
        shown = "–" if steps is None else ("≥ " if reached < runs else "") + bracketed(*steps)
        shown = shown if reached or steps is None else "never"
        threshold = bracketed(float(own["threshold"].iloc[0]))
        lines.append((str(env), str(arm), bracketed(*found["mean"]), threshold, shown, f"{reached} of {runs}"))
    caption = (
        "Learning speed: means over seeds with 95% intervals, in the unit of the returns. A run that does not reach "
        f"{SHARE:g} of the best counts with all its steps, and its arm has ≥"
    )
    heads = ("environment", "arm", LABELS["mean"], f"{SHARE:g} of the best", "steps to it", "runs that reach it")
    return Tabled(numbers, _sheet(study, "learning-speed", caption, heads, lines))


def _differences(study: Study, numbers: pd.DataFrame) -> Tabled:
    lines = []
    for (env, arm, base), own in numbers.groupby(["env", "arm", "baseline"], sort=False):
        found = _by_measure(own)
        cells = [bracketed(*found[measure]) if measure in found else "–" for measure in MEASURES]
        lines.append((str(env), str(arm), str(base), str(own["seeds"].iloc[0]), *cells))
    caption = (
        "Learning speed against the baseline: differences paired by seed with 95% intervals. "
        "More return and fewer steps are better"
    )
    heads = ("environment", "arm", "baseline", "shared seeds", *(f"difference of {LABELS[name]}" for name in MEASURES))
    return Tabled(numbers, _sheet(study, "learning-speed-differences", caption, heads, lines, labels=3))


def _sheet(
    study: Study, name: str, caption: str, heads: Sequence[str], lines: Sequence[tuple[str, ...]], *, labels: int = 2
) -> Sheet:
    return Sheet(name, caption, tuple(heads), tuple(lines), labels=labels, folded=not study.tied)


def _by_measure(rows: pd.DataFrame) -> dict[str, Estimate]:
    return {
        str(row["measure"]): Estimate(*(float(row[part]) for part in Estimate._fields))
        for row in rows.to_dict("records")
    }
