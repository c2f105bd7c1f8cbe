"""Writing a report on runs: read, compare, draw, and write the page with its figures and tables beside it."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import matplotlib

from mico import __version__
from mico.cli.report_again import commands
from mico.cli.report_folder import ReportFolder
from mico.evidence.figures import Undrawn, drawings
from mico.evidence.learning_speed import WINDOW
from mico.evidence.notes import first_notes
from mico.evidence.run_scores import LAST
from mico.evidence.run_tables import cells_table, missing_seeds, settings_sheets, unfinished
from mico.evidence.score_tables import score_tables
from mico.evidence.speed_tables import speed_tables
from mico.evidence.statistics import RESAMPLES
from mico.evidence.study import Choices, Study, study
from mico.pages.report import Picture, Report, report_page
from mico.pages.report_curves import curve_data
from mico.plotting import plots
from mico.runs.columns import check_columns, check_used
from mico.runs.csv_bytes import csv_bytes
from mico.runs.files import write_whole
from mico.runs.lock import locked_folder
from mico.runs.sources import Source, Sources, read_sources
from mico.runs.tables import read_csv


@dataclass(frozen=True)
class Request:
    """A report that somebody asks for; None leaves a choice to the data."""

    sources: tuple[Source, ...]
    out: Path
    title: str | None = None
    normalise: str | None = None
    baseline: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    last: float = LAST
    step: int | None = None
    points: int = 200
    resamples: int = RESAMPLES
    seed: int = 0


@dataclass(frozen=True)
class Written:
    """A report on disk: its page, the size in bytes, what to know first, and what is missing or left out."""

    page: Path
    size: int
    first: tuple[str, ...]
    missing: tuple[str, ...]


def report(
    sources: Source | str | Sequence[Source | str],
    out: Path | str,
    *,
    title: str | None = None,
    normalise: str | Path | None = None,
    baseline: str | None = None,
    columns: Mapping[str, str] | None = None,
    last: float = LAST,
    step: int | None = None,
    points: int = 200,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Path:
    """Write a report on runs, or on other people's results, as one page with figures and tables beside it.

    Args:
        sources: One or several of: a folder of runs, a CSV file or a DataFrame with the columns agent, env, seed, step
            and score.
        out: Folder for the report: new, empty, or that of an earlier report, which is replaced.
        title: Title of the page; by default the names of the sources.
        normalise: Scale of scores: "none", "human", "thousandth", "baseline", the name of an arm, or a CSV file with
            env, low, high. By default "human" for Atari, "thousandth" for the control suite, else "none".
        baseline: Arm that the others are compared with; by default each agent without its metric loss.
        columns: Other names of columns in tables, theirs to ours: `{"algo": "agent"}`.
        last: Share of the steps, at their end, over whose episodes a run's score is the mean return.
        step: Step at which scores are taken; by default the last one that every arm has reached.
        points: Most points of a curve on the page.
        resamples: Resamples of the bootstrap in tables; curves take 2,000 at most.
        seed: Seed of the bootstrap.

    Returns:
        The path of the page, report.html in `out`.

    Raises:
        ValueError: If a source cannot be read, an option has no meaning for the data, or `out` holds other things
            than a report. Nothing is written then.
        OSError: If a source does not exist, or `out` cannot be written to.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> rows = [("ppo", "CartPole", seed, 100 * k, 20.0 * k + seed) for seed in range(3) for k in range(1, 6)]
        >>> results = pd.DataFrame(rows, columns=["algo", "env", "seed", "step", "score"])
        >>> out = Path(tempfile.mkdtemp()) / "report"
        >>> report(results, out, columns={"algo": "agent"}).name
        'report.html'
    """
    several = list(sources) if isinstance(sources, Sequence) and not isinstance(sources, str) else [sources]
    request = Request(
        sources=tuple(Path(source) if isinstance(source, str) else source for source in several),
        out=Path(out),
        title=title,
        normalise=None if normalise is None else str(normalise),
        baseline=baseline,
        columns=check_columns(columns),
        last=last,
        step=step,
        points=points,
        resamples=resamples,
        seed=seed,
    )
    return make(request).page


def make(request: Request) -> Written:
    """Write the report that is asked for; a ValueError before anything is written if there can be none."""
    if not request.sources:
        raise ValueError("sources must name a folder of runs, a CSV file or a table, got none")
    check_used(request.columns, _table_columns(request))
    sources = read_sources(request.sources, request.columns)
    found = study(sources, Choices(**{name: getattr(request, name) for name in Choices._fields}))
    with locked_folder(request.out), ReportFolder(request.out, _options(request)) as folder:
        report = _report(request, sources, found, folder)
        page = report_page(report).encode(errors="replace")  # names of files need not be UTF-8
        write_whole(folder.path("report.html"), page)
    return Written(request.out / "report.html", len(page), report.first, report.missing)


def _table_columns(request: Request) -> dict[str, list[str]]:
    """The names of the columns of every table that is given, by the table."""
    if not request.columns:
        return {}
    files = [source for source in request.sources if isinstance(source, Path) and source.is_file()]
    if request.normalise is not None and Path(request.normalise).is_file():
        files.append(Path(request.normalise))
    frames = [source for source in request.sources if not isinstance(source, Path)]
    in_memory = {f"table {number}": [*map(str, frame.columns)] for number, frame in enumerate(frames, start=1)}
    return {str(file): [*map(str, read_csv(file).columns)] for file in files} | in_memory


def _options(request: Request) -> dict[str, Any]:
    """The request as JSON: what report.json keeps beside the files."""
    given = {name: getattr(request, name) for name in Request.__dataclass_fields__ if name not in ("sources", "out")}
    return {"sources": _source_names(request), **given, "columns": dict(request.columns)}


def _source_names(request: Request) -> list[str]:
    return [str(source) if isinstance(source, Path) else "a table in memory" for source in request.sources]


def report_command(request: Request) -> str | None:
    """The command line that makes this report again; None if a source is a table in memory."""
    if not all(isinstance(source, Path) for source in request.sources):
        return None
    words = ["mico", "report", *map(str, request.sources)]
    if request.columns:
        words += ["--columns", *(f"{theirs}={ours}" for theirs, ours in request.columns.items())]
    for name in ("title", "normalise", "baseline", "last", "step", "points", "resamples", "seed"):
        value = getattr(request, name)
        if value != Request.__dataclass_fields__[name].default:
            words += [f"--{name}", str(value)]
    return shlex.join([*words, "--out", str(request.out)])


def _report(request: Request, sources: Sources, found: Study, folder: ReportFolder) -> Report:
    scores, unscored = score_tables(found)
    speed = speed_tables(found)
    tables = [*speed, *scores] if found.tied else [*scores, *speed]
    cells = cells_table(found.frame, sources.records)
    for one in (*tables, cells):
        write_whole(folder.path(f"tables/{one.sheet.name}.csv"), csv_bytes(one.numbers))
    pictures, undrawn = _draw(found, folder)
    return Report(
        title=request.title or ", ".join(_titles(request)),
        about=_about(found),
        first=first_notes(found, sources.records),
        missing=_missing(sources, found),
        ran=(cells.sheet, *settings_sheets(found.arm_of, sources.records)),
        scores=tuple(one.sheet for one in tables),
        unscored=unscored if speed else (*unscored, "There is no table of learning speed: every run has one return."),
        curves=curve_data(found.curves, found.styles),
        has_curves=bool(found.rows_of_runs.max() > 1),
        pictures=pictures,
        undrawn=undrawn,
        scores_lead=found.leads_with_speed and bool(speed),
        again=commands(sources.records),
        command=report_command(request),
        method=_method(found),
    )


def _titles(request: Request) -> list[str]:
    return [source.resolve().name if isinstance(source, Path) else "results" for source in request.sources]


def _draw(found: Study, folder: ReportFolder) -> tuple[tuple[Picture, ...], tuple[str, ...]]:
    """Write every figure and its data; as pictures for the page, and why others are not drawn."""
    pictures, undrawn = [], []
    with matplotlib.rc_context({"text.parse_math": False}):  # a dollar in a name is a dollar
        for drawing in drawings(found):
            if isinstance(drawing, Undrawn):
                undrawn.append(drawing.why)
                continue
            stem = _free(f"figures/{drawing.name}", {picture.stem for picture in pictures})
            png, csv, _ = (folder.path(f"{stem}.{suffix}") for suffix in ("png", "csv", "pdf"))
            plots.save(drawing.figure, png.with_suffix(""))
            write_whole(csv, csv_bytes(drawing.data))
            pictures.append(Picture(stem, drawing.caption, png.read_bytes()))
    return tuple(pictures), tuple(undrawn)


def _free(stem: str, taken: Collection[str]) -> str:
    """The name, or with a number where names of arms differ in signs alone."""
    return next(name for name in chain([stem], (f"{stem}-{number}" for number in count(2))) if name not in taken)


def _about(found: Study) -> str:
    columns = {"run": "run", "arm": "arm", "env": "environment", "seed": "seed"}
    counts = {word: found.frame[column].nunique() for column, word in columns.items()}
    return " · ".join(f"{count:,} {word}{'s' * (count != 1)}" for word, count in counts.items())


def _missing(sources: Sources, found: Study) -> tuple[str, ...]:
    """Everything that a reader may look for and not find, each sentence once."""
    said = (*sources.unread, *unfinished(sources.records), *missing_seeds(found.frame), *found.left_out)
    return tuple(dict.fromkeys(map(str, [*said, *found.returns[1], *found.scores.excluded, *found.unshared])))


def _method(found: Study) -> str:
    choices, steps = found.choices, sorted(set(found.steps.values()))
    where = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}, by environment"
    speed = (
        "The mean return over training is the area under a run's curve up to that step, divided by its length. The "
        "best score of an environment is the largest IQM over seeds of an arm. A run reaches 0.9 of it at the first "
        f"return that is so large, if the mean of the {WINDOW} returns from there on is so too; where returns "
        "are negative, the 0.9 is of the way from the mean first return to the best."
    )
    return (
        f"A run's score is its mean return over all episodes of the last {choices.last:.3g} of the steps up to step "
        f"{where}: the last step that every arm has reached, or the one asked for. Scores are {found.words}. IQM is "
        "the mean of the middle half of all runs in all environments; mean and median are over environments, of means "
        f"over seeds. {speed} Intervals of 95% are percentiles of {choices.resamples:,} bootstrap resamples of seeds "
        f"within each environment, in curves of {found.curve_bootstrap['resamples']:,} (seed {choices.seed}). Made "
        f"with mico {__version__}."
    )
