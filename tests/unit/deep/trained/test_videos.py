"""Videos read back, by Pillow and by the encoder's own reader."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from mico.deep.trained.videos import check_video, write_video


def pictures(count, size=(20, 12)):
    """Each of its own colour on white."""
    found = []
    for number in range(count):
        image = Image.new("RGB", size, "white")
        image.paste((10 + 20 * number, 255 - 20 * number, 77), (3, 2, 9, 8))
        found.append(image)
    return found


def read(path):
    with Image.open(path) as video:
        frames, durations = [], []
        for index in range(getattr(video, "n_frames", 1)):
            video.seek(index)
            frames.append(np.asarray(video.convert("RGB")))
            durations.append(video.info["duration"])
        return frames, durations, video.info.get("loop")


def test_a_gif_has_every_picture_to_the_pixel(tmp_path):
    images = pictures(9)
    write_video(tmp_path / "video.gif", images, fps=10.0)
    frames, durations, loop = read(tmp_path / "video.gif")
    assert (len(frames), loop) == (9, 0)
    assert durations == [100] * 9
    for frame, image in zip(frames, images, strict=True):
        np.testing.assert_array_equal(frame, np.asarray(image))
    assert os.listdir(tmp_path) == ["video.gif"]


@pytest.mark.parametrize("fps", [7.0, 12.5, 15.0, 24.0, 30.0, 50.0])
def test_durations_add_up_although_gifs_count_hundredths(tmp_path, fps):
    write_video(tmp_path / "video.gif", pictures(10), fps=fps)
    _, durations, _ = read(tmp_path / "video.gif")
    assert sum(durations) == pytest.approx(10_000 / fps, abs=5)
    assert max(durations) - min(durations) <= 10


def test_more_colours_than_a_gif_has_stay_near(tmp_path):
    ramp = np.stack(np.meshgrid(np.arange(0, 256, 4), np.arange(0, 256, 4), [128]), axis=-1)[:, :, 0].astype(np.uint8)
    images = [Image.fromarray(np.roll(ramp, 5 * shift, axis=0)) for shift in range(4)]
    for image in images:
        image.paste("white", (0, 0, 30, 64))
    write_video(tmp_path / "video.gif", images, fps=10.0)
    frames, _, _ = read(tmp_path / "video.gif")
    for frame, image in zip(frames, images, strict=True):
        assert np.abs(frame.astype(int) - np.asarray(image)).mean() < 12
        assert (frame[:, :30] == 255).all()


def test_large_areas_keep_their_colours_beside_others_almost_like_them(tmp_path):
    image = Image.new("RGB", (40, 40), "white")
    image.paste((213, 94, 0), (0, 20, 40, 40))
    for level in range(10):
        image.paste((255 - level,) * 3, (level, 0, level + 1, 1))
        image.paste((215 - level, 95 - level, 1), (level, 39, level + 1, 40))
    write_video(tmp_path / "video.gif", [image], fps=10.0)
    (frame,), _, _ = read(tmp_path / "video.gif")
    np.testing.assert_array_equal(frame[1:39], np.asarray(image)[1:39])


@pytest.mark.parametrize("size", [(64, 48), (65, 49)])
def test_an_mp4_has_every_picture(tmp_path, size):
    reader = pytest.importorskip("imageio_ffmpeg")
    images = [image.resize(size, Image.Resampling.NEAREST) for image in pictures(9)]
    write_video(tmp_path / "video.mp4", images, fps=12.0)
    assert reader.count_frames_and_secs(tmp_path / "video.mp4") == (9, 0.75)
    command = [reader.get_ffmpeg_exe(), "-i", tmp_path / "video.mp4", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    decoded = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert b"Video: h264" in decoded.stderr
    found = np.frombuffer(decoded.stdout, np.uint8).reshape(9, 48, 64, 3)
    for frame, image in zip(found, images, strict=True):
        assert np.abs(frame.astype(int) - np.asarray(image)[:48, :64]).mean() < 12
    assert os.listdir(tmp_path) == ["video.mp4"]


def test_without_an_encoder_mp4_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"mp4 needs: pip install '\.\[video\]' in a clone of mico-rl; a gif needs nothing",
    ):
        check_video(tmp_path / "video.mp4", fps=10.0)
    check_video(tmp_path / "video.gif", fps=10.0)


def test_an_encoder_that_fails_leaves_nothing(tmp_path, monkeypatch):
    reader = pytest.importorskip("imageio_ffmpeg")
    monkeypatch.setattr(reader, "get_ffmpeg_exe", lambda: "/bin/false")
    with pytest.raises(OSError, match="the encoder of mp4 failed with exit code 1"):
        write_video(tmp_path / "video.mp4", pictures(300), fps=10.0)  # more than a pipe holds
    assert os.listdir(tmp_path) == []


class Failing(list):
    """Pictures of which one cannot be painted."""

    def __getitem__(self, index):
        if index == 3:
            raise KeyboardInterrupt
        return super().__getitem__(index)

    def __iter__(self):
        return (self[index] for index in range(len(self)))


@pytest.mark.parametrize("suffix", ["gif", "mp4"])
def test_a_video_that_is_not_finished_leaves_what_was_there(tmp_path, suffix):
    pytest.importorskip("imageio_ffmpeg")
    path = tmp_path / f"video.{suffix}"
    for before in (None, b"another"):
        if before is not None:
            path.write_bytes(before)
        with pytest.raises(KeyboardInterrupt):
            write_video(path, Failing(pictures(6, (64, 48))), fps=10.0)
        assert (path.read_bytes() if path.exists() else None) == before
        assert os.listdir(tmp_path) == ([] if before is None else [path.name])


@pytest.mark.parametrize("fps", [0.0, -1.0, 0.01, 60.0, float("nan"), float("inf")])
def test_speeds_that_cannot_be_shown_are_refused(tmp_path, fps):
    with pytest.raises(ValueError, match=rf"fps must lie in \[0\.1, 50\], but is {fps:g}"):
        check_video(tmp_path / "video.gif", fps=fps)


@pytest.mark.parametrize("name", ["video", "video.avi", "video.gif.txt"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=rf"out must end in \.gif or \.mp4, but is .*{name}$"):
        check_video(tmp_path / name, fps=10.0)
    check_video(tmp_path / "VIDEO.GIF", fps=10.0)


def test_places_that_cannot_be_written_to_are_refused(tmp_path, monkeypatch):
    (tmp_path / "folder.gif").mkdir()
    with pytest.raises(IsADirectoryError):
        check_video(tmp_path / "folder.gif", fps=10.0)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        check_video(tmp_path / "file" / "video.gif", fps=10.0)
    asked = []
    monkeypatch.setattr(os, "access", lambda path, _: asked.append(path))
    with pytest.raises(PermissionError, match="cannot be written to"):
        check_video(tmp_path / "new" / "video.gif", fps=10.0)
    assert asked == [tmp_path]


def test_folders_are_made_when_there_is_something_to_write(tmp_path):
    check_video(tmp_path / "new" / "one" / "video.gif", fps=10.0)
    assert list(tmp_path.iterdir()) == []
    write_video(tmp_path / "new" / "one" / "video.gif", pictures(2), fps=10.0)
    assert len(read(tmp_path / "new" / "one" / "video.gif")[0]) == 2


def test_no_pictures_are_refused(tmp_path):
    with pytest.raises(ValueError, match="images must not be empty"):
        write_video(tmp_path / "video.gif", [], fps=10.0)


def test_the_same_pictures_give_the_same_bytes(tmp_path):
    for name in ("one.gif", "other.gif"):
        write_video(tmp_path / name, pictures(5), fps=10.0)
    one, other = ((tmp_path / name).read_bytes() for name in ("one.gif", "other.gif"))
    assert one == other
    assert all(a.tobytes() != b.tobytes() for a, b in itertools.pairwise(pictures(5)))
