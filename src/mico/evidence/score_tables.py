"""The scores of a study as tables: numbers for a file, and text for the page."""

from typing import NamedTuple

import pandas as pd

from mico.evidence.intervals import bracketed
from mico.evidence.run_scores import LAST
from mico.evidence.sheets import Sheet, Tabled, crossed
from mico.evidence.statistics import AGGREGATES, Estimate, difference, improvement_probability, unpaired_difference
from mico.evidence.study import Study

_PAIRED = ("iqm", "mean")
LABELS = {"iqm": "IQM", "mean": "mean", "median": "median", "optimality-gap": "optimality gap"}


def aggregates(study: Study) -> list[str]:
    """The aggregates worth showing: with one environment mean and median are equal, and raw scores have no optimum."""
    several = len(study.shared_envs) > 1
    wanted = {"iqm": True, "mean": True, "median": several, "optimality-gap": study.scale != "none"}
    return [name for name in AGGREGATES if wanted[name]]


def score_tables(study: Study) -> tuple[list[Tabled], tuple[str, ...]]:
    """All tables that the data allow, and a sentence for each that they do not."""
    tables, lost = [], []
    if not study.shared_envs:
        lost.append("There is no table of aggregates: no environment has scores of every arm.")
    elif not study.comparable:
        lost.append(
            "There is no table of aggregates: raw returns of different environments cannot be averaged. "
            "--normalise puts them on one scale (docs/report.md)."
        )
    else:
        tables.append(_aggregates(study))
    if pairs(study):
        tables.append(_comparisons(study))
    else:
        lost.append(f"No arms are compared one by one: {no_baseline(study)}.")
    return [*tables, _by_environment(study)], tuple(lost)


def no_baseline(study: Study) -> str:
    """Why there is nothing to compare with."""
    if study.frame["arm"].nunique() < 2:
        return "there is one arm alone"
    return "no arm has a baseline with scores in the same environment (--baseline names one)"


def _by_environment(study: Study) -> Tabled:
    rows = [
        {"env": env, "arm": arm, "seeds": len(own), **study.estimate(own[["value"]], "mean")._asdict()}
        for (arm, env), own in study.returns[0].groupby(["arm", "env"], sort=False)
    ]
    numbers = pd.DataFrame(rows, columns=["env", "arm", "seeds", "value", "low", "high"])
    cells = {(row["env"], row["arm"]): bracketed(row["value"], row["low"], row["high"]) for row in rows}
    share = "tenth" if study.choices.last == LAST else f"{study.choices.last:.3g}"
    caption = (
        f"Final returns: means over seeds of a run's episodes in the last {share} of the steps, with 95% intervals of "
        f"{study.choices.resamples:,} resamples"
    )
    return Tabled(numbers, crossed("by-environment", caption, cells, ("environment", "arm")))


def _aggregates(study: Study) -> Tabled:
    names, rows, lines = aggregates(study), [], []
    for arm, table in study.tables.items():
        found = {name: study.estimate(table, name) for name in names}
        about = {"arm": arm, "seeds": len(table), "environments": table.shape[1]}
        rows += [{**about, "aggregate": name, **one._asdict()} for name, one in found.items()]
        lines.append((arm, f"{table.shape[1]} × {len(table)}", *(bracketed(*one) for one in found.values())))
    caption = f"Aggregates with 95% intervals of {study.choices.resamples:,} resamples, {study.words}"
    heads = ("arm", "environments × seeds", *(LABELS[name] for name in names))
    return Tabled(pd.DataFrame(rows), Sheet("aggregates", caption, heads, tuple(lines)))


class Pair(NamedTuple):
    """An arm and its baseline in the environments that both have."""

    arm: str
    base: str
    x: pd.DataFrame
    y: pd.DataFrame

    def probability(self, study: Study) -> Estimate:
        """Estimate the probability that a run of the arm scores more than a run of the baseline."""
        return improvement_probability(self.x, self.y, **study.bootstrap)

    def differences(self, study: Study) -> dict[str, Estimate]:
        """Differences of aggregates, paired by shared seeds; none where no seed is shared, or scales differ."""
        seeds = self.x.index.intersection(self.y.index)
        if seeds.empty or (study.scale == "none" and self.x.shape[1] > 1):
            return {}
        return {name: difference(self.x.loc[seeds], self.y.loc[seeds], name, **study.bootstrap) for name in _PAIRED}

    def unpaired_differences(self, study: Study) -> dict[str, Estimate]:
        """Differences of aggregates of all runs, each arm resampled by itself; none where scales differ."""
        if study.scale == "none" and self.x.shape[1] > 1:
            return {}
        return {name: unpaired_difference(self.x, self.y, name, **study.bootstrap) for name in _PAIRED}


def pairs(study: Study) -> list[Pair]:
    """Each arm that has a baseline with scores in the same environments."""
    tables = study.scores.tables
    both = [(arm, base) for arm, base in study.baseline_of.items() if arm in tables and base in tables]
    shared = {(arm, base): tables[arm].columns.intersection(tables[base].columns) for arm, base in both}
    return [Pair(*pair, *(tables[arm][envs] for arm in pair)) for pair, envs in shared.items() if len(envs)]


def _comparisons(study: Study) -> Tabled:
    rows, lines = [], []
    for pair in pairs(study):
        probability, differences = pair.probability(study), pair.differences(study)
        seeds = len(pair.x.index.intersection(pair.y.index))
        about = {"arm": pair.arm, "baseline": pair.base, "environments": pair.x.shape[1], "shared seeds": seeds}
        unpaired = pair.unpaired_differences(study)
        named = {"probability of improvement": probability}
        named |= {f"difference of {name}": gap for name, gap in differences.items()}
        named |= {f"difference of {name}, unpaired": gap for name, gap in unpaired.items()}
        rows += [{**about, "comparison": name, **one._asdict()} for name, one in named.items()]
        both = [(gaps, name) for name in _PAIRED for gaps in (differences, unpaired)]
        shown = [bracketed(*gaps[name]) if name in gaps else "–" for gaps, name in both]
        lines.append((pair.arm, pair.base, str(pair.x.shape[1]), bracketed(*probability), str(seeds), *shown))
    resamples = f"{study.choices.resamples:,} resamples"
    caption = (
        f"Against the baseline with 95% intervals of {resamples}; differences paired by seed, and of all runs as if no "
        f"seed were shared, {study.words}"
    )
    heads = ("arm", "baseline", "environments", "P(improvement)", "shared seeds")
    heads = (*heads, *(f"difference of {LABELS[name]}{how}" for name in _PAIRED for how in ("", ", unpaired")))
    sheet = Sheet("comparisons", caption, heads, tuple(lines), labels=2, folded=study.leads_with_speed)
    return Tabled(pd.DataFrame(rows), sheet)
