"""How much host memory may still be taken."""

from pathlib import Path

_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def available() -> int:
    """Bytes that the system and the limits on this process leave; 0 where the system does not say."""
    if not _SYSTEM.exists():
        return 0
    lines = (line.split() for line in _SYSTEM.read_text().splitlines())
    system = next((int(line[1]) * 1024 for line in lines if line[0] == "MemAvailable:"), 0)
    return max(0, min([system, *_limits()]))


def _limits() -> list[int]:
    """What each control group (version 2) around this process, a container's or a job's, still leaves."""
    lines = _GROUP.read_text().splitlines() if _GROUP.exists() else []
    own = [_GROUPS / line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
    folders = [folder for path in own for folder in (path, *path.parents)]
    return [_left(folder) for folder in folders if _limited(folder)]


def _limited(folder: Path) -> bool:
    limit = folder / "memory.max"
    return limit.exists() and limit.read_text().strip() != "max"


def _left(folder: Path) -> int:
    limit, used = (int((folder / name).read_text()) for name in ("memory.max", "memory.current"))
    fields = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    return limit - used + int(fields["inactive_file"])  # files that nobody is using give way, as in MemAvailable
