"""Which back end of OpenGL draws frames here, found out in a process that may fail at it."""

import os
import subprocess
from functools import cache

from mico.control_suite.children import launch

_BACK_ENDS = ("egl", "osmesa")
_PATIENCE = 60.0  # seconds


def back_end() -> str:
    """The one in MUJOCO_GL, or the first that works; an OSError if none does."""
    chosen = os.environ.get("MUJOCO_GL")
    return _first_working((chosen,) if chosen else _BACK_ENDS)


@cache
def _first_working(candidates: tuple[str, ...]) -> str:
    troubles = []
    for name in candidates:
        trouble = _trouble(name)
        if trouble is None:
            return name
        troubles.append(f"MUJOCO_GL={name}: {trouble}")
    others = "" if candidates == _BACK_ENDS else f"unset MUJOCO_GL, so that {' and '.join(_BACK_ENDS)} are tried, "
    raise OSError(
        f"observation 'pixels' needs OpenGL, which does not work here: {others}install it (apt-get install libegl1 "
        "libgl1-mesa-dri libopengl0, or libosmesa6), or choose observation 'state', which needs none "
        f"({'; '.join(troubles)})"
    )


def _trouble(name: str) -> str | None:
    """Why nothing can be drawn with it, if so."""
    process = launch(__name__, opengl=name, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, said = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"no frame within {_PATIENCE:g} seconds"
    if process.returncode == 0:
        return None
    return said.strip().rpartition("\n")[2] or f"exit code {process.returncode}"


def main() -> None:
    """Draws something."""
    from mico.control_suite import suite

    suite.draw_nothing()


if __name__ == "__main__":
    main()
