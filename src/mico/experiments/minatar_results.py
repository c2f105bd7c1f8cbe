"""Results of the study in the package and in a folder, the runs that are missing."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mico.experiments.minatar_plan import PHASES, Config, Part, Phase, choice, key_of, study_parts, sweep_parts
from mico.runs import archive as condensed
from mico.runs.archive import Condensed
from mico.sweeps.grid import Cell

PACKAGED = Path(__file__).parent / "data" / "minatar"


class Known(NamedTuple):
    """The results of each phase, and how far each run in them is."""

    of: dict[str, Condensed]
    reached: dict[str, dict[tuple[Any, ...], int]]


class Missing(NamedTuple):
    """Cells of a part that no results have, or not to their end."""

    part: Part
    cells: list[Cell]


def known(folder: Path, config: Config) -> Known:
    """Results of runs of this length, from the package and from the folder."""
    if config.results and not config.train and (not folder.is_dir() or any(folder.glob("*.csv"))):
        raise ValueError(f"results must be a folder with {' or '.join(PHASES)} in it, but is {config.results!r}")
    lengths: dict[Phase, int] = {"alpha-beta": config.sweep_steps, "study": config.steps}
    packaged = {phase: condensed.of_length(condensed.read(PACKAGED / phase), lengths[phase]) for phase in PHASES}
    found = {phase: condensed.merged(packaged[phase], condensed.read(folder / phase)) for phase in PHASES}
    return Known(found, {phase: condensed.reached(one) for phase, one in found.items()})


def parts_of(config: Config, results: Known, agent: str) -> Iterator[Part]:
    """The sweep for an agent, then its study, with the weights that the sweep chose if it is complete."""
    if "alpha-beta" in config.phases:
        yield from sweep_parts(config, agent)
    if "study" in config.phases:
        sweep, reached = results.of["alpha-beta"], results.reached["alpha-beta"]
        yield from study_parts(config, agent, choice(sweep.rows, config, agent, reached))


def lacking(part: Part, results: Known) -> Missing:
    """The missing runs of a part."""
    reached = results.reached[part.phase]
    return Missing(part, [cell for cell in part.cells if reached.get(key_of(cell)) != part.sweep.steps])


def sentences(parts: Sequence[Missing]) -> list[str]:
    """Sentences about the missing runs."""
    if not parts:
        return []
    lines = [f"{one.part.name}: {len(one.cells)} of {len(one.part.cells)} runs are missing" for one in parts]
    return [*lines, "--train trains them"]
