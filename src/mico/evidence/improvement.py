"""How much one arm improves on another in each environment."""

from collections.abc import Mapping

import pandas as pd

from mico.evidence.exclusion import Exclusion
from mico.evidence.tables import matrix


def improvements(
    x: pd.DataFrame, base: pd.DataFrame, random: Mapping[str, float]
) -> tuple[pd.Series, tuple[Exclusion, ...]]:
    r"""$100\,(\bar x - \bar b) / |\bar b - r|$ with means over seeds and the random score r, the largest first.

    Left out, each as an exclusion, are environments of one arm alone, without a random score, or with $\bar b = r$.
    """
    for table, parameter in ((x, "x"), (base, "base")):
        matrix(table, parameter)
    ours, theirs = x.mean(), base.mean()
    percent, lost = {}, []
    for env in dict.fromkeys([*ours.index, *theirs.index]):
        if env not in ours or env not in theirs:
            lost.append(Exclusion(env, "one of the arms has no score in it"))
        elif env not in random:
            lost.append(Exclusion(env, "no random score is known"))
        elif theirs[env] == random[env]:
            lost.append(Exclusion(env, f"the baseline scores as a random policy does, {random[env]:g}"))
        else:
            percent[env] = 100 * (ours[env] - theirs[env]) / abs(theirs[env] - random[env])
    return pd.Series(percent, dtype=float, name="improvement").sort_values(ascending=False), tuple(lost)
