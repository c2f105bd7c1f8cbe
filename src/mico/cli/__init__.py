"""The command line: a table of commands, each module imported only when its command is used."""

import difflib
import importlib
import os
import re
import select
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from mico import __doc__ as _summary
from mico import __version__
from mico._checks import printable
from mico._extras import explain_missing
from mico._plugins import import_modules, imported_modules, split_imports

COMMANDS: dict[str, tuple[str, str]] = {
    "collect": ("mico.cli.collect", "thin many runs to small files that can be committed and reported on"),
    "demo": ("mico.cli.demo", "exact metrics, DQN with and without MICo, learnt against exact: three minutes"),
    "evaluate": ("mico.cli.evaluate", "play episodes with trained runs and print their returns"),
    "experiment": ("mico.cli.experiment", "run an experiment of the paper, or one of ours: tables and figures"),
    "explore": ("mico.cli.explore", "the metrics of a finite MDP as one interactive page"),
    "list": ("mico.cli.list", "problems, metrics, agents, metric losses and environments by name"),
    "metric": ("mico.cli.metric", "compute a metric of a finite MDP: matrix, figures and a summary"),
    "report": ("mico.cli.report", "one page on many runs, or on a CSV of results, with figures and tables"),
    "sweep": ("mico.cli.sweep", "train a grid of runs: on this machine, in processes or on a Ray cluster"),
    "train": ("mico.cli.train", "train agents with or without a metric loss, several seeds at once"),
    "watch": ("mico.cli.watch", "a video of a trained run: action values and the most similar stored frames"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command that the first argument names; bad input is a line on stderr and exit code 2."""
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
    try:
        words, imports = split_imports(sys.argv[1:] if argv is None else argv)
    except ValueError as error:
        _stop(error, code=2)
    name, *rest = words or ["--help"]
    if name in ("-h", "--help"):
        sys.stdout.write(_help())
    elif name in ("-V", "--version"):
        sys.stdout.write(f"mico {__version__}\n")
    elif name in COMMANDS:
        _run(COMMANDS[name][0], rest, imports)
    else:
        near = difflib.get_close_matches(name, COMMANDS, n=2) or COMMANDS
        _stop(f"unknown command {name!r}: did you mean {', '.join(near)}?", code=2)


def _run(module: str, argv: list[str], imports: Sequence[str] = ()) -> None:
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _say(message)
        try:
            import_modules([*imported_modules(), *imports])  # before the command reads what is registered
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
        except ModuleNotFoundError as error:
            _stop(explain_missing(error), code=2)
        except ValueError as error:
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
            "`--import MODULE`, with any command, imports a module of yours that registers agents or environments.",
            "",
        ]
    )


def _say(message: object) -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(message))  # gymnasium colours its warnings
    sys.stderr.write(f"mico: {printable(' '.join(plain.split()))}\n")


def _stop(message: object, *, code: int) -> NoReturn:
    _say(message)
    raise SystemExit(code)
