"""A process with one task in it: it plays what it is told, and writes what came of it where its parent can see it."""

import json
import mmap
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from mico.control_suite.children import messages
from mico.control_suite.settings import TaskSettings

if TYPE_CHECKING:
    from mico.control_suite.suite import Task


class Play(NamedTuple):
    """First a new episode, if there is a seed; then these actions, of which the last one's frame is seen."""

    seed: int | None
    actions: list[Float[np.ndarray, " A"]]


def row(shape: tuple[int, ...], dtype: str) -> np.dtype:
    """What a worker writes into the memory that it shares."""
    fields = [("frame", dtype, shape), ("reward", np.float32), ("terminal", bool), ("truncated", bool)]
    return np.dtype(fields, align=True)


def play(task: "Task", order: Play, seen: Shaped[np.ndarray, " 1"]) -> None:
    """Writes the last frame, and what the last action brought."""
    if order.seed is not None:
        task.reset(order.seed)
    for action in order.actions:
        seen["reward"], seen["terminal"], seen["truncated"] = task.step(action)
    seen["frame"] = task.frame()


def main(channel: str, given: str, memory: str) -> None:
    """Answers each order with nothing, or with an error and where it came from."""
    for number in (signal.SIGINT, signal.SIGTERM):  # all processes of a job may get one, but the parent decides
        signal.signal(number, signal.SIG_IGN)
    settings, shape, dtype, index = json.loads(given)
    seen = np.frombuffer(mmap.mmap(int(memory), 0), row(tuple(shape), dtype))[index : index + 1]
    connection, task = Connection(int(channel)), None
    for order in messages(connection):
        trouble = None
        try:
            if task is None:
                from mico.control_suite.suite import Task

                task = Task(TaskSettings(*settings))
            play(task, Play(*order), seen)
        except Exception as error:  # whatever it is, the parent tells it
            trouble = f"{type(error).__name__}: {error}", traceback.format_exc()
        with suppress(OSError):  # the parent may be gone
            connection.send(trouble)


if __name__ == "__main__":
    main(*sys.argv[1:])
