"""Processes that begin afresh, never as copies of one in which JAX runs, and end with the one that began them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

NO_OPENGL = "disabled"
_PATIENCE = 5.0  # seconds that a process has to end by itself
_GLANCE = 1.0  # seconds after which one that hears nothing looks whether it still has a parent


def launch(module: str, *arguments: str, opengl: str, **channels: Any) -> subprocess.Popen:
    """Has a module run as a program, with one thread for arithmetic and with this back end of OpenGL.

    It is in a group of its own: a Ctrl-C in the terminal is for its parent.
    """
    own = {"MUJOCO_GL": opengl, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment = {"LP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ, **own}
    command = [sys.executable, "-P", "-m", module, *arguments]
    return subprocess.Popen(command, env=environment, process_group=0, stdin=subprocess.DEVNULL, **channels)


def connect(
    module: str, *arguments: str, opengl: str, files: Sequence[int] = ()
) -> tuple[subprocess.Popen, Connection]:
    """One to talk to: its first argument is the number of the file that it hears from."""
    ours, theirs = Pipe()
    with theirs:
        number = theirs.fileno()
        return launch(module, str(number), *arguments, opengl=opengl, pass_fds=(number, *files)), ours


def messages(connection: Connection) -> Iterator[Any]:
    """What the parent says, until it has closed its end or is gone, however it went."""
    parent = os.getppid()
    while True:
        while not connection.poll(_GLANCE):  # its end may live on in a copy of it
            if os.getppid() != parent:
                return
        try:
            yield connection.recv()
        except (EOFError, ConnectionResetError):
            return


def end(process: subprocess.Popen) -> str:
    """Waits for a process that is about to end, or kills it; and tells how it came to its end."""
    try:
        code = process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    return f"ended with exit code {code}" if code >= 0 else f"was killed by signal {-code}"
