"""`mico collect SOURCE ...`: store many runs as small files, added to those that a folder has."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from mico.cli._flags import parse_flags
from mico.cli.counts import Count
from mico.cli.text import PlainConsole, in_bytes
from mico.runs import archive as condensed
from mico.runs.archive import Condensed
from mico.runs.files import writable
from mico.runs.lock import exclusive


@dataclass(frozen=True)
class Options:
    """Store many runs as small files: AGENT.csv with thinned learning curves, AGENT.json with settings and versions."""

    sources: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="SOURCE ...",
            help="Folders of runs, finished or not, or of files that this command wrote.",
            help_behavior_hint="(one or more)",
        ),
    ]
    out: Annotated[
        Path,
        tyro.conf.arg(
            metavar="FOLDER",
            help="Folder for the files. Runs are added to those it has; of two copies of a run the longer one stays.",
        ),
    ]
    points: Annotated[Count, tyro.conf.arg(help="Points of each learning curve, at most a million.")] = 50


def main(argv: list[str]) -> None:
    """Run `mico collect` with these arguments."""
    options = parse_flags(Options, prog="mico collect", args=argv)
    if not options.sources:
        raise ValueError("SOURCE is missing: name a folder of runs, or of files that this command wrote")
    console = PlainConsole(soft_wrap=True)
    found = [_read(source, options.points) for source in options.sources]
    with exclusive(writable(options.out)):
        every = condensed.read(options.out)
        for one in found:
            every = condensed.merged(every, one)
        for file in condensed.write(every, options.out):
            runs = every.rows[every.rows["agent"] == file.stem].drop_duplicates(condensed.KEY)
            count = f"{len(runs)} run{'s' * (len(runs) != 1)}"
            console.print(f"{file}: {count}, {in_bytes(file.stat().st_size)}")


def _read(source: Path, points: int) -> Condensed:
    """Read a folder of runs, or of files that this command wrote."""
    if not source.is_dir():
        raise ValueError(f"SOURCE must be a folder, got {source}")
    ours = any(file.with_suffix(".json").exists() for file in source.glob("*.csv"))
    return condensed.read(source) if ours else condensed.condense(source, points=points)
