"""OUT of a report: the files that it made are listed in report.json, and nothing else is touched."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from mico.runs.files import make_subfolder, read_regular, writable, write_json

_LIST = "report.json"
_OURS = ("lock", _LIST)


class ReportFolder:
    """A new or empty folder, or that of an earlier report, whose files go once all of this one's are there.

    report.json lists the files, and beside them what the report was asked for (`options`).
    """

    def __init__(self, out: Path, options: Mapping[str, Any]) -> None:
        self.out = out
        self._options = dict(options)
        self._made: list[str] = []
        self._before = _listed(out)
        writable(out)
        if not (out / _LIST).exists():
            self._list([])

    def path(self, name: str) -> Path:
        """The path of a file of the report, whose folder is made; a file that no report made is not replaced."""
        path = self.out / name
        if path.exists() and name not in self._before:
            raise ValueError(f"{path} is there already, and no earlier report has made it")
        make_subfolder(self.out, *path.relative_to(self.out).parent.parts)
        self._made.append(name)
        self._list([*dict.fromkeys([*self._before, *self._made])])
        return path

    def _list(self, files: list[str]) -> None:
        write_json(self.out / _LIST, {"files": files, "options": self._options})

    def __enter__(self) -> "ReportFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        for name in self._before:
            if name not in self._made:
                (self.out / name).unlink(missing_ok=True)
        self._list(self._made)


def _listed(out: Path) -> list[str]:
    """The files of an earlier report; any other folder that holds something is refused."""
    if not (out / _LIST).exists():
        others = sorted(entry.name for entry in out.iterdir() if entry.name not in _OURS) if out.is_dir() else []
        if others:
            raise ValueError(f"out {str(out)!r} holds other things than a report, such as {others[0]}")
        return []
    try:
        names = json.loads(read_regular(out / _LIST))["files"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{out / _LIST} does not list a report's files: {error!r}") from error
    inside = out.resolve()
    for name in names:
        if not isinstance(name, str) or inside not in (inside / name).resolve().parents:
            raise ValueError(f"{out / _LIST} lists {name!r}, which is not in the folder")
    return names
