"""Do two revisions train to the same bits? Runs of every kind, a few hundred steps each, compared leaf by leaf.

    python benchmarks/digests.py --against HEAD          the working tree against a commit
    python benchmarks/digests.py --against HEAD --only minatar --precision float32

Every case is trained by the command line of either revision, on the CPU, in float32 and in float64. Parameters are
compared in the order of their leaves, so that fields may be renamed; log rows by the names that RENAMED_COLUMNS gives.
What a commit computed is kept under out/digests/COMMIT and not computed again.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from against import ROOT, worktree

RENAMED_COLUMNS: dict[str, str] = {}  # columns of the log: old name → new name
RENAMED_FLAGS: dict[str, str] = {}  # flags of `mico train`: old name → new name; the working tree has the new ones
VALUE_AGENTS = ("dqn", "rainbow", "qr-dqn", "iqn", "m-iqn")
SMALL = "--replay.capacity 2000 --schedule.learning-starts 100 --schedule.log-period 100 --schedule.epsilon-decay 100"
TARGETS = "--schedule.update-period 4 --schedule.target-period 100"


class Case(NamedTuple):
    """A training, in one or more calls of `mico train`, each with more flags and to more steps than the one before."""

    name: str
    flags: str
    calls: tuple[str, ...] = ("--steps 400",)


def cases() -> Iterator[Case]:
    """Every kind of run: agents, metric losses, environments, orders of acting, fleets and resumed trainings."""
    for env in ("minatar/breakout", "mdp/four-rooms"):
        for agent in VALUE_AGENTS:
            for metric in ("none", "mico"):
                flags = f"--env {env} --agent {agent} --metric {metric} {SMALL} {TARGETS} --agent.discount 0.99"
                if agent in ("iqn", "m-iqn"):
                    flags += " --agent.num-quantiles 8 --agent.num-target-quantiles 8 --agent.num-policy-quantiles 8"
                yield Case(f"{env.replace('/', '-')}-{agent}-{metric}", flags)
    for metric in ("none", "mico", "dbc", "dbc-det", "dbc-mico"):
        network = "--network.width 32 --network.hidden 32 --replay.batch-size 32"
        yield Case(f"pendulum-sac-{metric}", f"--env gym/Pendulum-v1 --agent sac --metric {metric} {SMALL} {network}")
    hosted = f"--env gym/CartPole-v1 --agent dqn --metric mico --seeds 0 1 {SMALL} {TARGETS}"
    for order in ("after-learning", "while-learning"):
        yield Case(f"cartpole-{order}", f"{hosted} --schedule.acting {order}")
    fleet = f"--env minatar/asterix --agent dqn --metric mico --metric.alpha 0 0.01 --seeds 0 1 {SMALL} {TARGETS}"
    yield Case("fleet", fleet)
    stops = ("--steps 200", "--steps 400 --resume")
    yield Case("resume-whole", fleet, tuple(f"{stop} --checkpoint-replay whole" for stop in stops))
    yield Case("resume-empty", fleet, tuple(f"{stop} --checkpoint-replay empty" for stop in stops))
    yield Case("resume-hosted", hosted, stops)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REV", help="the commit that the working tree is compared with")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose names contain this")
    parser.add_argument("--precision", choices=("both", "float32", "float64"), default="both")
    parser.add_argument("--tolerance", type=float, default=0.0, help="largest difference allowed in float64")
    parser.add_argument("--compute", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = [case for case in cases() if options.only in case.name]
    if options.compute is not None:
        for case in chosen:
            if not (options.compute / f"{case.name}.npz").exists():
                compute(case, options.compute, renamed=options.against is None)
        return
    if options.against is None:
        parser.error("--against is needed")
    precisions = ("float32", "float64") if options.precision == "both" else (options.precision,)
    differing = [found for precision in precisions for found in compare(options, chosen, precision)]
    equal = len(chosen) * len(precisions) - len(differing)
    print(f"{equal} cases equal, {len(differing)} differ", *differing, sep="\n")
    sys.exit(bool(differing))


def compare(options: argparse.Namespace, chosen: list[Case], precision: str) -> list[str]:
    """The cases whose parameters or log rows differ, with where and by how much."""
    rev_parse = ["git", "-C", str(ROOT), "rev-parse", f"{options.against}^{{commit}}"]
    commit = subprocess.check_output(rev_parse, text=True).strip()
    old = ROOT / "out" / "digests" / commit / precision
    lacking = not all((old / f"{case.name}.npz").exists() for case in chosen)
    with tempfile.TemporaryDirectory(prefix="digests-") as folder:
        if lacking:
            with worktree(commit) as tree:
                start(tree, options.only, old, precision, "--against", commit)
        new = Path(folder) / "new"
        start(ROOT, options.only, new, precision)
        tolerance = options.tolerance if precision == "float64" else 0.0
        found = {case.name: difference(old, new, case.name, tolerance) for case in chosen}
    return [f"{precision} {name}: {words}" for name, words in found.items() if words]


def start(tree: Path, only: str, into: Path, precision: str, *more: str) -> None:
    """Compute cases with the code of a tree, in a process of its own."""
    into.mkdir(parents=True, exist_ok=True)
    own = {"PYTHONPATH": str(tree / "src"), "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": str(int(precision == "float64"))}
    own["JAX_COMPILATION_CACHE_DIR"] = str(ROOT / "out" / "digests" / "compiled")
    own |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    command = [sys.executable, __file__, "--compute", str(into), "--only", only, *more]
    subprocess.run(command, env=os.environ | own, check=True, stdout=subprocess.DEVNULL)


def compute(case: Case, into: Path, *, renamed: bool) -> None:
    """Train a case; its parameters and log rows as NAME.npz."""
    import jax

    from mico import cli

    jax.clear_caches()  # programs of earlier cases: a process can map only so many

    flags = case.flags
    for old, new in RENAMED_FLAGS.items() if renamed else ():
        flags = flags.replace(f"{old} ", f"{new} ")
    with tempfile.TemporaryDirectory(prefix="digest-") as folder:
        for call in case.calls:
            cli.main(["train", *flags.split(), *call.split(), "--out", folder])
        runs = sorted(Path(folder).glob("*/config.json"))
        leaves = [leaf for config in runs for leaf in parameters(config.parent)]
        rows = [row for config in runs for row in log(config.parent)]
    arrays: dict[str, Any] = {f"leaf{index}": leaf for index, leaf in enumerate(leaves)}
    np.savez(into / f"{case.name}.npz", rows=np.array(json.dumps(rows)), **arrays)


def parameters(run: Path) -> list[np.ndarray]:
    """The leaves of a run's parameters, in order."""
    import jax

    from mico.deep import load

    return [np.asarray(leaf) for leaf in jax.tree.leaves(load(run).params)]


def log(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def difference(old: Path, new: Path, name: str, tolerance: float) -> str:
    """What differs between two computed cases, or nothing."""
    with np.load(old / f"{name}.npz") as one, np.load(new / f"{name}.npz") as other:
        if len(one.files) != len(other.files):
            return f"{len(one.files) - 1} leaves became {len(other.files) - 1}"
        worst = 0.0
        for leaf in (file for file in one.files if file != "rows"):
            if one[leaf].shape != other[leaf].shape or one[leaf].dtype != other[leaf].dtype:
                return f"{leaf}: {one[leaf].dtype}{one[leaf].shape} became {other[leaf].dtype}{other[leaf].shape}"
            if one[leaf].tobytes() != other[leaf].tobytes():
                worst = max(worst, float(np.abs(one[leaf].astype(float) - other[leaf].astype(float)).max()))
                if not worst <= tolerance:
                    return f"{leaf} differs by {worst:.1e}"
        before, after = (json.loads(str(file["rows"])) for file in (one, other))
    before = [{RENAMED_COLUMNS.get(column, column): value for column, value in row.items()} for row in before]
    if len(before) != len(after):
        return f"{len(before)} log rows became {len(after)}"
    for row, now in zip(before, after, strict=True):
        if row.keys() != now.keys():
            return f"columns {sorted(row.keys() ^ now.keys())} of the log at step {row['step']}"
        for column in row:
            a, b = np.array([row[column], now[column]], dtype=float)
            if not (a == b or (np.isnan(a) and np.isnan(b)) or abs(a - b) <= tolerance * max(1.0, abs(a))):
                return f"{column} at step {row['step']}: {a!r} became {b!r}"
    return ""


if __name__ == "__main__":
    main()
