"""The runs of a report as scores: on which scale, at which step, against which baseline, and what is left out."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pandas as pd

from mico.evidence.atari_scores import is_game
from mico.evidence.baselines import baselines, scale_of
from mico.evidence.curves import training_curves
from mico.evidence.exclusion import AGGREGATES, Exclusion
from mico.evidence.learning_speed import learning_speed, learning_targets, tied_at_ceiling
from mico.evidence.normalise import normalised
from mico.evidence.run_scores import common_steps, cut, final_scores
from mico.evidence.scope import early, infinite, once, unfinished_envs
from mico.evidence.scores import Scores, tabulate, with_arms
from mico.evidence.statistics import CURVE_RESAMPLES, MOST_RESAMPLES, Estimate, estimate
from mico.plotting.score_plots import Style, arm_styles
from mico.runs.log import COLUMNS
from mico.runs.sources import Sources


class Choices(NamedTuple):
    """Choices that a report leaves to its user; None lets the data decide."""

    normalise: str | None
    baseline: str | None
    last: float
    step: int | None
    points: int
    resamples: int
    seed: int
    columns: Mapping[str, str] | None = None  # of a table of scales, theirs to ours


@dataclass(frozen=True)
class Study:
    """Rows with their arms, up to the last and, for scores, up to `steps`; `left_out` says what else there is."""

    choices: Choices
    frame: pd.DataFrame
    steps: dict[str, int]
    scaled: pd.DataFrame
    scale: str
    words: str
    baseline_of: dict[str, str]
    left_out: tuple[str | Exclusion, ...]
    frame_skip: int  # frames of an emulator in a step, or 1

    @cached_property
    def returns(self) -> tuple[pd.DataFrame, list[Exclusion]]:
        """The score of every run that has one in raw returns, whatever others lack, and why the rest have none."""
        return final_scores(self.frame, last=self.choices.last, steps=self.steps)

    @cached_property
    def scores(self) -> Scores:
        """The scores on the report's scale."""
        return tabulate(self.scaled, last=self.choices.last, steps=self.steps)

    @cached_property
    def aggregated(self) -> dict[str, pd.DataFrame]:
        """The scores of the arms that are in aggregates: few environments of one would leave few of all others."""
        tables = self.scores.tables
        most = max((table.shape[1] for table in tables.values()), default=0)
        return {arm: table for arm, table in tables.items() if 2 * table.shape[1] >= most}

    @cached_property
    def shared_envs(self) -> list[str]:
        """Environments in which every arm in aggregates has scores."""
        tables = list(self.aggregated.values())
        return [env for env in tables[0].columns if all(env in table for table in tables)] if tables else []

    @property
    def unshared(self) -> list[Exclusion]:
        """An exclusion for each arm that is in no aggregate, and for each environment in which an arm has no scores."""
        tables = self.aggregated
        lacking = {
            env: [arm for arm in tables if env not in tables[arm]] for table in tables.values() for env in table.columns
        }
        few = [
            Exclusion(arm, f"it has scores in {table.shape[1]} of {len(lacking)} environments", where=AGGREGATES)
            for arm, table in self.scores.tables.items()
            if arm not in tables
        ]
        return few + [
            Exclusion(env, f"{arms[0]} has no scores in it", where=AGGREGATES) for env, arms in lacking.items() if arms
        ]

    @property
    def comparable(self) -> bool:
        """Whether scores of all its environments may be averaged."""
        return self.scale != "none" or len(self.shared_envs) == 1

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The scores of each arm in aggregates in the environments that all of these share."""
        return {arm: table[self.shared_envs] for arm, table in self.aggregated.items()}

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Returns of every run at common steps, the whole of it."""
        return training_curves(self.frame, points=self.choices.points)

    @cached_property
    def styles(self) -> dict[str, Style]:
        """How each arm looks, the same in all figures and on the page."""
        return arm_styles(self.frame)

    @cached_property
    def speed(self) -> pd.DataFrame:
        """How fast each run learns that has a final return, in the unit of the returns."""
        rows = cut(self.frame, self.steps)
        return learning_speed(rows, self.returns[0], self.steps)

    @cached_property
    def targets(self) -> pd.DataFrame:
        """The return that counts as learnt, by environment."""
        return learning_targets(cut(self.frame, self.steps), self.returns[0])

    @cached_property
    def tied(self) -> list[str]:
        """The environments in which all arms end at the ceiling."""
        return tied_at_ceiling(cut(self.frame, self.steps), self.returns[0])

    @property
    def leads_with_speed(self) -> bool:
        """Whether final scores say nothing anywhere, because all arms end at the ceiling."""
        return bool(self.tied) and set(self.tied) == set(self.returns[0]["env"])

    @cached_property
    def rows_of_runs(self) -> pd.Series:
        """How many returns each run has."""
        returns = self.frame[self.frame["name"] == "return"]
        return returns.groupby("run", sort=False).size()

    @property
    def arm_of(self) -> dict[str, str]:
        """The arm of each run."""
        runs = self.frame.drop_duplicates("run")
        return dict(zip(runs["run"], runs["arm"]))

    @property
    def bootstrap(self) -> dict[str, Any]:
        """How intervals in tables are drawn."""
        return {"seed": self.choices.seed, "resamples": self.choices.resamples}

    @property
    def curve_bootstrap(self) -> dict[str, Any]:
        """How intervals of curves are drawn, of which a figure has hundreds."""
        return self.bootstrap | {"resamples": min(self.choices.resamples, CURVE_RESAMPLES)}

    def estimate(self, table: pd.DataFrame, aggregate: str) -> Estimate:
        """An aggregate with its interval."""
        return estimate(table, aggregate, **self.bootstrap)


def study(sources: Sources, choices: Choices) -> Study:
    """Compare runs as the choices ask; a ValueError if a choice has no meaning for them."""
    _check(choices)
    frame, twice = once(_ordered(with_arms(sources.frame)))
    steps = common_steps(frame)
    if choices.step is not None:
        steps = _at(choices.step, steps)
    ends = cut(frame, steps)
    if not (ends["name"] == "return").any():
        raise ValueError(f"step must have a return before it, got {choices.step}")
    against = baselines(frame, choices.baseline)
    asked = choices.step is not None
    behind = {} if asked else unfinished_envs(frame, steps, sources.records)
    soon = [] if asked else early(frame, steps, sources.records)
    scale = choices.normalise or _by_family(frame)
    scaled, words, lost = _scaled(ends[~ends["env"].isin(behind)], scale, choices)
    left_out = (*twice, *infinite(frame), *soon, *behind.values(), *lost)
    skip = _frame_skip(sources)
    return Study(choices, frame, steps, scaled, scale, words, against, left_out, skip)


def _check(choices: Choices) -> None:
    """Refuse numbers out of range before anything is written."""
    if not 0 < choices.last <= 1:
        raise ValueError(f"last must be a share of the steps, above 0 and at most 1, got {choices.last}")
    for name, most in (("points", None), ("resamples", MOST_RESAMPLES)):
        value = getattr(choices, name)
        if value < 1 or (most is not None and value > most):
            raise ValueError(f"{name} must be {'1 or more' if most is None else f'from 1 to {most:,}'}, got {value}")
    if choices.seed < 0:
        raise ValueError(f"seed must not be negative, got {choices.seed}")


def _scaled(ends: pd.DataFrame, scale: str, choices: Choices) -> tuple[pd.DataFrame, str, list[Exclusion]]:
    """Returns on a scale, what it is in words, and an exclusion for each environment that it does not have."""
    scale_for, words = scale_of(scale, ends, baseline=choices.baseline, last=choices.last, columns=choices.columns)
    off = [env for env in ends["env"].unique() if scale != "human" and scale_for(env) is None]
    scaled, without = normalised(ends[~ends["env"].isin(off)], scale_for)
    if scaled.empty:
        raise ValueError(f"normalise is {scale}, which has a scale for none of {', '.join(ends['env'].unique())}")
    by_arm = scale == "baseline" or scale in set(ends["arm"])
    why = "the baseline does not clearly rise there" if by_arm else f"{scale} has no line for it"
    return scaled, words, [*(Exclusion(env, why, where="the normalised scores") for env in off), *without]


def _frame_skip(sources: Sources) -> int:
    """The frame skip that all runs share, or 1 where it is not known."""
    parts = [(record.config.get("settings") or {}).get("env") or {} for record in sources.records]
    skips = {part.get("frame_skip") for part in parts}
    whole = {record.name for record in sources.records} == set(sources.frame["run"])
    found = skips.pop() if len(skips) == 1 and whole else None
    return found if isinstance(found, int) else 1


def _at(step: int, farthest: dict[str, int]) -> dict[str, int]:
    """The given step for every environment, if every arm has reached it."""
    env = min(farthest, key=farthest.__getitem__)
    if step > farthest[env]:
        raise ValueError(f"step must be one that every arm has reached, {farthest[env]} at most in {env}, got {step}")
    return dict.fromkeys(farthest, step)


def _ordered(frame: pd.DataFrame) -> pd.DataFrame:
    """Arms by agent, without a metric loss first, then by their fields: so they come in every table and figure."""
    fields = [name for name in frame.columns if name not in (*COLUMNS, "arm")]
    arms = frame.drop_duplicates("arm")
    arms = arms.assign(has=arms["metric"] != "none")

    def place(own: dict[str, Any]) -> list[tuple[int, Any]]:
        values = [own[name] for name in ("agent", "has", "metric", *fields, "arm")]
        return [(0, 0) if pd.isna(value) else (1 + isinstance(value, str), value) for value in values]

    rank = {own["arm"]: index for index, own in enumerate(sorted(arms.to_dict("records"), key=place))}
    return frame.iloc[frame["arm"].map(rank).argsort(kind="stable")]


def _by_family(frame: pd.DataFrame) -> str:
    """The scale that all environments have by custom, if they are of one family that has one."""
    envs = [str(env) for env in frame["env"].unique()]
    if all(map(is_game, envs)):
        return "human"
    return "thousandth" if all(env.startswith("control/") for env in envs) else "none"
