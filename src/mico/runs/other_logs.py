"""Logs of other libraries as tables: Stable-Baselines3's monitor files, and TensorBoard's event files.

Such files do not say which agent and seed they are of; what is made of them is a table for `read_scores` and
`mico.report`, and several of them are concatenated.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from mico._checks import install_hint

_RETURNS = "rollout/ep_rew_mean"  # as Stable-Baselines3 calls the mean return of the newest episodes


def read_monitor(
    path: Path | str, *, agent: str, seed: int, env: str | None = None, metric: str = "none", **fields: Any
) -> pd.DataFrame:
    """Read the episodes that Stable-Baselines3's `Monitor` wrote: a row for each, at the step at which it ended.

    Of several environments played at once, in several files of a folder, the episodes are put in the order of their
    times and steps are those of all of them together.

    Args:
        path: A file such as monitor.csv, or a folder of them (`*monitor.csv`).
        agent: Name of the agent.
        seed: Its seed.
        env: Name of the environment; by default as the file says.
        metric: Name of what was added to the agent.
        fields: More columns, such as `**{"metric.alpha": 0.1}`.

    Returns:
        A table with the columns agent, metric, env, seed, step, score and episodes, which is 1 in every row. An episode
        that is still being written is left out.

    Raises:
        ValueError: If it is no monitor file, or no episode has ended.
        FileNotFoundError: If there is none.

    Examples:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "monitor.csv"
        >>> _ = file.write_text('#{"t_start": 0.0, "env_id": "CartPole-v1"}\\nr,l,t\\n9.0,9,0.1\\n21.0,21,0.3\\n')
        >>> read_monitor(file, agent="dqn", seed=0)[["env", "step", "score"]].to_numpy().tolist()
        [['CartPole-v1', 9, 9.0], ['CartPole-v1', 30, 21.0]]
    """
    given = Path(path)
    files = sorted(given.glob("*monitor.csv")) if given.is_dir() else [given]
    if not files:
        raise FileNotFoundError(f"path must be a monitor file or a folder of them, and there is none in {given}")
    parts = [_episodes(file) for file in files]
    played = pd.concat([rows for _, rows in parts], ignore_index=True).sort_values("time", kind="stable")
    if played.empty:
        raise ValueError(f"path must have whole episodes, but {given} has none yet")
    name = env or next((own for own, _ in parts if own), None)
    if name is None:
        raise ValueError(f"env must be given: {given} does not name it")
    found = {"step": played["length"].cumsum(), "score": played["score"], "episodes": 1}
    return _table(found, agent=agent, seed=seed, env=name, metric=metric, fields=fields)


def _episodes(file: Path) -> tuple[str | None, pd.DataFrame]:
    """The environment that a monitor file names, if it does, and its episodes with lengths and times of their ends."""
    head, _, rest = file.read_text(encoding="utf-8").partition("\n")
    try:
        about = json.loads(head.removeprefix("#"))
        start, env = float(about["t_start"]), about.get("env_id")
        names, *lines = rest.splitlines()
        order = [names.split(",").index(name) for name in ("r", "l", "t")]
        whole = [line.split(",") for line in (lines if rest.endswith("\n") else lines[:-1])]
        rows = [[float(cells[place]) for place in order] for cells in whole]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"path must be a file of Stable-Baselines3's Monitor, but {file} is not: {error!r}") from error
    found = pd.DataFrame(rows, columns=["score", "length", "time"]).astype({"length": int})
    return env or None, found.assign(time=found["time"] + start)


def read_event_files(
    folder: Path | str,
    *,
    agent: str,
    seed: int,
    env: str,
    tag: str = _RETURNS,
    metric: str = "none",
    **fields: Any,
) -> pd.DataFrame:
    """Read one scalar of a run's TensorBoard event files.

    Args:
        folder: The folder of the run, with its event files.
        agent: Name of the agent.
        seed: Its seed.
        env: Name of the environment.
        tag: Name of the scalar that is the score; by default that of Stable-Baselines3.
        metric: Name of what was added to the agent.
        fields: More columns, such as `**{"metric.alpha": 0.1}`.

    Returns:
        A table with the columns agent, metric, env, seed, step and score. Of a step that was written twice, by a run
        that was resumed, the later one counts.

    Raises:
        ValueError: If the files do not have the scalar; the message lists those that they have.
        ModuleNotFoundError: If TensorBoard is not installed.
    """
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"Event files need TensorBoard: {install_hint('torch')}") from error
    if not Path(folder).is_dir():
        raise NotADirectoryError(f"folder must hold event files, and {folder} is no folder")
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}, purge_orphaned_data=False).Reload()
    scalars, tensors = events.Tags()["scalars"], events.Tags()["tensors"]
    if tag not in scalars:
        known = ", ".join(sorted([*scalars, *tensors])) or "no scalar"
        raise ValueError(f"tag must be a scalar of {folder}, got {tag!r}: it has {known}")
    found = pd.DataFrame([(one.step, one.value) for one in events.Scalars(tag)], columns=["step", "score"])
    found = found.drop_duplicates("step", keep="last").sort_values("step", kind="stable")
    return _table(found.to_dict("series"), agent=agent, seed=seed, env=env, metric=metric, fields=fields)


def _table(found: Any, *, agent: str, seed: int, env: str, metric: str, fields: dict[str, Any]) -> pd.DataFrame:
    about = {"agent": agent, "metric": metric, "env": env, "seed": seed, **fields}
    return pd.DataFrame(found).reset_index(drop=True).assign(**about)[[*about, *found]]
