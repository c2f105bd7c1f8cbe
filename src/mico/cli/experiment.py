"""`mico experiment NAME`: one of the paper's experiments, or one beyond it, as a table and a figure with their data."""

import difflib
import importlib
import json
import logging
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, make_dataclass
from pathlib import Path
from types import ModuleType, NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pandas as pd
import tyro
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table

from mico import __version__
from mico._checks import install_hint
from mico.cli._flags import parse_flags
from mico.cli.counts import Count, OptionalCount, OptionalNumber, optional_word, several_numbers
from mico.cli.text import PlainConsole, summary
from mico.evidence.figures import Undrawn
from mico.evidence.intervals import printed
from mico.experiments import EXPERIMENTS
from mico.experiments.cells import OnDisk, read_frame
from mico.plotting import plots
from mico.runs.csv_bytes import csv_bytes
from mico.runs.files import make_subfolder, write_json, write_whole
from mico.runs.lock import locked_folder

_CONFIG = "config.json"
_LONGEST_ROW = 1000


@dataclass(frozen=True)
class Options:
    """Options of every experiment."""

    out: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="FOLDER",
            help="Folder for the table, the figure, their data and the settings.",
            help_behavior_hint="(default: out/NAME)",
        ),
    ] = None
    quick: Annotated[bool, tyro.conf.arg(help="Run a small version of about a minute.")] = False
    resume: Annotated[
        bool, tyro.conf.arg(help="Continue the experiment in OUT, with the same settings, where it was interrupted.")
    ] = False
    workers: Annotated[
        OptionalCount,
        tyro.conf.arg(
            help="Processes to compute in at the same time.", help_behavior_hint="(default: one for each core)"
        ),
    ] = None


def main(argv: list[str]) -> None:
    """Run `mico experiment` with these arguments."""
    name = argv[0] if argv else "--help"
    if name in ("-h", "--help"):
        _say_which()
        raise SystemExit(0)
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, n=2) or EXPERIMENTS
        raise ValueError(f"experiment {name!r} is unknown: did you mean {', '.join(near)}?")
    module = importlib.import_module(EXPERIMENTS[name])
    options, config = _parsed(name, module, argv[1:])
    if options.workers is not None and options.workers < 1:
        raise ValueError(f"workers must be at least 1, but is {options.workers}")
    getattr(module, "check", lambda config: None)(config)  # what it needs, before a folder is made
    with locked_folder(options.out or Path("out") / name) as out:
        _measure(name, module, config, options, out)


def _say_which() -> None:
    shown = Table("name", "what it is", box=box.SIMPLE)
    for name, path in EXPERIMENTS.items():
        shown.add_row(name, _about(path))
    console = PlainConsole()
    console.print("usage: mico experiment NAME [OPTIONS]; `mico experiment NAME --help` explains one.")
    console.print(shown)


def _about(path: str) -> str:
    """The first line of an experiment's module, or what it needs to be imported."""
    try:
        return (importlib.import_module(path).__doc__ or "").split("\n")[0]
    except ModuleNotFoundError:
        return f"needs: {install_hint('deep')}"


def _parsed(name: str, module: ModuleType, argv: list[str]) -> tuple[Options, Any]:
    """The options of every experiment, and the fields of this one's Config, both without prefix."""
    base = module.QUICK if "--quick" in argv else module.Config()
    hints = get_type_hints(module.Config, include_extras=True)
    own = [(name, _flag(hints[name]), field(default=getattr(base, name))) for name in hints]
    flat = tyro.conf.arg(name="")
    parts = [("every", Annotated[Options, flat]), ("own", Annotated[make_dataclass("Own", own), flat])]
    off = (tyro.conf.FlagCreatePairsOff,)
    both = make_dataclass("Both", parts)
    parsed = parse_flags(both, prog=f"mico experiment {name}", description=summary(module.run), args=argv, config=off)
    return parsed.every, module.Config(**{each.name: getattr(parsed.own, each.name) for each in fields(module.Config)})


def _flag(hint: Any) -> Any:
    """The type of a field as a flag: whole numbers are read as counts, and what may be None takes the word `none`."""
    kind, *more = (hint.__origin__, *hint.__metadata__) if get_origin(hint) is Annotated else (hint,)
    if get_origin(kind) is tuple:
        return _list_flag(kind, more)
    if kind is int:
        return Annotated[Count, *more]
    if kind == int | None:
        return Annotated[OptionalCount, *more]
    if kind == float | None:
        return Annotated[OptionalNumber, *more]
    words = [word for part in get_args(kind) if get_origin(part) is Literal for word in get_args(part)]
    return Annotated[optional_word(words), *more] if words and NoneType in get_args(kind) else hint


def _list_flag(kind: Any, more: list[Any]) -> Any:
    """The type of a field with several values as a flag; its name in help is `INT ...` or `{one,another} ...`."""
    item = get_args(kind)[0]
    numbers = several_numbers(item, metavar="{} ...")
    words = [str(word) for word in get_args(item)]
    metavar = f"{{{','.join(words)}}} ..." if words else "NAME ..."
    return Annotated[numbers, *more] if numbers else Annotated[kind, *more, tyro.conf.arg(metavar=metavar)]


def _measure(name: str, module: ModuleType, config: Any, options: Options, out: Path) -> None:
    described = {"experiment": name, "version": __version__, "config": asdict(config)}
    is_new = _claim(out, described, options.resume, free=getattr(module, "MANNER", ()))
    console = PlainConsole()
    workers = options.workers or getattr(module, "WORKERS", None) or os.cpu_count() or 1
    data = out / f"{name}.csv"
    if data.exists() and not getattr(module, "REREADS", False):
        console.print(f"All was measured before: the table and the figure are made again of {data}.", soft_wrap=True)
        frame = read_frame(data)
        OnDisk(out, workers).forget()  # which it may have been killed before
    else:
        with _bar(console, name) as report, _spoken(console):
            evaluation = OnDisk(out, workers, report)
            try:
                frame = module.run(config, evaluation)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"stopped; what was measured is saved in {out}, and --resume continues"
                ) from None
            except ValueError:
                if is_new and not evaluation.has_any():  # nothing that --resume could continue
                    evaluation.forget()
                    (out / _CONFIG).unlink()
                raise
        write_whole(data, csv_bytes(frame))
        evaluation.forget()
    table = module.table(frame)
    write_whole(out / f"{name}-table.csv", csv_bytes(table))
    plots.save(module.plot(frame), out / name)
    _write_more(module, frame, out, console)
    _print_whole(table, console)
    console.print(f"Figure (PNG, PDF), data and table (CSV) and settings are in {out}.", soft_wrap=True)


def _write_more(module: ModuleType, frame: pd.DataFrame, out: Path, console: Console) -> None:
    """Further tables and figures, of experiments that have `tables` and `figures`."""
    for name, table in getattr(module, "tables", lambda frame: {})(frame).items():
        write_whole(make_subfolder(out, "tables") / f"{name}.csv", csv_bytes(table))
    captions = {}
    for drawing in getattr(module, "figures", lambda frame: ())(frame):
        if isinstance(drawing, Undrawn):
            console.print(drawing.why, soft_wrap=True)
            continue
        stem = make_subfolder(out, "figures") / drawing.name
        plots.save(drawing.figure, stem)
        write_whole(stem.with_name(f"{stem.name}.csv"), csv_bytes(drawing.data))
        captions[drawing.name] = drawing.caption
    if captions:
        lines = [f"* **{name}**: {caption}\n" for name, caption in captions.items()]
        write_whole(out / "figures" / "captions.md", "".join(lines).encode())


@contextmanager
def _spoken(console: Console) -> Iterator[None]:
    """Print the log messages of experiments while they run."""
    logger, handler = logging.getLogger("mico.experiments"), logging.Handler()
    handler.emit = lambda record: console.print(record.getMessage(), soft_wrap=True)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # or whatever else has set up logging says it again
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = True


def _claim(out: Path, described: dict[str, Any], resume: bool, free: Collection[str]) -> bool:
    """Write down what the folder is for, or see that it is for the same, save for free fields; whether it is new."""
    path = out / _CONFIG
    described = json.loads(json.dumps(described))
    if not path.exists():
        for data in (out / f"{described['experiment']}.csv", *sorted(out.glob("cells/*.csv"))):
            if data.exists():
                raise ValueError(f"{data} is there, but no {_CONFIG} says what it is of: give another --out")
        write_json(path, described)
        return True
    if not resume:
        raise ValueError(f"out {str(out)!r} has an experiment already: --resume continues it")
    try:
        before = json.loads(path.read_text())
        old, new = (
            {**each["config"], "experiment": each["experiment"], "version": each["version"]}
            for each in (before, described)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not the configuration of an experiment: {error!r}") from error
    for field_name in {**old, **new}:
        if field_name not in free and old.get(field_name) != new.get(field_name):
            there, here = old.get(field_name), new.get(field_name)
            raise ValueError(f"{field_name} is {here!r}, but {there!r} in the experiment that --resume continues")
    return False


@contextmanager
def _bar(console: Console, name: str) -> Iterator[Callable[[int, int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    more = (TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *more, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _print_whole(table: pd.DataFrame, console: Console) -> None:
    """Rows as long as they are, or on a terminal as wide as it is, where long words are folded."""
    shown = Table(*(Column(str(name), overflow="fold") for name in table.columns), box=box.SIMPLE)
    for line in table.itertuples(index=False):
        shown.add_row(*(printed(value) if isinstance(value, float) else str(value) for value in line))
    if not console.is_terminal:
        console.width = _LONGEST_ROW
    console.print(shown)
