"""`mico demo`: every metric on four rooms."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pandas as pd
import tyro
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from mico.experiments import demo
from mico.results import plots
from mico.results.folders import writable


@dataclass(frozen=True)
class Options:
    """Every metric on four rooms: how it bounds differences of value, and maps of the distance from the goal."""

    out: Annotated[Path, tyro.conf.arg(help="folder for the files")] = Path("out/demo")


def main(argv: list[str]) -> None:
    out = writable(tyro.cli(Options, prog="mico demo", args=argv).out)
    console, config = Console(highlight=False, markup=False, soft_wrap=True), demo.Config()
    setting = f"{config.problem} at discount {config.discount:g} under the uniform policy"
    console.print(f"Every metric between the states of {setting}:")
    frame = demo.run(config, lambda names: track(list(names), "metrics", console=console, transient=True))
    table = demo.table(frame)
    console.print(_printed(table))
    console.print("broken: share of pairs whose values differ by more than d; gap: mean of d − |ΔV| over all pairs.")
    console.print("V is the policy's value, and the optimal one for the metrics of the MDP alone (bisimulation, lax).")
    plots.save(demo.plot(frame), out / config.problem)
    frame.loc[:, :"distance"].to_csv(out / f"{config.problem}.csv", index=False)
    table.to_csv(out / "metrics.csv", index=False)
    console.print(f"Files are in {out}: the maps as {config.problem}.png, .pdf and .csv, the table as metrics.csv.")


def _printed(table: pd.DataFrame) -> Table:
    printed = Table("metric", "certified error", "broken", "gap", "seconds", box=box.SIMPLE)
    for line in table.itertuples():
        numbers = (f"{line.error:.1e}", f"{line.broken:.1%}", f"{line.mean_gap:.4f}", f"{line.seconds:.2f}")
        printed.add_row(line.metric, *numbers)
    return printed
