"""The suite's tasks and their sizes, told by a process that has dm_control, so that others need not import it.

dm_control chooses how to draw, once and for all, when it is imported; that choice is left to the user's own program.
"""

import importlib.util
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from typing import Any, final

from mico._checks import install_hint
from mico.control_suite.children import NO_OPENGL, connect, end, messages
from mico.control_suite.settings import Sizes


@final
class Catalogue:
    """Domain and task by their common name, and the sizes of any; the process it asks lasts as long as this one."""

    def __init__(self) -> None:
        self._process, self._connection = connect(__name__, opengl=NO_OPENGL)
        weakref.finalize(self, _leave, self._process, self._connection)
        self._sizes, self._lock = dict[str, Sizes](), threading.Lock()
        self.tasks: dict[str, tuple[str, str]] = {f"{domain}-{task}": (domain, task) for domain, task in self._heard()}

    def sizes(self, name: str) -> Sizes:
        with self._lock:
            if name not in self._sizes:
                with suppress(ConnectionError):  # of a process that is gone nothing is heard
                    self._connection.send(self.tasks[name])
                self._sizes[name] = self._heard()
            return self._sizes[name]

    def _heard(self) -> Any:
        try:
            return self._connection.recv()
        except (EOFError, ConnectionError):
            catalogue.cache_clear()  # who asks next asks another
            raise ChildProcessError(f"dm_control cannot be used: what asks it {end(self._process)}") from None


def _leave(process: subprocess.Popen, connection: Connection) -> None:
    """A process whose pipe is closed ends by itself; one that nobody waits for would stay as a zombie."""
    connection.close()
    end(process)


@cache
def catalogue() -> Catalogue:
    """One for all who ask."""
    if importlib.util.find_spec("dm_control") is None:
        raise ModuleNotFoundError(f"The DeepMind Control suite needs: {install_hint('control')}")
    return Catalogue()


def main(channel: str) -> None:
    """Tells all tasks, then the sizes of those asked for."""
    from mico.control_suite import suite

    connection = Connection(int(channel))
    connection.send(suite.tasks())
    for domain, task in messages(connection):
        connection.send(suite.sizes(domain, task))


if __name__ == "__main__":
    main(*sys.argv[1:])
