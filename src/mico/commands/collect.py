"""`mico collect SOURCE ...`: many runs as small files, added to those that a folder has."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from mico.commands.text import in_bytes
from mico.results import condensed
from mico.results.condensed import Condensed
from mico.results.folders import writable
from mico.results.lock import exclusive


@dataclass(frozen=True)
class Options:
    """Thinned curves of runs, finished or not, as AGENT.csv, with AGENT.json that says where they are from."""

    sources: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="SOURCE", help="folders of runs, or of files that this command wrote"),
    ]
    out: Annotated[
        Path, tyro.conf.arg(help="folder for the files; of a run that it has, the one that went farther stays")
    ]
    points: Annotated[int, tyro.conf.arg(help="of a curve")] = 50


def main(argv: list[str]) -> None:
    options = tyro.cli(Options, prog="mico collect", args=argv)
    if not options.sources:
        raise ValueError("SOURCE is missing: a folder of runs, or of files that this command wrote")
    console = Console(highlight=False, markup=False, soft_wrap=True)
    found = [_read(source, options.points) for source in options.sources]
    with exclusive(writable(options.out)):
        every = condensed.read(options.out)
        for one in found:
            every = condensed.merged(every, one)
        for file in condensed.write(every, options.out):
            runs = every.rows[every.rows["agent"] == file.stem].drop_duplicates(condensed.KEY)
            console.print(f"{file}: {len(runs)} runs, {in_bytes(file.stat().st_size)}")


def _read(source: Path, points: int) -> Condensed:
    """A folder has either files of ours, or runs in it."""
    if not source.is_dir():
        raise ValueError(f"{source} is no folder")
    ours = any(file.with_suffix(".json").exists() for file in source.glob("*.csv"))
    return condensed.read(source) if ours else condensed.condense(source, points=points)
