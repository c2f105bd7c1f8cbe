"""`mico report SOURCE ...`: one page on many runs, with figures and tables as files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from mico.cli._flags import parse_flags
from mico.cli.counts import Count, OptionalCount
from mico.cli.report_writing import Request, make
from mico.cli.text import PlainConsole
from mico.evidence.run_scores import LAST
from mico.evidence.statistics import RESAMPLES
from mico.runs.columns import parse_columns

_NOTES = 12  # that are printed


@dataclass(frozen=True)
class Options:
    """Compare runs, or results of other software, on one page with figures and tables beside it."""

    sources: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="SOURCE ...",
            help="Folders of runs, or CSV files with the columns agent, env, seed, step, score.",
            help_behavior_hint="(one or more)",
        ),
    ]
    out: Annotated[
        Path,
        tyro.conf.arg(
            metavar="FOLDER", help="Folder for the page, figures and tables; an earlier report there is replaced."
        ),
    ]
    columns: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="THEIRS=OURS ...",
            help="Other names of columns in CSV files, such as algo=agent timestep=step reward=score.",
            help_behavior_hint="(optional)",
        ),
    ] = ()
    title: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="TEXT", help="Title of the page.", help_behavior_hint="(default: the names of the sources)"
        ),
    ] = None
    normalise: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME|PATH",
            help="Scale of scores: none, human, thousandth, baseline, the name of an arm, or a CSV file with the "
            "columns env, low, high.",
            help_behavior_hint="(default: human for Atari, thousandth for control, otherwise none)",
        ),
    ] = None
    baseline: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="ARM",
            help="Arm that the others are compared with.",
            help_behavior_hint="(default: the same agent without a metric loss)",
        ),
    ] = None
    last: Annotated[
        float, tyro.conf.arg(help="Share of the steps, at their end, whose episodes count in a run's score.")
    ] = LAST
    step: Annotated[
        OptionalCount,
        tyro.conf.arg(
            help="Step at which scores are taken.",
            help_behavior_hint="(default: the last step that every arm has reached)",
        ),
    ] = None
    points: Annotated[Count, tyro.conf.arg(help="Most points of each curve on the page.")] = 200
    resamples: Annotated[Count, tyro.conf.arg(help="Resamples of the bootstrap in tables, at most a million.")] = (
        RESAMPLES
    )
    seed: Annotated[int, tyro.conf.arg(help="Random seed of the bootstrap.")] = 0


def main(argv: list[str]) -> None:
    """Run `mico report` with these arguments."""
    options = parse_flags(Options, prog="mico report", args=argv)
    if not options.sources:
        raise ValueError("SOURCE is missing: name a folder of runs, or a CSV file")
    console = PlainConsole(soft_wrap=True)
    given: dict[str, Any] = {name: getattr(options, name) for name in Options.__dataclass_fields__}
    given["columns"] = parse_columns(options.columns)
    with console.status("reading runs and drawing figures"):
        written = make(Request(**given))
    notes = *written.first, *written.missing
    for sentence in notes[:_NOTES]:
        console.print(f"note: {sentence}")
    if len(notes) > _NOTES:
        console.print(f"note: {len(notes) - _NOTES} more notes are on the page")
    console.print(f"wrote {written.page}: {written.size / 1e6:.2g} MB; open it in a browser")
