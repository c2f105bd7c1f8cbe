"""The functions of the top level that train, load and evaluate."""

import dataclasses
import difflib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import product
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

from mico._checks import count, make_plain_name
from mico._extras import require
from mico.runs.files import check_no_link, new_folder, write_whole

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float

    from mico.cli.training_display import Display
    from mico.deep.agents import AbstractAgent
    from mico.deep.config.choices import Choice, Option
    from mico.deep.config.run import Run
    from mico.deep.envs import AbstractEnv, AbstractHostEnv
    from mico.deep.metric_losses import AbstractMetricLoss
    from mico.deep.trained.trained import Trained
    from mico.deep.training.train import Callback
    from mico.tabular import MDP, Problem


def train(
    env: "str | Problem | MDP | AbstractEnv | AbstractHostEnv",
    agent: "str | AbstractAgent" = "dqn",
    metric: "str | AbstractMetricLoss | None" = "none",
    *,
    seeds: int | str | Iterable[int],
    steps: int | float | str,
    out: str | PathLike[str],
    resume: bool = False,
    preset: str | None = None,
    callbacks: "Callback | Sequence[Callback]" = (),
    progress: bool | None = None,
    checkpoint_seconds: float = 300.0,
    **fields: Any,
) -> "list[Trained]":
    """Train agents, with or without a metric loss, and return the trained runs.

    Every combination of the seeds and of the fields that are given as lists is a run. Runs are independent: each has
    its own environment, replay and random numbers. They are trained together as a fleet, one program on a GPU and a
    program for each core on a CPU, and leave logs, checkpoints and weights in `out`, as `mico train` does.

    Args:
        env: A name such as "minatar/breakout", "mdp/four-rooms", "mdp/mine.npz", "gym/CartPole-v1" or "atari/pong",
            an environment object of `mico.deep.envs`, or a finite MDP: a problem that `mico.make` returns, or an
            `mico.tabular.MDP`. Of an MDP that is given as an object, `out` keeps a file.
        agent: "dqn", "rainbow", "qr-dqn", "iqn", "m-iqn" or "sac", or an agent object of `mico.deep.agents`.
        metric: "none", "mico" or another metric loss by name, or an object of `mico.deep.metric_losses`.
        seeds: A seed, or several: a run for each.
        steps: Agent steps of each run: 200_000, 2e5 or "200k".
        out: The folder for logs, checkpoints and weights; a new or empty one unless `resume`.
        resume: Continue the training in `out` where it was interrupted, or for more steps, or begin if `out` is new.
        preset: Hyper-parameters by name ("minatar", "atari", "vector", "control", "table"); by default the
            environment's family decides.
        callbacks: Called with every `LogRow` right after it was written: `run` (its name), `index`, `step` and
            `values`. A callback that returns True stops the training after a checkpoint.
        progress: Show progress; by default on a terminal and in a notebook.
        checkpoint_seconds: Seconds between checkpoints; 0 saves after every chunk of steps.
        **fields: Hyper-parameters by their names on the command line, such as
            `**{"metric.alpha": [0, 0.01], "schedule.epsilon_decay": 10_000}`. A list makes a run for each value.

    Returns:
        The trained runs, seeds varying fastest, as `mico.load` returns them.

    Raises:
        ValueError: If a name, a field or a value is not valid, or `out` holds something else.
        KeyboardInterrupt: On Ctrl-C, after a checkpoint is written: `resume=True` continues.

    Examples:
        >>> import mico
        >>> runs = mico.train(
        ...     "mdp/four-rooms", "dqn", "mico", seeds=[0, 1], steps=2_000, out=folder, **{"metric.alpha": [0, 0.01]}
        ... )
        >>> len(runs), runs[0].step
        (4, 2000)
    """
    require("jax", "mico.train")
    import mico.deep.training.train as training
    from mico.deep.config.choices import kept_log_period
    from mico.deep.config.periods import few_rows
    from mico.deep.config.run import run_names

    listeners = [callbacks] if callable(callbacks) else [*_check(Iterable, callbacks, "callbacks", "functions")]
    for listener in listeners:
        _check(Callable, listener, "callbacks", "functions")
    _check(str | PathLike, out, "out", "a path")
    _check(int | float, checkpoint_seconds, "checkpoint_seconds", "a number")
    _check(bool | None, progress, "progress", "True, False or None")
    with _store_problem(env, Path(out)) as named:
        choice, own = _choose(named, agent, metric, preset)
        kept = kept_log_period(Path(out)) if resume else None
        runs, total = _runs(choice, own | _lists(choice, fields), seeds, steps, kept)
        display = _display(runs, progress)
        few = few_rows(runs[0].schedule, total) if total > 0 else None
        if few is not None and display is None:  # a display says it itself
            warnings.warn(few.replace("--schedule.log-period", "schedule.log_period"), stacklevel=2)
        with display or nullcontext():
            training.train(
                runs,
                Path(out),
                steps=total,
                resume=resume,
                manner=training.Manner(checkpoint_seconds),
                report=(lambda progress: None) if display is None else display.update,
                callbacks=listeners,
            )
    return [load(Path(out) / name) for name in run_names(runs)]


def load(folder: str | PathLike[str]) -> "Trained":
    """Load a trained run with its newest weights; it may still be training.

    Args:
        folder: The folder of one run, such as "runs/demo/dqn-mico-seed0".

    Returns:
        The run, with `act`, `predict`, `represent`, `distance` and `evaluate`.

    Raises:
        ValueError: If the folder holds no run, or several (they are named), or one without weights yet.

    Examples:
        >>> run = mico.load(folder / "dqn-mico-alpha0.01-seed0")
        >>> run.settings.env.name
        'mdp/four-rooms'
    """
    require("jax", "mico.load")
    from mico.deep.trained.trained import load

    return load(Path(folder))


def evaluate(
    run: "Trained | str | PathLike[str]",
    *,
    episodes: int | float | str = 100,
    seed: int,
    epsilon: float = 0.001,
    max_steps: int | float | str = 27_000,
) -> 'Float[np.ndarray, " E"]':
    """Play episodes with a trained run and return the return of each.

    Args:
        run: A trained run, or its folder.
        episodes: How many episodes to play.
        seed: The seed of the environments and of the random actions.
        epsilon: The share of random actions.
        max_steps: Longer episodes are cut off after so many steps.

    Returns:
        The undiscounted return of each episode.

    Raises:
        ValueError: If the folder holds no run, or a number is out of range.

    Examples:
        >>> mico.evaluate(runs[0], episodes=10, seed=0).shape
        (10,)
    """
    require("jax", "mico.evaluate")
    from mico.deep.trained.evaluate import evaluate
    from mico.deep.trained.trained import Trained

    trained = run if isinstance(run, Trained) else load(run)
    return evaluate(
        trained,
        episodes=count(episodes, "episodes"),
        seed=seed,
        epsilon=epsilon,
        max_steps=count(max_steps, "max_steps"),
    )


@contextmanager
def _store_problem(env: Any, out: Path) -> "Iterator[Any]":
    """Store an MDP that is given as an object in `out`, so that its runs can be loaded; yield what names it.

    Its file bears the name of the folder, as results are told apart by names. A training that is refused leaves none.
    """
    from mico.deep.envs import Tabular
    from mico.deep.training.run_folder import PROBLEM_FOLDER
    from mico.tabular import MDP, Problem

    source = env.source if isinstance(env, Tabular) else env
    problem = Problem(source) if isinstance(source, MDP) else source
    if not isinstance(problem, Problem):
        yield env
        return
    check_no_link(out / PROBLEM_FOLDER)
    with new_folder(out / PROBLEM_FOLDER) as folder:
        there, had_runs = sorted(folder.resolve().glob("*.npz")), (out / "fleet.json").exists()
        file = there[0] if there else folder.resolve() / make_plain_name(f"{out.resolve().name}.npz")
        is_new = _save(problem, file)
        try:
            if isinstance(env, Tabular):
                yield Tabular(str(file), observation=env.observation, max_steps=env.max_steps, start=env.start)
            else:
                yield f"mdp/{file}"
        except BaseException:
            if is_new and (had_runs or not (out / "fleet.json").exists()):
                file.unlink()
            raise


def _save(problem: "Problem", file: Path) -> bool:
    """Write a problem's file, whole; or where there is one see that it holds the same, and return False."""
    import numpy as np

    from mico.tabular import load, save

    with TemporaryDirectory() as temporary:
        fresh = Path(temporary) / "problem.npz"
        save(fresh, problem)
        if not file.exists():
            write_whole(file, fresh.read_bytes())
            return True
        load(file)  # what is damaged is refused by name
        with np.load(fresh) as given, np.load(file) as found:
            if {*given} != {*found} or not all(np.array_equal(given[name], found[name]) for name in given):
                raise ValueError(f"env is not the problem of the runs in out, which {file} holds: choose another out")
    return False


def _choose(env: Any, agent: Any, metric: Any, preset: str | None) -> "tuple[Choice, dict[str, list[Any]]]":
    """The parts of the runs by name, and the fields of objects that were given in place of names."""
    from mico.deep.config.choices import Choice

    own, names = {}, {}
    for part, given in (("env", env), ("agent", agent), ("metric", metric)):
        names[part], known = _name(part, given)
        own |= known
    choice = Choice(**names, preset=preset)
    choice.check()
    options = {f"{part}.{option.name}" for part, own in choice.options().items() for option in own}
    return choice, {name: value for name, value in own.items() if name in options}


def _runs(
    choice: "Choice", lists: Mapping[str, list[Any]], seeds: Any, steps: Any, kept_log_period: int | None
) -> "tuple[list[Run], int]":
    """Build the runs, seeds varying fastest, and read the number of steps, in whole updates."""
    from mico.deep.config.periods import round_up

    given = seeds if isinstance(seeds, Iterable) and not isinstance(seeds, str) else [seeds]
    numbers = [count(seed, "seeds") for seed in given]
    if not numbers:
        raise ValueError("seeds must hold at least one seed, got none")
    combinations = [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]
    schedule = choice.planned_schedule(combinations[0], None)
    total = round_up("steps", count(steps, "steps"), schedule.update_period)
    if kept_log_period is not None:
        combinations = [{"schedule.log_period": kept_log_period} | fields for fields in combinations]
    return [choice.run(fields, seed, steps=total) for fields in combinations for seed in numbers], total


def _name(part: str, given: Any) -> tuple[str, dict[str, list[Any]]]:
    """The registered name of a part of a run, and the fields of an object that was given in place of a name."""
    from mico.deep.agents import AGENTS
    from mico.deep.envs import AbstractEnvSettings, split_name
    from mico.deep.metric_losses import METRIC_LOSSES

    if isinstance(given, str) or (given is None and part == "metric"):
        return given or "none", {}
    if part == "env":
        if not isinstance(given, AbstractEnvSettings):
            raise ValueError(
                f"env must be a name, a problem, an MDP or an object of mico.deep.envs, got {_hint(given)}"
            )
        settings = given.settings()
        family, _, file = split_name(given.name)
        name = given.name if file is None else f"{family}/{settings['path']}"
        return name, {f"env.{name}": [value] for name, value in settings.items()}
    registry = AGENTS if part == "agent" else METRIC_LOSSES
    name = next((name for name, kind in registry.items() if type(given) is kind), None)
    if name is None:
        raise ValueError(f"{part} must be one of {', '.join(registry)}, or an object of these, got {_describe(given)}")
    return name, {f"{part}.{field.name}": [getattr(given, field.name)] for field in dataclasses.fields(registry[name])}


def _describe(given: Any) -> str:
    """A name or number as it was given, and any other object by its class: wrappers print all that they wrap."""
    return repr(given) if isinstance(given, str | int | float) else f"an object of {type(given).__name__}"


def _hint(env: Any) -> str:
    """Describe what was given as an environment, and say what to give instead."""
    kind = type(env).__name__
    if kind == "Chain":
        return "Chain, which has no actions: give a problem or an MDP"
    if hasattr(env, "unwrapped"):
        return f"{kind}: give its registered id, 'gym/{getattr(getattr(env, 'spec', None), 'id', 'ID')}'"
    return kind


def _check(kind: Any, value: Any, name: str, wanted: str) -> Any:
    """Refuse an argument of another kind."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    return value


def _lists(choice: "Choice", fields: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The values of each field, by its dotted name; unknown fields and lists where one value must do are refused."""
    options = {f"{part}.{option.name}": option for part, own in choice.options().items() for option in own}
    lists = {}
    for given, value in fields.items():
        name = given.replace("__", ".").replace("-", "_")
        if name.startswith("metric.") and choice.metric == "none":
            raise ValueError(f"{given} is a field of a metric loss: it needs metric, such as metric='mico'")
        if name not in options:
            near = difflib.get_close_matches(name, options, n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(near)}?" if near else f"known are {', '.join(options)}"
            raise ValueError(f"{given} is no field of this training: {hint}")
        several = isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) == 1
        lists[name] = [_fit(options[name], name, one) for one in (value if several else [value])]
        if not lists[name]:
            raise ValueError(f"{name} must have a value, got an empty list")
        if len(lists[name]) > 1 and not options[name].varies:
            raise ValueError(f"{name} must be one value for all runs that are trained together, got {value!r}")
    return lists


def _fit(option: "Option", name: str, value: Any) -> Any:
    """A value as its field holds it: counts as people write them become integers."""
    kinds = {option.kind, *get_args(option.kind)}
    if int in kinds and float not in kinds and isinstance(value, int | float | str):
        words = {word for kind in kinds for word in get_args(kind)}  # a field may also take words
        return value if value in words else count(value, name)
    return option._replace(name=name).fitted(getattr(value, "item", lambda: value)())


def _display(runs: "list[Run]", progress: bool | None) -> "Display | None":
    """Make what shows progress, on a terminal and in a notebook or as asked; None where nothing is shown."""
    from mico.cli.training_display import Display

    display = Display(runs)
    shown = display.console.is_terminal or display.console.is_jupyter if progress is None else progress
    return display if shown else None
