"""An experiment as cells that do not depend on each other: measured in turn, or on every core and kept on disk."""

import io
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mico.runs.csv_bytes import csv_bytes, unescape_table
from mico.runs.files import check_no_link, make_subfolder, write_whole
from mico.sweeps.processes import end_with_parent

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_FOLDER = "cells"


# A way to measure all cells: their tables, joined in the order of the cells.
Evaluation = Callable[[Callable[[Any], pd.DataFrame], Sequence[Any]], pd.DataFrame]


def in_turn(measure: Callable[[Any], pd.DataFrame], cells: Sequence[Any]) -> pd.DataFrame:
    """One after the other, in this process."""
    return pd.concat([measure(cell) for cell in cells], ignore_index=True)


def like_paper(frame: pd.DataFrame) -> bool:
    """Whether all lines tell that their settings are the paper's; those of older folders tell nothing."""
    return "like_paper" in frame and bool(frame["like_paper"].eq(True).all())


@dataclass(frozen=True)
class OnDisk:
    """By worker processes with one thread each; a cell whose file is in the folder is not measured again.

    `report` hears how many cells are done, of how many. `measure` must be a function of a module and cells must pickle.
    """

    folder: Path
    workers: int
    report: Callable[[int, int], None] = lambda done, total: None

    def __call__(self, measure: Callable[[Any], pd.DataFrame], cells: Sequence[Any]) -> pd.DataFrame:
        kept = make_subfolder(self.folder, _FOLDER)
        paths = [kept / f"{index}.csv" for index in range(len(cells))]
        missing = [index for index, path in enumerate(paths) if not path.exists()]
        self.report(len(cells) - len(missing), len(cells))
        with _pool(self.workers) as pool:
            futures = {pool.submit(measure, cells[index]): index for index in missing}
            for done, (index, frame) in enumerate(_finished(futures), start=1):
                write_whole(paths[index], csv_bytes(frame))
                self.report(len(cells) - len(missing) + done, len(cells))
        # From the files even if it was measured now: what is resumed is the same to the last digit.
        return pd.concat([read_frame(path) for path in paths], ignore_index=True)

    def has_any(self) -> bool:
        """Whether a cell is on disk."""
        return any((self.folder / _FOLDER).glob("*.csv"))

    def forget(self) -> None:
        """Remove the cells' files, if there were any, once what they make is written."""
        check_no_link(self.folder / _FOLDER)
        if (self.folder / _FOLDER).is_dir():
            for path in (self.folder / _FOLDER).iterdir():
                path.unlink()
            (self.folder / _FOLDER).rmdir()


def _finished(futures: dict[Future, int]) -> Iterator[tuple[int, pd.DataFrame]]:
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise ValueError("a worker process ended before its time, perhaps for want of memory") from error


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that start afresh, for a fork would share threads and locks of this one."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_settle)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _settle() -> None:
    """A worker ends with its parent, and without a word when Ctrl-C stops both."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()


def read_frame(path: Path) -> pd.DataFrame:
    """A table as it was written: Python's own parser keeps every digit of a float, and only nothing is missing."""
    try:
        table = pd.read_csv(io.BytesIO(path.read_bytes()), engine="python", keep_default_na=False, na_values=[""])
        return unescape_table(table)
    except ValueError as error:
        raise ValueError(f"{path} is no table, and must go before --resume can: {error}") from error
