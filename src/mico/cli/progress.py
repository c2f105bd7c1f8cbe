"""How far a solver has come, on a terminal."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mico.tabular import watch


@contextmanager
def shown(console: Console, what: str, tolerance: float) -> Iterator[None]:
    """A bar that fills as the certified error falls, by its logarithm, to the tolerance."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[error]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None, error="")
        errors: list[float] = []

        def show(error: float) -> None:
            errors.append(max(error, tolerance))
            whole = math.log(errors[0]) - math.log(tolerance)
            done = math.log(errors[0]) - math.log(errors[-1])
            progress.update(task, total=whole or 1.0, completed=done, error=f"error {error:.0e}")

        with watch(show):
            yield
