"""Curves for a page to draw: the mean of each arm in each environment at common steps, with an interval."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from mico.evidence.intervals import LEVEL, mean_intervals
from mico.pages.assembly import packed
from mico.plotting.score_plots import DASHES, Style, arm_styles, overlays

_DASHES = dict(zip(DASHES, ("", "7 3", "2 3", "9 3 2 3", "16 7"), strict=True))


def curve_data(curves: pd.DataFrame, style_of: Mapping[str, Style] | None = None) -> dict[str, Any]:
    """Pack training curves for the page: arms with their styles, and for each environment steps and numbers."""
    looks = style_of or arm_styles(curves)
    bands = mean_intervals(curves, ("env", "arm", "step"), LEVEL)
    drawn = set(curves["arm"])
    arms = {arm: index for index, arm in enumerate(arm for arm in looks if arm in drawn)}
    envs = []
    for env, own in bands.groupby("env", sort=True):
        steps = np.unique(own["step"])
        found: dict[int, dict[str, Any]] = {
            arms[arm]: _packed(part.set_index("step").reindex(steps)) for arm, part in own.groupby("arm")
        }
        for arm, overlay in overlays(own.sort_values("step", kind="stable"), looks).items():
            found[arms[arm]]["overlay"] = overlay
        envs.append({"name": str(env), "steps": packed(steps.astype(float), "<f8"), "curves": found})
    return {
        "arms": [
            {"name": str(arm), "colour": looks[arm]["color"], "dash": _DASHES[looks[arm]["linestyle"]]} for arm in arms
        ],
        "envs": envs,
        "level": f"{LEVEL:.0%}",
    }


def _packed(band: pd.DataFrame) -> dict[str, Any]:
    columns = {"mean": "value", "low": "low", "high": "high", "seeds": "count"}
    band = band.fillna({"count": 0})
    return {name: packed(band[column].to_numpy(dtype=float)) for name, column in columns.items()}
