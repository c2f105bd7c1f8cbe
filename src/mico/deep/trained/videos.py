"""Pictures as a video: a gif, or an mp4 if there is an encoder."""

import errno
import itertools
import math
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, cast

from PIL import Image

from mico._checks import install_hint
from mico.runs.files import writable, write_whole

SUFFIXES = (".gif", ".mp4")
_SLOWEST, _FASTEST = 0.1, 50.0  # gifs count hundredths of a second, and browsers slow down those of a single one
_LOOKS = 64  # pictures whose colours are counted
_CELL = 4  # levels of red, green and blue that Pillow does not tell apart where it looks for the nearest colour
_EXACT = 192  # of the 256 colours of a gif, those that stay what they are; the others stand for all the rest

_Colour = tuple[int, ...]


def check_video(path: Path, *, fps: float) -> None:
    """A ValueError or an OSError, before any work is spent, if no video could be written there; makes nothing."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"out must end in {' or '.join(SUFFIXES)}, but is {path}")
    if not _SLOWEST <= fps <= _FASTEST:
        raise ValueError(f"fps must lie in [{_SLOWEST:g}, {_FASTEST:g}], but is {fps:g}")
    if path.suffix.lower() == ".mp4":
        _encoder()
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    near = next(parent for parent in path.absolute().parents if parent.exists())
    if not near.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(near))
    if not os.access(near, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "cannot be written to", str(near))


def write_video(path: Path, images: Sequence[Image.Image], *, fps: float) -> None:
    """Write a video whole, by its suffix; images of one size, which may be painted when they are asked for."""
    if not images:
        raise ValueError("images must not be empty")
    check_video(path, fps=fps)
    data = (_gif if path.suffix.lower() == ".gif" else _mp4)(images, fps)
    write_whole(writable(path.parent, "the folder of out") / path.name, data)


def _gif(images: Sequence[Image.Image], fps: float) -> bytes:
    """With one palette for all, so that a colour stays the same; durations add up to what fps says."""
    indexed = _indexed(images, _colours(images))
    ends = [round(100 * (count + 1) / fps) for count in range(len(images))]
    durations = [10 * (end - start) for start, end in itertools.pairwise([0, *ends])]
    data = BytesIO()
    every = {"save_all": True, "append_images": indexed, "duration": durations}
    next(indexed).save(data, "GIF", **every, loop=0, optimize=True, disposal=1)
    return data.getvalue()


def _indexed(images: Iterable[Image.Image], colours: list[_Colour]) -> Iterator[Image.Image]:
    """In the nearest of the colours, by the lower corners of the cells that Pillow takes colours together in."""
    corners = Image.new("P", (1, 1))
    corners.putpalette([level // _CELL * _CELL for colour in colours for level in colour])
    for image in images:
        found = image.quantize(palette=corners, dither=Image.Dither.NONE)
        found.putpalette([level for colour in colours for level in colour])
        yield found


def _colours(images: Sequence[Image.Image]) -> list[_Colour]:
    """The most frequent colours of pictures all along, one a cell, and a few for all the others."""
    counts: Counter[Any] = Counter()
    for index in range(0, len(images), math.ceil(len(images) / _LOOKS)):
        image = images[index]
        counts.update({colour: count for count, colour in image.getcolors(image.width * image.height) or ()})
    cells: dict[_Colour, _Colour] = {}
    for colour, _ in counts.most_common():
        cells.setdefault(tuple(level // _CELL for level in colour), colour)
    found = list(cells.values())
    if len(found) <= 255:
        return found
    row = Image.new("RGB", (len(found) - _EXACT, 1))
    row.putdata(found[_EXACT:])
    levels = row.quantize(255 - _EXACT, method=Image.Quantize.MEDIANCUT).getpalette() or []
    return found[:_EXACT] + [tuple(levels[start : start + 3]) for start in range(0, len(levels), 3)]


def _mp4(images: Sequence[Image.Image], fps: float) -> bytes:
    """H.264 that every player takes, which needs even sizes: an odd one loses its last line."""
    width, height = (2 * (side // 2) for side in images[0].size)
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}", "-i", "-"]
    coded = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18", "-movflags", "+faststart"]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "video.mp4"
        # imageio-ffmpeg's own writer forks, which a process with JAX's threads must not.
        command = [_encoder(), "-loglevel", "error", *raw, *coded, str(file)]
        with suppress(BrokenPipeError), subprocess.Popen(command, stdin=subprocess.PIPE) as encoder:  # its code tells
            stream = cast(IO[bytes], encoder.stdin)
            for image in images:
                stream.write(image.crop((0, 0, width, height)).tobytes())
        if encoder.returncode:
            raise OSError(f"the encoder of mp4 failed with exit code {encoder.returncode}")
        return file.read_bytes()


def _encoder() -> str:
    """The path of ffmpeg, which encodes mp4 videos."""
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"mp4 needs: {install_hint('video')}; a gif needs nothing") from error
    return get_ffmpeg_exe()
