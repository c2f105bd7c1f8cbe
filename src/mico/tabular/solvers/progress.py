"""Who wants to know how far a solver has come: it tells the error that it could certify if it stopped now."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_watcher: ContextVar[Callable[[float], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watch(callback: Callable[[float], None]) -> Iterator[None]:
    """Let solvers inside the `with` call back with their present error, which falls to the tolerance.

    Args:
        callback: A function of the error that a solver could certify if it stopped now.

    Yields:
        Nothing.

    Examples:
        >>> import mico.tabular as mt
        >>> errors = []
        >>> with mt.watch(errors.append):
        ...     solution = mt.solve("mico", mt.make("mirrored-rooms"))
        >>> errors[0] > errors[-1]
        True
    """
    token = _watcher.set(callback)
    try:
        yield
    finally:
        _watcher.reset(token)


def tell(error: float) -> None:
    callback = _watcher.get()
    if callback is not None:
        callback(error)
