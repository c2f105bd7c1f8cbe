"""The command line: a table of commands, each module imported only when its command is used."""

import difflib
import importlib
import os
import select
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from mico import __doc__ as _summary
from mico import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "collect": ("mico.commands.collect", "many runs as small files, which can be committed and reported on"),
    "demo": ("mico.commands.demo", "exact metrics, DQN with and without MICo, learnt against exact: in minutes"),
    "evaluate": ("mico.commands.evaluate", "what trained runs score"),
    "experiment": ("mico.commands.experiment", "the paper's experiments, and some beyond it: tables and figures"),
    "explore": ("mico.commands.explore", "the metrics of one problem as a page to look around in"),
    "list": ("mico.commands.list", "the problems and metrics that have a name"),
    "metric": ("mico.commands.metric", "one metric of one problem: matrix, figures and a summary"),
    "report": ("mico.commands.report", "many runs, or tables of results, as one page with figures and tables"),
    "sweep": ("mico.commands.sweep", "a grid of runs as fleets: here, in several processes or on a Ray cluster"),
    "train": ("mico.commands.train", "agents with and without a metric loss, many runs as one fleet"),
    "watch": ("mico.commands.watch", "a trained run at play, as a video: values, and frames it takes for alike"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command that the first argument names; bad input is a line, or tyro's box, on stderr and exit code 2."""
    try:
        try:
            _dispatch(argv)
        finally:
            _flush()
    except BrokenPipeError:  # whoever reads it, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes there as Python ends
        raise SystemExit(1) from None


def _flush() -> None:
    if sys.stdout is not None:  # as it is where the shell closed it
        sys.stdout.flush()


def _is_unread() -> bool:
    """Whether the output is a pipe that nobody reads any more."""
    poll = select.poll()
    try:
        poll.register(sys.stdout, 0)
    except (OSError, TypeError, ValueError):  # it is no file of the system
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _dispatch(argv: Sequence[str] | None) -> None:
    name, *rest = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        sys.stdout.write(_help())
    elif name in ("-V", "--version"):
        sys.stdout.write(f"mico {__version__}\n")
    elif name in COMMANDS:
        _run(COMMANDS[name][0], rest)
    else:
        near = difflib.get_close_matches(name, COMMANDS, n=2) or COMMANDS
        _stop(f"{name!r} is no command; near it: {', '.join(near)}", code=2)


def _run(module: str, argv: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _say(message)
        try:
            importlib.import_module(module).main(argv)
        except KeyboardInterrupt as stop:
            _stop(stop.args[0] if stop.args else "interrupted", code=130)
        except BrokenPipeError as error:
            if _is_unread():
                raise
            _stop(error, code=2)
        except OSError as error:
            _stop(f"{error.filename}: {error.strerror}" if error.filename else error, code=2)
        except MemoryError as error:
            _stop(str(error) or "this takes more memory than there is", code=2)
        except (ValueError, ModuleNotFoundError) as error:
            _stop(error, code=2)
        except RecursionError:
            _stop("what was given is nested too deeply to be read", code=2)
        except (RuntimeError, AssertionError):  # which JAX raises, the latter bare, for want of a device
            if _lacks_device():
                asked = os.environ.get("JAX_PLATFORMS", "")
                _stop(f"JAX finds no device of the kind JAX_PLATFORMS={asked} asks for: unset it to take any", code=2)
            raise


def _lacks_device() -> bool:
    """Whether JAX, if it was used, cannot say what it would run on."""
    jax = sys.modules.get("jax")
    try:
        return jax is not None and not jax.devices()
    except (RuntimeError, AssertionError):
        return True


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {line}" for name, (_, line) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: mico COMMAND [OPTIONS]",
            "",
            str(_summary),
            "",
            *lines,
            "",
            "`mico COMMAND --help` explains a command, `mico --version` says which version this is.",
            "",
        ]
    )


def _say(message: object) -> None:
    sys.stderr.write(f"mico: {' '.join(str(message).split())}\n")


def _stop(message: object, *, code: int) -> NoReturn:
    _say(message)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
