"""Tasks side by side, a process each: orders go through pipes, and what came of them through shared memory."""

import json
import mmap
import os
import subprocess
import threading
import warnings
import weakref
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from mico.control_suite.children import NO_OPENGL, connect, end
from mico.control_suite.graphics import back_end
from mico.control_suite.settings import TaskSettings
from mico.control_suite.worker import Play, row

_PATIENCE = 300.0  # seconds that a step, or a process that begins with many others, may take


@final
class Workers:
    """As many environments of one task, without automatic reset.

    One whose process dies begins again and plays its episode up to where it was, so that all goes on as if nothing had
    happened; a ChildProcessError if it dies of that too, or if something goes wrong in it.
    """

    def __init__(self, settings: TaskSettings, num_envs: int, shape: tuple[int, ...], dtype: str):
        self._settings, self._shape, self._dtype = settings, shape, dtype
        self._opengl = back_end() if settings.observation == "pixels" else NO_OPENGL
        kind = row(shape, dtype)
        self._file = os.memfd_create("mico-physics")  # it has no name, and so goes with those who have it open
        os.ftruncate(self._file, num_envs * kind.itemsize)
        self._seen = np.frombuffer(mmap.mmap(self._file, 0), kind)
        self.seeds: list[int] | None = None  # of the runs that they belong to, to name them by
        self._past: list[Play] = [Play(0, []) for _ in range(num_envs)]
        self._processes: list[subprocess.Popen] = []
        self._connections: list[Connection] = []
        self._lock = threading.Lock()  # none begins again once all are ended
        self._close = weakref.finalize(self, _end_all, self._processes, self._connections, self._file)
        for index in range(num_envs):
            process, connection = self._started(index)
            self._processes.append(process)
            self._connections.append(connection)

    @property
    def pids(self) -> list[int]:
        """Of the processes, in order."""
        return [process.pid for process in self._processes]

    def reset(self, which: Bool[np.ndarray, " N"], seeds: Int[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        """New episodes in the environments that `which` marks; the frames of others are as they were."""
        for index in np.flatnonzero(which).tolist():
            self._past[index] = Play(int(seeds[index]), [])
            self._order(index, self._past[index])
        for index in np.flatnonzero(which).tolist():
            self._wait(index)
        return self._seen["frame"].copy()

    def send(self, actions: Float[np.ndarray, "N A"]) -> None:
        """Has each begin a step."""
        for index, action in enumerate(np.array(actions, np.float32)):
            self._past[index].actions.append(action)
            self._order(index, Play(None, [action]))

    def receive(self) -> Shaped[np.ndarray, " N"]:
        """Wait for all, and return frame, reward, terminal and truncated of each."""
        for index in range(len(self._processes)):
            self._wait(index)
        return self._seen.copy()

    def close(self) -> None:
        """Ends all processes; whoever waits for one, in another thread, is interrupted."""
        with self._lock:
            self._close()

    def _started(self, index: int) -> tuple[subprocess.Popen, Connection]:
        given = json.dumps((self._settings, self._shape, self._dtype, index))
        opengl, files = self._opengl, (self._file,)
        return connect("mico.control_suite.worker", given, str(self._file), opengl=opengl, files=files)

    def _order(self, index: int, what: Play) -> None:
        with suppress(ConnectionError):  # one that has died is noticed when it is waited for
            self._connections[index].send(tuple(what))

    def _wait(self, index: int) -> None:
        if not self._answered(index):
            self._replace(index)
            if not self._answered(index):
                how = end(self._processes[index])
                raise ChildProcessError(f"{self._name(index)} {how} again at the same step, and is given up")

    def _answered(self, index: int) -> bool:
        """Whether it is alive; an error of its own is raised here."""
        try:
            if not self._connections[index].poll(_PATIENCE):
                self._processes[index].kill()  # it hangs, perhaps in a driver
            trouble = self._connections[index].recv()
        except (EOFError, OSError):
            return False
        if trouble is not None:
            message, place = trouble
            error = ChildProcessError(f"{self._name(index)} failed: {message}")
            error.add_note(place)
            raise error
        return True

    def _replace(self, index: int) -> None:
        with self._lock:
            if not self._close.alive:
                raise InterruptedError(f"{self._settings.name} was closed while environment {index} took a step")
            how, count = end(self._processes[index]), len(self._past[index].actions)
            steps = "step" if count == 1 else f"{count} steps"
            told = f"{self._name(index)} {how}: it begins again and plays the {steps} of its episode"
            warnings.warn(told, RuntimeWarning, stacklevel=2)
            self._connections[index].close()
            self._processes[index], self._connections[index] = self._started(index)
        self._order(index, self._past[index])

    def _name(self, index: int) -> str:
        which = f"environment {index}" if self.seeds is None else f"the environment of seed {self.seeds[index]}"
        return f"{which} ({self._settings.name}, process {self._processes[index].pid})"


def _end_all(processes: list[subprocess.Popen], connections: list[Connection], file: int) -> None:
    """Workers whose pipe is closed end by themselves; those that do not are killed."""
    for connection in connections:
        connection.close()
    for process in processes:
        end(process)
    os.close(file)
