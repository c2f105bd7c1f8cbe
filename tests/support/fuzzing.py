"""Inputs that strangers may give, made from a number each, and what has to come of them: an answer or one line.

    python tests/support/fuzzing.py --first 0 --count 5000 [--kinds csv toml ...]

Input N is the same every time: what fails is repeated by `--first N --count 1`.
"""

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from fuzz_shapes import CELLS, DEEP, VALUES, mutate_bytes, mutate_file, odd_array
from mico import cli
from mico.cli.report_again import commands
from mico.deep import load as load_run
from mico.deep.training.checkpoints import Checkpoints
from mico.deep.training.run_folder import kept_in
from mico.evidence.study import Choices, study
from mico.runs.archive import condense, read, write
from mico.runs.folder import run_folders
from mico.runs.sources import read_sources
from mico.sweeps.files import entries
from mico.sweeps.grid import cells, make_sweep
from mico.sweeps.manifest import Limits, planned, read_manifest, write_manifest
from mico.sweeps.status import read_status
from mico.tabular import MDP, Chain, Problem, load, save, solve
from mico.tabular.outcomes import Outcomes
from mico.tabular.policies import action_values, policy_array

SECONDS = 20  # that an input may take: the longest take less than one
REFUSALS = (ValueError, OSError, MemoryError, ModuleNotFoundError)  # which the command line says in a line
_ENDS = (0, 2)  # exit codes of an answer, and of a line


class HangError(BaseException):
    """An input took too long."""


class WrittenOutsideError(BaseException):
    """Something appeared or changed beside the folder of an input."""


class Fuzzer:
    """The kinds of inputs, each a method that makes one from a random generator and gives it to the code."""

    def __init__(self, root):
        self.root, self.work, self.victim = root, root / "work", root / "victim"
        self.samples = root / "samples"
        self.victim.mkdir(parents=True)
        (self.victim / "thesis.tex").write_text("years of work\n")
        self._make_samples()
        self.before = self._seen()

    def _make_samples(self):
        from small_sweeps import FIELDS, small_sweep
        from trainings import FLAGS
        from written_runs import write_fleet

        self.samples.mkdir()
        flags = "--env mdp/two-state --agent dqn --metric mico --seeds 0 1 --steps 80"
        self._quietly(["train", *flags.split(), *FLAGS, "--out", str(self.samples / "trained")])
        for metric in (None, "mico"):
            write_fleet(
                self.samples / "written" / str(metric), (0, 1), lambda seed: [1.0, 2.0 + seed, 5.0], metric=metric
            )
        write(condense(self.samples / "written", points=2), self.samples / "archive")
        sweep = small_sweep(env=["mdp/two-state"])
        (self.samples / "sweep").mkdir()
        write_manifest(self.samples / "sweep", sweep, planned(sweep, self.samples / "sweep", Limits(None, 2)))
        self.toml = {"steps": 400, "env": "mdp/two-state", "agent": "dqn", "metric": ["none", "mico"], "seeds": [0, 1]}
        self.toml_fields = {name.replace("_", "-"): values[0] for name, values in FIELDS.items()}
        rng = np.random.default_rng(0)
        mdp = MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.normal(size=(3, 2)), 0.9)
        for ending in ("npz", "json"):
            save(self.samples / f"problem.{ending}", Problem(mdp))

    @staticmethod
    def _quietly(argv):
        """Run a command; its exit code and what it printed."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                cli.main(argv)
                code = 0
            except SystemExit as stop:
                code = stop.code
        return code, out.getvalue()

    def command(self, *argv):
        """A command must end with an answer or with a line, and print nothing that a terminal obeys."""
        code, printed = self._quietly([*map(str, argv)])
        if code not in _ENDS:
            raise AssertionError(f"exit code {code!r}: {printed[-300:]}")
        if any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in printed.replace("\n", "")):
            raise AssertionError(f"control characters: {printed[-300:]!r}")

    def copy(self, name):
        return shutil.copytree(self.samples / name, self.work / name)

    # Kinds of inputs

    def constructor(self, rng):
        count, actions = rng.choice([1, 2, 3]), rng.choice([1, 2])
        numbers = np.random.default_rng(rng.randrange(2**32))
        given = [numbers.dirichlet(np.ones(count), (count, actions)), numbers.normal(size=(count, actions)), 0.9]
        given[rng.randrange(3)] = odd_array(rng, numbers, given[rng.randrange(2)])
        match rng.randrange(4):
            case 0:
                mdp = MDP(*given)
                solve(rng.choice(["mico", "reward-law"]), mdp, "uniform", tolerance=1e-3)
            case 1:
                Chain(
                    given[0][:, 0]
                    if isinstance(given[0], np.ndarray) and given[0].ndim == 3 and given[0].shape[1]
                    else given[0],
                    *given[1:],
                )
            case 2:
                mdp = MDP(numbers.dirichlet(np.ones(2), (2, 2)), numbers.normal(size=(2, 2)), 0.9)
                policy_array(odd_array(rng, numbers, np.full((2, 2), 0.5)), mdp)
                action_values(mdp, odd_array(rng, numbers, np.ones(2)))
            case _:
                columns = [[0, 1], [0, 0], [1, 0], [1.0, 1.0], [0.0, 1.0]]
                columns[rng.randrange(5)] = rng.choice([*VALUES[:20], [0], [-1, 5], [10**30, 0], ["a", "b"], [None, 1]])
                sizes = [2, 1, 0.9]
                if rng.random() < 0.5:
                    sizes[rng.randrange(3)] = rng.choice([*VALUES, 10**12])
                MDP.from_outcomes(Outcomes(*columns), *sizes)

    def problem(self, rng):
        path = self.work / f"problem.{rng.choice(['npz', 'json'])}"
        path.write_bytes((self.samples / path.name).read_bytes())
        if path.suffix == ".npz" and rng.random() < 0.6:
            with np.load(path) as found:
                fields = dict(found)
            name = rng.choice([*fields])
            fields[name] = odd_array(rng, np.random.default_rng(rng.randrange(2**32)), np.atleast_1d(fields[name]))
            with contextlib.suppress(ValueError, TypeError, OverflowError):  # what NumPy itself cannot store
                np.savez(path, **{key: np.asarray(value) for key, value in fields.items()})
        else:
            mutate_file(rng, path, self.victim, pipes=False)  # a user may name one, and wait for it
        if rng.random() < 0.03:
            self.command("metric", path, "--metric", "mico", "--out", self.work / "out")
        else:
            load(path)

    def csv(self, rng):
        head = [
            "agent",
            "env",
            "seed",
            "step",
            "score",
            *rng.sample(["metric", "episodes", "metric.alpha"], rng.randrange(3)),
        ]
        rows = [
            [rng.choice("ab"), rng.choice("ef"), str(seed), str(10 * step), str(rng.random()), "0", "1"][: len(head)]
            for seed in range(2)
            for step in range(1, 4)
        ]
        for _ in range(rng.choice([1, 1, 2, 4])):
            table = rng.choice([[head], rows, rows, rows])
            row = rng.choice(table)
            row[rng.randrange(len(row))] = rng.choice(CELLS)
        text = "\n".join(",".join(row) for row in [head, *rows]) + "\n"
        data = text.encode("utf-8", "surrogatepass")
        path = self.work / "theirs.csv"
        path.write_bytes(mutate_bytes(rng, data) if rng.random() < 0.2 else data)
        self.report(rng, path)

    def report(self, rng, *sources):
        """A study of the sources, and sometimes the whole page, with or without its figures."""
        if rng.random() < 0.01:
            self.command("report", *sources, "--resamples", "50", "--out", self.work / "report")
            return
        found = read_sources(sources)
        list(commands(found.records))
        if rng.random() < 0.1:
            study(found, Choices(None, None, last=5, step=None, points=20, resamples=50, seed=0))

    def folder(self, rng):
        """Folders of runs, written or trained, read by everything that reads them."""
        name = rng.choice(["written", "written", "trained"])
        folder = self.copy(name)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        for path in rng.sample(files, rng.choice([1, 1, 2])):
            mutate_file(rng, path, self.victim)
        match rng.randrange(5):
            case 0:
                self.report(rng, folder)
            case 1:
                write(condense(folder, points=2), self.work / "small")
            case 2:
                kept_in(folder if name == "trained" else folder / "mico", resume=True)
            case 3:
                run_folders(folder)
                runs = [path.parent for path in folder.rglob("params")] or [folder / "mico/run-seed0"]
                load_run(rng.choice(runs))
            case _ if name == "trained":
                Checkpoints(folder / "checkpoints").restore({"state": np.zeros(1)})
            case _:
                self.report(rng, folder)

    def resume(self, rng):
        """A training that is continued where something is a link, or is not what it was."""
        from trainings import FLAGS

        folder = self.copy("trained")
        every = sorted(path for path in folder.rglob("*"))
        path = rng.choice(every)
        if rng.random() < 0.6 or path.is_dir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            path.symlink_to(rng.choice([self.victim, self.victim / "thesis.tex", self.victim / "none", path]))
        else:
            mutate_file(rng, path, self.victim)
        flags = "--env mdp/two-state --agent dqn --metric mico --seeds 0 1 --steps 80 --resume"
        self.command("train", *flags.split(), *FLAGS, "--out", folder)

    def archive(self, rng):
        folder = self.copy("archive")
        mutate_file(rng, rng.choice(sorted(path for path in folder.iterdir())), self.victim)
        if rng.random() < 0.5:
            write(read(folder), self.work / "again")
        else:
            self.report(rng, folder)

    def sweep(self, rng):
        """A TOML file, the manifest of a sweep, or the states of its fleets."""
        match rng.randrange(3):
            case 0:
                path = self.work / "theirs.toml"
                path.write_text(self._toml(rng), errors="surrogateescape" if rng.random() < 0.1 else "replace")
                if rng.random() < 0.02:
                    self.command("sweep", path, "--dry-run")
                else:
                    for cell in cells(make_sweep(entries(str(path))))[:4]:
                        _ = cell.shape
            case 1:
                folder = self.copy("sweep")
                mutate_file(rng, folder / "sweep.json", self.victim)
                if rng.random() < 0.02:
                    self.command("sweep", folder / "sweep.json", "--dry-run")
                else:
                    read_manifest(folder / "sweep.json")
            case _:
                folder = self.copy("sweep")
                (folder / "status").mkdir()
                file = folder / "status" / "x.json"
                file.write_text(
                    json.dumps({"state": "failed", "step": 1, "returns": [None, 1.0], "error": "e", "details": ""})
                )
                mutate_file(rng, file, self.victim)
                read_status(folder, "x")

    def _toml(self, rng):
        found = dict(self.toml)
        fields = dict(rng.sample(sorted(self.toml_fields.items()), 3))
        for _ in range(rng.choice([1, 1, 2])):
            table = rng.choice([found, fields])
            table[rng.choice([*table, "preset", "x", "fields"])] = rng.choice([*VALUES, "@date", "@literal"])
        lines = [f"{name} = {self._toml_value(rng, value)}" for name, value in found.items() if name.isalnum()]
        lines += ["[fields]", *(f'"{name}" = {self._toml_value(rng, value)}' for name, value in fields.items())]
        return "\n".join(lines) + "\n"

    @staticmethod
    def _toml_value(rng, value):
        if value == "@date":
            return "1979-05-27"
        if value == "@literal":
            return rng.choice(
                ["[" * DEEP + "]" * DEEP, "{a=" * 500 + "1" + "}" * 500, "9" * 400, "inf", "nan", "1e999", "0x7"]
            )
        if isinstance(value, dict):
            return "{" + ", ".join(f'"{name}" = 1' for name in value) + "}"
        return json.dumps(value, ensure_ascii=False) if value is not None else '""'

    def flags(self, rng):
        """Commands with flags that have odd values; those that train end before they do."""
        words = rng.choice(
            [
                "metric two-state --metric mico --discount @ --out OUT",
                "metric @ --out OUT",
                "metric garnet --num-states @ --seed @ --max-states 50 --out OUT",
                "explore two-state --metrics @ --out OUT.html",
                "list @",
                "report @ --out OUT",
                "report ROWS --last @ --resamples 50 --step @ --out OUT",
                "report ROWS --columns @ --title @ --out OUT",
                "collect @ --points @ --out OUT",
                "collect RUNS --points @ --out OUT",
                "evaluate @ --episodes @",
                "watch @ --out OUT",
                "experiment @",
                "sweep @ --dry-run",
                "train --env @ --seeds 0 --steps @ --out ROWS",
                "@ @",
            ]
        )
        path = self.work / "rows.csv"
        path.write_text("agent,env,seed,step,score\na,e,0,1,1\n")
        texts = [value for value in VALUES if isinstance(value, str) and "\0" not in value]
        texts += [str(value) for value in VALUES if isinstance(value, int | float) and abs(value) < 1e300]
        places = {"OUT": str(self.work / "out"), "OUT.html": str(self.work / "out.html"), "ROWS": str(path)}
        places["RUNS"] = str(self.samples / "written")
        argv = [rng.choice(texts) if word == "@" else places.get(word, word) for word in words.split()]
        code, printed = self._quietly(argv)
        if code not in (*_ENDS, None):
            raise AssertionError(f"exit code {code!r}: {printed[-300:]}")

    # Running

    def _seen(self):
        """What lies beside the folder of the inputs, with times and sizes."""
        found = {}
        for top, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if Path(top, name) != self.work]
            for name in files:
                about = os.lstat(os.path.join(top, name))
                found[os.path.join(top, name)] = (about.st_mtime_ns, about.st_size)
        return found

    def run(self, number, kinds):
        """Give the code the input of a number; what it must not do is raised."""
        rng = random.Random(number)
        kind = kinds[number % len(kinds)]
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        signal.signal(signal.SIGALRM, _hang)
        signal.alarm(SECONDS)
        answer = "answer"
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                getattr(self, kind)(rng)
        except REFUSALS:
            answer = "refusal"
        except RecursionError:
            answer = "refusal"  # a line too, if it comes to the command line
        finally:
            signal.alarm(0)
        if self._seen() != self.before:
            raise WrittenOutsideError(f"beside {self.work}")
        return kind, answer


# How often: those that are quick are tried most.
KINDS = (
    8 * ["problem"] + 8 * ["csv"] + 10 * ["folder"] + 8 * ["constructor"] + 6 * ["sweep"] + 3 * ["archive"] + ["flags"]
)
SLOW = ["resume"]


def _hang(number, frame):
    raise HangError(f"more than {SECONDS} seconds")


def fuzz(first, count, kinds=KINDS):
    """Try the inputs of some numbers; what was tried, and the failures with their numbers.

    Args:
        first: The first number.
        count: How many.
        kinds: Kinds of inputs, in turn; one that is there twice is tried twice as often.

    Returns:
        How many inputs of each kind ended how, and a list of (number, kind, traceback).
    """
    counts, failures = Counter(), []
    with tempfile.TemporaryDirectory(prefix="mico-fuzz-") as folder:
        fuzzer = Fuzzer(Path(folder).resolve())
        here = os.getcwd()
        os.chdir(fuzzer.root)
        try:
            for number in range(first, first + count):
                try:
                    counts[fuzzer.run(number, kinds)] += 1
                except KeyboardInterrupt:
                    raise
                except BaseException:
                    failures.append((number, kinds[number % len(kinds)], traceback.format_exc(limit=-6)))
        finally:
            os.chdir(here)
    return counts, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    options = parser.parse_args()
    start = time.monotonic()
    counts, failures = fuzz(options.first, options.count, options.kinds)
    for (kind, answer), count in sorted(counts.items()):
        sys.stdout.write(f"{kind:12} {answer:8} {count:7,}\n")
    for number, kind, trace in failures:
        sys.stdout.write(f"\ninput {number}, {kind}:\n{trace[-2500:]}\n")
    took = time.monotonic() - start
    sys.stdout.write(f"\n{options.count:,} inputs from {options.first}: {len(failures)} failed; {took:.0f} s\n")
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
