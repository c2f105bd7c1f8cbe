"""Scales of scores: what counts as 0 and as 1 in each environment."""

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from mico.evidence.atari_scores import PAPER_GAMES, REFERENCES, WITHOUT_HUMAN, game
from mico.evidence.exclusion import Exclusion


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


def normalised(frame: pd.DataFrame, scale_of: Callable[[str], Scale | None]) -> tuple[pd.DataFrame, list[Exclusion]]:
    """The frame with returns of each environment on its scale, without environments that have none."""
    scales = {env: scale_of(env) for env in frame["env"].unique()}
    without = [env for env, scale in scales.items() if scale is None]
    frame = frame[~frame["env"].isin(without)]
    zero, unit = (frame["env"].map({env: scale[part] for env, scale in scales.items() if scale}) for part in (0, 1))
    value = frame["value"].mask(frame["name"] == "return", (frame["value"] - zero.astype(float)) / unit.astype(float))
    why = f"no human score is published, as for {len(WITHOUT_HUMAN)} of the paper's {len(PAPER_GAMES)} games"
    return frame.assign(value=value), [Exclusion(env, why) for env in without]
