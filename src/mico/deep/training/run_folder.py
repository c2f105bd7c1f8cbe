"""What a fleet leaves on disk: OUT/fleet.json and timing.jsonl, and for each run its configuration and log."""

import hashlib
import json
import subprocess
import time as clock
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

import jax

from mico._checks import check_plain_name
from mico.deep.config.run import Label, Run, complete, describe, varied
from mico.deep.fields import flatten
from mico.deep.training.weights import parameter_files
from mico.runs.files import check_no_link, check_regular, make_subfolder, read_regular, touch, write_json
from mico.runs.lock import LOCK_FILE
from mico.runs.log import Log, TensorBoard

_ARCHIVED = "$Format:%H$"  # which `git archive` replaces by the commit
PROBLEM_FOLDER = "problem"  # with the file of an MDP that was given as an object
_FLEET_FILES = ("checkpoints", "fleet.json", PROBLEM_FOLDER, "timing.jsonl", LOCK_FILE)
_FOLDERS = ("params", "tensorboard")  # of each run
_PACKAGES = ("mico-rl", "jax", "jaxlib", "equinox", "optax", "numpy")
_PACKAGES += ("gymnasium", "gymnax", "ale-py", "dm-control", "mujoco")


class Kept(NamedTuple):
    """What a fleet keeps for good beside its runs: labels, if any were given, and how many runs each part has."""

    labels: Sequence[Label] = ()
    parts: Sequence[int] = ()

    def described(self) -> dict[str, Any]:
        """As fleet.json holds it, if there is anything to hold."""
        labels = {"labels": [label._asdict() for label in self.labels]} if self.labels else {}
        return labels | ({"parts": [*self.parts]} if len(self.parts) > 1 else {})


_NOTHING = Kept()


class Outputs:
    """The folder of a fleet, new, or with the same runs in it, whose files stay as they are until `go_back`."""

    def __init__(self, out: Path, runs: Mapping[str, Run], steps: int, *, resume: bool, kept: Kept = _NOTHING):
        self.names = list(runs)
        check_run_names(self.names, "names of runs")
        self.folders = [out / name for name in runs]
        _check_links(out, self.folders)
        described = [describe(run) for run in runs.values()]
        found = fleet_in(out, resume=resume)
        if found is not None:
            _check_same(found, self.names, described, steps)
        self._out, self._starts = out, [_starts(folder) for folder in self.folders]
        self._fleet = {"runs": self.names, "steps": steps, "settings": described} | kept.described()
        own = map(Label, self.names, described, varied([*runs.values()]))
        self._configs = [
            _about(label, one) | {"steps": steps} for label, one in zip(kept.labels or own, described, strict=True)
        ]
        if found is None:
            self._write_descriptions()
        self._logs = [Log(folder / "log.jsonl") for folder in self.folders]
        self._boards: list[TensorBoard] = []
        self._timing = Log(out / "timing.jsonl")
        self._start = self._last = clock.monotonic()
        self._last_step = 0

    def _write_descriptions(self) -> None:
        """fleet.json, and for each run a folder with its configuration and a log."""
        write_json(self._out / "fleet.json", self._fleet)
        for folder, config, starts in zip(self.folders, self._configs, self._starts, strict=True):
            make_subfolder(self._out, folder.name)
            write_json(folder / "config.json", config | {"starts": starts})
            touch(folder / "log.jsonl")

    def check_nothing_learnt(self) -> None:
        """Refuse to start from step 0 where runs left rows or parameters behind, which would be overwritten."""
        rows = [log.path for log in self._logs if log.position]
        params = [file for folder in self.folders for file in parameter_files(folder).values()]
        if rows or params:
            there = " and ".join(name for name, files in (("rows", rows), ("parameters", params)) if files)
            raise ValueError(
                f"{self._out} has {there} (such as {(params or rows)[0].relative_to(self._out)}), but no checkpoint"
                " to resume from: restore its checkpoints, or train in another folder"
            )

    def check_logs(self, step: int, positions: Sequence[int], digests: Sequence[str] | None) -> None:
        """Refuse logs that are not as the checkpoint of a step left them, save for what was written since then.

        Checkpoints from before digests were kept have none.
        """
        for index, (log, position) in enumerate(zip(self._logs, positions, strict=True)):
            kept = log.path.read_bytes()[:position] if log.position else b""
            if len(kept) < position or not kept.endswith(b"\n" * (position > 0)):
                found = f"has {log.position}" if log.path.exists() else "is missing"
                raise ValueError(
                    f"{log.path} is damaged: at step {step} it had {position} bytes, the last of which ended a row,"
                    f" and now it {found}; restore the log, or train in another folder"
                )
            if digests is not None and hashlib.sha256(kept).hexdigest() != digests[index]:
                raise ValueError(
                    f"{log.path} was edited: its first {position} bytes are not those of the checkpoint at step {step};"
                    " restore the log, or train in another folder"
                )

    def go_back(self, step: int, positions: Sequence[int], *, tensorboard: bool) -> None:
        """To where a checkpoint left the logs; what follows is written from there on, and by whom is written down."""
        origin = {"step": step} | _origin()
        self._starts = [[*before, origin] for before in self._starts]
        self._write_descriptions()
        for log, position in zip(self._logs, positions, strict=True):
            log.cut(position)
        if tensorboard:
            self._boards = [TensorBoard(folder / "tensorboard", step) for folder in self.folders]
        if self._timing.position:  # it is never cut, save for half a row that a killed process left
            self._timing.cut(self._timing.path.read_bytes().rfind(b"\n") + 1)
        self._last_step = step

    def append(self, step: int, rows: Mapping[int, dict[str, Any]]) -> None:
        """A row for each of the runs that have one, and what time it is."""
        for index, row in rows.items():
            self._logs[index].append([row])
            for board in self._boards[index : index + 1]:
                board.append([row])
        now = clock.monotonic()
        pace = len(self.names) * (step - self._last_step) / max(now - self._last, 1e-9)
        spent = now - self._start
        self._timing.append([{"step": step, "time": clock.time(), "seconds": spent, "steps_per_second": pace}])
        self._last, self._last_step = now, step

    def positions(self) -> list[int]:
        """Where each log ends, once all of it is on the disk."""
        for log in (*self._logs, *self._boards):
            log.sync()
        return [log.position for log in self._logs]

    def digests(self) -> list[str]:
        """The digest of each log, as far as it goes."""
        return [hashlib.sha256(log.path.read_bytes()).hexdigest() for log in self._logs]

    def close(self) -> None:
        for board in self._boards:
            board.close()


def fleet_in(out: Path, *, resume: bool) -> dict[str, Any] | None:
    """Read the fleet.json of a folder that is to be written, and refuse folders that hold anything else.

    Args:
        out: A folder, or where one is to be made.
        resume: Whether runs that are there may be continued.

    Returns:
        What fleet.json says, or None where there is nothing yet.

    Raises:
        ValueError: If the folder has runs and `resume` is false, or fleet.json is damaged or has names that are no
            plain names, or there are other files and no runs.
    """
    file = out / "fleet.json"
    if file.is_file():
        if not resume:
            raise ValueError(
                f"{out} already contains runs: resume (--resume, or resume=True in Python) to continue them, or choose"
                " another folder as out"
            )
        found = _read_json(file)
        _check_fleet(found, file)
        return found
    others = (
        [entry.name for entry in out.iterdir() if entry.name not in (LOCK_FILE, PROBLEM_FOLDER)] if out.is_dir() else []
    )
    if any(not name.startswith(".fleet.json") for name in others):
        raise ValueError(f"{out} is not empty and contains no runs, but {min(others)}: choose another folder as out")
    return None


def kept_in(out: Path, *, resume: bool) -> Kept:
    """Read what the fleet in a folder keeps for good; nothing in a folder that is new.

    Args:
        out: A folder, or where one is to be made.
        resume: Whether runs that are there may be continued.

    Raises:
        ValueError: As `fleet_in` does.
    """
    found = fleet_in(out, resume=resume) or {}
    one = [len(found["runs"])] if found else []  # which fleet.json does not tell
    return Kept([Label(**label) for label in found.get("labels", [])], found.get("parts", one))


def check_run_names(names: Sequence[Any], what: str) -> None:
    """Refuse names of runs that cannot be folders of their own inside that of a fleet.

    Args:
        names: The names, as they were read.
        what: What they are, with their file.

    Raises:
        ValueError: If a name is not plain, is that of a file of the fleet, or comes twice.
    """
    for index, name in enumerate(names):
        check_plain_name(name, f"{what}[{index}]")
        if name in _FLEET_FILES:
            raise ValueError(f"{what}[{index}] must not be {name!r}, which is a file of the fleet")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{what} must differ, but {twice!r} is there twice")


def _check_links(out: Path, folders: Sequence[Path]) -> None:
    """Refuse links where a training writes, before it writes anything; files that are replaced whole may be links."""
    for path in (out / "checkpoints", *folders, *(folder / name for folder in folders for name in _FOLDERS)):
        check_no_link(path)
    for path in (out / "checkpoints" / "none-yet", out / "timing.jsonl", *(folder / "log.jsonl" for folder in folders)):
        check_regular(path)


def _read_json(file: Path) -> Any:
    try:
        return json.loads(read_regular(file))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON: {error}") from error


def _check_fleet(found: Any, file: Path) -> None:
    """Refuse what does not describe a fleet: its names become folders, and its settings configurations."""
    wrong = f"{file} does not describe a fleet"
    match found:
        case {"runs": [_, *_] as names, "settings": [*settings], "steps": int(steps)} if not isinstance(steps, bool):
            pass
        case _:
            raise ValueError(f"{wrong}: it needs runs, as many settings, and steps")
    labels, parts = found.get("labels", []), found.get("parts", [len(names)])
    if len(settings) != len(names):
        raise ValueError(f"{wrong}: it has {len(names)} runs, but {len(settings)} settings")
    if not isinstance(labels, list) or len(labels) not in (0, len(names)):
        raise ValueError(f"{wrong}: labels must be a list with one for each run")
    if not isinstance(parts, list) or any(type(size) is not int or size < 1 for size in parts):
        raise ValueError(f"{wrong}: parts must be a list of whole numbers, got {parts!r}")
    if sum(parts) != len(names):
        raise ValueError(f"{wrong}: parts must add up to {len(names)} runs, got {parts!r}")
    check_run_names(names, f"{file}: runs")
    for index, one in enumerate(settings):
        _check_settings(one, f"{wrong}: settings[{index}]")
    for index, label in enumerate(labels):
        if not isinstance(label, dict) or {*label} != {*Label._fields} or not isinstance(label["varied"], dict):
            raise ValueError(f"{wrong}: labels[{index}] must have a name, settings and varied fields")
        _check_settings(label["settings"], f"{wrong}: labels[{index}].settings")
    check_run_names([label["name"] for label in labels], f"{file}: names of labels")


def _check_settings(settings: Any, what: str) -> None:
    """Refuse settings whose parts are not those of a run; what is in the parts is compared with the runs given."""
    if not isinstance(settings, dict):
        raise ValueError(f"{what} must be an object, got {settings!r}")
    for part in ("agent", "metric", "env", "network", "replay", "schedule"):
        own = settings.get(part, {} if part == "schedule" else ...)  # settings from before the schedule have none
        if isinstance(own, dict) or (part == "metric" and own is None):
            continue
        raise ValueError(f"{what}.{part} must be an object, got {'nothing' if own is ... else repr(own)}")
    for part in ("agent", "metric"):
        if settings[part] is not None:
            check_plain_name(settings[part].get("name"), f"{what}.{part}.name")
    for name, kind in (("name", str), ("path", str | NoneType)):
        if not isinstance(settings["env"].get(name), kind):
            raise ValueError(f"{what}.env.{name} must be text, got {settings['env'].get(name)!r}")
    if type(settings.get("seed")) is not int:
        raise ValueError(f"{what}.seed must be a whole number, got {settings.get('seed')!r}")


def _check_same(found: dict[str, Any], names: list[str], described: list[dict[str, Any]], steps: int) -> None:
    """Refuse settings other than those the folder was made with; more steps are allowed."""
    before = {name: flatten(complete(one)) for name, one in zip(found["runs"], found["settings"], strict=True)}
    if len(before) != len(names):
        raise ValueError(f"runs must be those of the folder, {', '.join(before)}, got {len(names)} runs")
    for (name, old), new in zip(before.items(), map(flatten, described), strict=True):
        aside = "env.path" if "env.digest" in old else "env.digest"  # what is in a file counts, wherever it lies
        for field in dict.fromkeys([*old, *new]):
            was, now = old.get(field), json.loads(json.dumps(new.get(field)))
            if was == now or field == aside:
                continue
            if field == "env.digest":
                other = f"which does not hold what the run here was made with: {old.get('env.path')!r} as it was then"
                raise ValueError(f"env.path of {name} is {new.get('env.path')!r}, {other}")
            raise ValueError(f"{field} of {name} is {now!r}, but the run here was made with {was!r}")
    if [*before] != names:
        raise ValueError(f"the runs here are called {', '.join(before)}, not {', '.join(names)}")
    if steps < found["steps"]:
        raise ValueError(f"steps is {steps}, but the runs here were made for {found['steps']}")


def _starts(folder: Path) -> list[dict[str, Any]]:
    """What config.json says of earlier starts, if there were any."""
    file = folder / "config.json"
    if not file.exists():
        return []
    config = _read_json(file)
    if not isinstance(config, dict) or not isinstance(config.get("starts"), list):
        raise ValueError(f"{file} is not the configuration of a run: it has no list of starts")
    return config["starts"]


def _about(label: Label, described: dict[str, Any]) -> dict[str, Any]:
    """What every row of a run's log has in common, and all of its settings; also what it was computed as, if not so."""
    name, shown, own = label
    metric = None if shown["metric"] is None else shown["metric"]["name"]
    short = {"run": name, "agent": shown["agent"]["name"], "metric": metric, "env": shown["env"]["name"]}
    other = {part: value for part, value in described.items() if value != shown[part]}
    about = short | {"seed": shown["seed"], "varied": own, "settings": shown}
    return about | ({"computed_as": other} if other else {})


def _origin() -> dict[str, Any]:
    """What the numbers may depend on beside the settings."""
    device = jax.devices()[0]
    return {
        "versions": {name: _version(name) for name in _PACKAGES},
        "commit": _commit(),
        "device": f"{device.platform}: {device.device_kind}",
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the source tree or archive this file lies in, if it does; marked where a tree differs from it."""
    root = Path(__file__).parents[4]
    if not (root / ".git").exists():
        return None if _ARCHIVED.startswith("$") else _ARCHIVED
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        asked = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() or None
