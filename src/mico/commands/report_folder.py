"""OUT of a report: the files that it made are listed in report.json, and nothing else is touched."""

import json
from pathlib import Path
from types import TracebackType

from mico.results.folders import writable, write_json

_LIST = "report.json"
_OURS = ("lock", _LIST)


class ReportFolder:
    """A new or empty folder, or that of an earlier report, whose files go once all of this one's are there."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._made: list[str] = []
        self._before = _listed(out)
        writable(out)
        if not (out / _LIST).exists():
            write_json(out / _LIST, {"files": []})

    def path(self, name: str) -> Path:
        """Where a file of the report goes, its folder made; one that is another's is refused."""
        path = self.out / name
        if path.exists() and name not in self._before:
            raise ValueError(f"{path} is there already, and no earlier report has made it")
        writable(path.parent)
        self._made.append(name)
        write_json(self.out / _LIST, {"files": [*dict.fromkeys([*self._before, *self._made])]})
        return path

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
        write_json(self.out / _LIST, {"files": self._made})


def _listed(out: Path) -> list[str]:
    """The files of an earlier report; any other folder that holds something is refused."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"out {str(out)!r} is a file: a report needs a folder")
    if not (out / _LIST).exists():
        others = sorted(entry.name for entry in out.iterdir() if entry.name not in _OURS) if out.is_dir() else []
        if others:
            raise ValueError(f"out {str(out)!r} holds other things than a report, such as {others[0]}")
        return []
    try:
        names = json.loads((out / _LIST).read_bytes())["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{out / _LIST} does not list a report's files: {error!r}") from error
    inside = out.resolve()
    for name in names:
        if not isinstance(name, str) or inside not in (inside / name).resolve().parents:
            raise ValueError(f"{out / _LIST} lists {name!r}, which is not in the folder")
    return names
