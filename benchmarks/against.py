"""Two revisions in one run: `--against REV` of any benchmark here runs it with either code, in turns, prints ratios.

A benchmark calls `parse` in place of `parser.parse_args()`, and `record` for each figure that it prints. The other
revision's own benchmark runs where it records figures too; otherwise the working tree's does, with the code of REV.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
_FIGURES = "MICO_BENCHMARK_FIGURES"  # environment variable: the file to which figures are added
_RATES = ("/s",)  # units of which more is better

Figures = dict[tuple[str, str], float]


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line; with `--against REV` compare this benchmark with that of REV instead, and exit."""
    parser.add_argument("--against", metavar="REV", help="run with the code of this commit too, and print ratios")
    parser.add_argument("--turns", type=int, default=3, metavar="INT", help="of either revision (default: 3)")
    options = parser.parse_args()
    if options.against is None:
        return options
    flags = _without(sys.argv[1:], ("--against", "--turns"))
    compare(Path(sys.argv[0]).resolve(), options.against, flags, options.turns)
    sys.exit()


def record(name: str, value: float, unit: str = "s") -> None:
    """Add a figure to the comparison that started this process; without one nothing happens."""
    if comparing():
        with open(os.environ[_FIGURES], "a", encoding="utf-8") as file:
            file.write(json.dumps([name, unit, value]) + "\n")


def comparing() -> bool:
    """Whether a comparison of revisions started this process, which needs no figures of others."""
    return _FIGURES in os.environ


@contextmanager
def worktree(revision: str) -> Iterator[Path]:
    """The files of a commit in a folder of their own, for as long as the `with` lasts."""
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory(prefix="mico-revision-") as folder:
        tree = Path(folder) / "tree"
        subprocess.check_call([*git, "worktree", "add", "--quiet", "--detach", str(tree), revision])
        try:
            yield tree
        finally:
            subprocess.check_call([*git, "worktree", "remove", "--force", str(tree)])


def compare(script: Path, revision: str, flags: list[str], turns: int) -> None:
    """Run a benchmark with the code of the revision and of the working tree, in turns, and print both and ratios."""
    with worktree(revision) as tree:
        own = tree / "benchmarks" / script.name
        old = own if (tree / "benchmarks" / "against.py").exists() and own.exists() else script
        pairs = [(figures(old, tree, flags), figures(script, ROOT, flags)) for _ in range(turns)]
    print(f"{'':<58} {revision[:12]:>12} {'this':>12}  ratio: how many times as good this is")
    for line in lines(pairs):
        print(line, flush=True)


def figures(script: Path, tree: Path, flags: list[str]) -> Figures:
    """What a benchmark records with the code of a tree, in a process of its own; the last value of each figure."""
    with tempfile.TemporaryDirectory(prefix="mico-figures-") as folder:
        file = Path(folder) / "figures.jsonl"
        own = os.environ | {"PYTHONPATH": str(tree / "src"), _FIGURES: str(file)}
        done = subprocess.run([sys.executable, str(script), *flags], env=own, stdout=subprocess.DEVNULL, check=False)
        if done.returncode or not file.exists():
            raise SystemExit(f"{script.name} with the code of {tree} ended with {done.returncode} and no figures")
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {(name, unit): value for name, unit, value in rows}


def lines(pairs: list[tuple[Figures, Figures]]) -> Iterator[str]:
    """Medians on both sides of each figure that both have, and the median, least and largest ratio within a turn."""
    for name, unit in pairs[0][1]:
        if all((name, unit) in side for pair in pairs for side in pair):
            old, new = ([pair[side][name, unit] for pair in pairs] for side in (0, 1))
            ratios = [b / a if unit in _RATES else a / b for a, b in zip(old, new, strict=True)]
            spread = f"{median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
            yield f"{name:<58} {median(old):>9.4g} {unit:<3}{median(new):>9.4g} {unit:<3} {spread}"


def _without(arguments: list[str], flags: tuple[str, ...]) -> list[str]:
    """The arguments less these flags and the value of each, after a space or an equals sign."""
    kept, skip = [], False
    for argument in arguments:
        flag, equals, _ = argument.partition("=")
        if not skip and flag not in flags:
            kept.append(argument)
        skip = not skip and flag in flags and not equals
    return kept
