"""`mico report SOURCE ...`: one page on many runs, with figures and tables as files."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Annotated

import matplotlib
import tyro
from rich.console import Console

from mico import __version__
from mico.commands.report_again import commands
from mico.commands.report_folder import ReportFolder
from mico.pages.report import Picture, Report, report_page
from mico.pages.report_curves import curve_data
from mico.pages.report_figures import Undrawn, drawings
from mico.pages.report_runs import cells_table, missing_seeds, settings_sheets, unfinished
from mico.pages.report_scores import score_tables
from mico.pages.report_sources import Sources, read_sources
from mico.pages.report_study import Choices, Study, study
from mico.results import plots
from mico.results.folders import write_whole
from mico.results.lock import exclusive

_NOTES = 12  # that are printed
_LONGEST = 100  # letters of a file's name


@dataclass(frozen=True)
class Options:
    """Runs as they trained, or tables of results, as one page with figures and tables beside it."""

    sources: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="SOURCE", help="folders of runs, or CSV files with agent, env, seed, step, score"),
    ]
    out: Annotated[Path, tyro.conf.arg(help="folder for the page, figures and tables; a report there is made anew")]
    title: Annotated[
        str | None,
        tyro.conf.arg(metavar="TEXT", help="of the page", help_behavior_hint="(default: the sources' names)"),
    ] = None
    normalise: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME|PATH",
            help="none, human, thousandth, baseline, the name of an arm, or a CSV file with env, low, high",
            help_behavior_hint="(default: human for Atari, thousandth for control, else none)",
        ),
    ] = None
    baseline: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="ARM",
            help="what the others are compared with",
            help_behavior_hint="(default: the same agent without a metric loss)",
        ),
    ] = None
    last: Annotated[int, tyro.conf.arg(help="rows of a run whose mean return is its score")] = 5
    step: Annotated[
        int | None,
        tyro.conf.arg(
            metavar="INT",
            help="where scores are taken",
            help_behavior_hint="(default: the farthest that every arm reached)",
        ),
    ] = None
    points: Annotated[int, tyro.conf.arg(help="of a curve on the page, at most")] = 200
    resamples: Annotated[int, tyro.conf.arg(help="of the bootstrap")] = 2_000
    seed: Annotated[int, tyro.conf.arg(help="of the bootstrap")] = 0


def main(argv: list[str]) -> None:
    options = tyro.cli(Options, prog="mico report", args=argv)
    if not options.sources:
        raise ValueError("SOURCE is missing: a folder of runs, or a CSV file")
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with console.status("reading runs"):
        sources = read_sources(options.sources)
        looked_at = study(sources, Choices(**{name: getattr(options, name) for name in Choices._fields}))
    with ReportFolder(options.out) as folder, exclusive(options.out), console.status("drawing figures"):
        report = _report(options, sources, looked_at, folder)
        page = report_page(report).encode()
        write_whole(folder.path("report.html"), page)
    for sentence in report.missing[:_NOTES]:
        console.print(f"note: {sentence}")
    if len(report.missing) > _NOTES:
        console.print(f"note: {len(report.missing) - _NOTES} more such sentences are on the page")
    console.print(f"wrote {options.out / 'report.html'}: {len(page) / 1e6:.2g} MB, to be opened in a browser")


def _report(options: Options, sources: Sources, looked_at: Study, folder: ReportFolder) -> Report:
    tables, unscored = score_tables(looked_at)
    cells = cells_table(looked_at.frame, sources.records, looked_at.reached)
    for one in (*tables, cells):
        write_whole(folder.path(f"tables/{one.sheet.name}.csv"), one.numbers.to_csv(index=False).encode())
    pictures, undrawn = _draw(looked_at, folder)
    return Report(
        title=options.title or ", ".join(path.resolve().name for path in options.sources),
        about=_about(looked_at),
        missing=_missing(sources, looked_at),
        ran=(cells.sheet, *settings_sheets(looked_at.arm_of, sources.records)),
        scores=tuple(one.sheet for one in tables),
        unscored=unscored,
        curves=curve_data(looked_at.curves),
        pictures=pictures,
        undrawn=undrawn,
        again=commands(sources.records),
        method=_method(looked_at),
    )


def _draw(looked_at: Study, folder: ReportFolder) -> tuple[tuple[Picture, ...], tuple[str, ...]]:
    """Write every figure and its data; as pictures for the page, and why others are not drawn."""
    pictures, undrawn = [], []
    with matplotlib.rc_context({"text.parse_math": False}):  # a dollar in a name is a dollar
        for drawing in drawings(looked_at):
            if isinstance(drawing, Undrawn):
                undrawn.append(drawing.why)
                continue
            stem = _free(f"figures/{drawing.name[:_LONGEST]}", {picture.stem for picture in pictures})
            png, csv, _ = (folder.path(f"{stem}.{suffix}") for suffix in ("png", "csv", "pdf"))
            plots.save(drawing.figure, png.with_suffix(""))
            write_whole(csv, drawing.data.to_csv(index=False).encode())
            pictures.append(Picture(stem, drawing.caption, png.read_bytes()))
    return tuple(pictures), tuple(undrawn)


def _free(stem: str, taken: Collection[str]) -> str:
    """The name, or with a number where names of arms differ in signs alone."""
    return next(name for name in chain([stem], (f"{stem}-{number}" for number in count(2))) if name not in taken)


def _about(looked_at: Study) -> str:
    columns = {"run": "run", "arm": "arm", "env": "environment", "seed": "seed"}
    counts = {word: looked_at.frame[column].nunique() for column, word in columns.items()}
    return " · ".join(f"{count:,} {word}{'s' * (count != 1)}" for word, count in counts.items())


def _missing(sources: Sources, looked_at: Study) -> tuple[str, ...]:
    """Everything that a reader may look for and not find, each sentence once."""
    said = (*sources.unread, *unfinished(sources.records), *missing_seeds(looked_at.frame), *looked_at.left_out)
    return tuple(dict.fromkeys([*said, *looked_at.returns[1], *looked_at.scores.excluded, *looked_at.unshared]))


def _method(looked_at: Study) -> str:
    choices, steps = looked_at.choices, sorted(set(looked_at.steps.values()))
    where = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}, by environment"
    return (
        f"A run's score is the mean of its last returns ({choices.last} at most) up to step {where}: the farthest that "
        f"every arm has reached, or the one asked for. Scores are {looked_at.words}. IQM is the mean of the middle "
        "half of all runs in all environments, mean and median are over environments of means over seeds. Intervals "
        "of 95% are "
        f"percentiles of {choices.resamples:,} bootstrap resamples of seeds within each environment (seed "
        f"{choices.seed}). Made with mico {__version__}."
    )
