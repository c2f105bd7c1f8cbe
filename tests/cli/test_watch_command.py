"""`mico watch`: the video that it leaves, what it says, and what it refuses."""

import gymnasium
import jax
import numpy as np
import pytest
from PIL import Image

from mico import cli
from mico.cli import watch
from mico.deep import load
from mico.deep.envs import environment
from mico.deep.envs.host.episodes import episode_seed
from mico.deep.learner.state import init_params
from mico.deep.metric_losses import MICo
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.trained.evaluate import evaluate
from mico.deep.trained.render import pictures
from mico.deep.training.run_folder import Outputs
from mico.deep.training.weights import save_parameters
from mico.runs.files import writable
from mico.tabular import make, save
from small_runs import small_run

pytestmark = pytest.mark.usefixtures("quick_compilation")

QUICK = ("--steps", 12, "--memory", 40)


def saved(out, name="it", **parts):
    """The folder of a run, as a training leaves it."""
    run = small_run(seed=0, **parts)
    outputs = Outputs(writable(out), {name: run}, 40, resume=False)
    params = init_params(run, run.env.spec)
    save_parameters(outputs.folders, 40, jax.tree.map(lambda leaf: np.asarray(leaf)[None], params))
    (out / name / "log.jsonl").touch()
    return out / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run on Breakout with a metric loss."""
    parts = {"env": environment("minatar/breakout"), "network": NetworkConfig("minatar", hidden=8)}
    return saved(tmp_path_factory.mktemp("out"), metric=MICo(beta=0.5), **parts)


@pytest.fixture
def handed(monkeypatch):
    """What the painter was handed, each time."""
    plays = []

    def painted(play):
        plays.append(play)
        return [Image.new("RGB", (4, 4), (number % 256, 0, 0)) for number in range(len(play.pictures))]

    monkeypatch.setattr(watch, "Stills", painted)
    return plays


def mico(*argv):
    cli.main(["watch", *map(str, argv)])


def test_the_video_has_a_picture_for_each_step(folder, tmp_path, capsys):
    mico(folder, "--out", tmp_path / "video.gif", *QUICK, "--episodes", 9, "--fps", 20)
    with Image.open(tmp_path / "video.gif") as video:
        assert (video.n_frames, video.size[0]) == (12, 704)
        assert video.info["duration"] == 50
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith(f"wrote {tmp_path / 'video.gif'}: 0.6 seconds, ")
    assert [path.name for path in tmp_path.iterdir()] == ["video.gif"]


def test_mp4(folder, tmp_path):
    reader = pytest.importorskip("imageio_ffmpeg")
    mico(folder, "--out", tmp_path / "video.mp4", *QUICK, "--episodes", 9, "--fps", 20)
    assert reader.count_frames_and_secs(tmp_path / "video.mp4") == (12, 0.6)


def test_the_painter_is_handed_what_the_network_says(folder, tmp_path, handed):
    run = load(folder)
    mico(folder, "--out", tmp_path / "video.gif", *QUICK, "--epsilon", 0, "--neighbours", 3)
    (play,) = handed
    assert play.actions == ("noop", "left", "right")
    assert play.title == "minatar/breakout   dqn, mico, seed 0   40 steps"
    assert play.caption.endswith(" stored, by MICo's reduced distance βθ, β = 0.5")
    assert f"nearest of {len(play.stored)} " in play.caption
    assert play.neighbours.shape == (len(play.pictures), 3)
    env, key = run.settings.env, jax.random.split(jax.random.key(0))[0]
    first = np.asarray(env.reset(jax.random.split(key, 1)[0])[1])
    np.testing.assert_array_equal(play.pictures[0], pictures(env, first[None])[0])
    np.testing.assert_allclose(play.values[0], run.predict(first), rtol=1e-5)
    np.testing.assert_array_equal(play.action, play.values.argmax(axis=1))


def test_the_episode_is_the_first_of_evaluate(folder, tmp_path, handed, capsys):
    for seed in (0, 1, 2):
        mico(folder, "--out", tmp_path / "video.gif", "--force", "--seed", seed, "--epsilon", 0.3, "--neighbours", 0)
        (expected,) = evaluate(load(folder), episodes=1, seed=seed, epsilon=0.3)
        assert handed[-1].returned[-1] == expected
        assert f"return {expected:.4g} in {len(handed[-1].pictures)} steps" in capsys.readouterr().out


def test_every_option_changes_what_it_says(folder, tmp_path, handed):
    def shown(*options):
        mico(folder, "--out", tmp_path / "video.gif", "--force", *QUICK, "--episodes", 9, *options)
        return handed[-1]

    usual = shown()
    np.testing.assert_array_equal(shown().pictures, usual.pictures)
    assert usual.neighbours.shape == (12, 4)
    assert len(shown("--steps", 5).pictures) == 5
    assert shown("--steps", 60, "--episodes", 2).ended.sum() == 2
    assert not np.array_equal(shown("--seed", 3).pictures, usual.pictures)
    assert not np.array_equal(shown("--epsilon", 1).action, usual.action)
    assert shown("--neighbours", 2).neighbours.shape == (12, 2)
    assert shown("--neighbours", 0).neighbours.shape == (12, 0)
    assert len(shown("--memory", 10).stored) < len(usual.stored)
    assert not np.array_equal(shown("--memory-epsilon", 1).stored, usual.stored)
    other = shown("--distance", "learnt")
    assert "MICo's U, β = 0.5" in other.caption
    assert other.distances.min() > usual.distances.min()


def test_stored_frames_are_of_other_episodes(folder, tmp_path, handed):
    mico(
        folder,
        "--out",
        tmp_path / "video.gif",
        "--memory",
        12,
        "--steps",
        12,
        "--memory-epsilon",
        0.5,
        "--epsilon",
        0.5,
    )
    (play,) = handed
    assert not np.array_equal(play.pictures[: len(play.stored)], play.stored[: len(play.pictures)])


def test_a_fleet_of_one_is_its_run_and_the_video_lies_in_it(tmp_path, capsys):
    run = saved(tmp_path / "fleet", env=environment("mdp/four-rooms"))
    mico(tmp_path / "fleet", *QUICK, "--neighbours", 1)
    assert (run / "watch.gif").exists()
    assert "so far in 12 steps" in capsys.readouterr().out


def test_gymnasium_draws_itself(tmp_path, handed, capsys):
    pytest.importorskip("pygame")
    parts = {"env": environment("gym/CartPole-v1"), "network": NetworkConfig("mlp", width=8, hidden=8)}
    run = saved(tmp_path / "fleet", "pole", **parts)
    mico(run, *QUICK, "--neighbours", 2)
    (play,) = handed
    assert play.pictures.shape[1:] == (224, 336, 3)  # of 400 × 600
    assert play.stored.shape[1:] == (64, 96, 3)
    assert len({picture.tobytes() for picture in play.pictures}) > 1
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    seed = int(jax.random.randint(jax.random.split(jax.random.key(0))[0], (1,), 0, 2**31 - 1)[0])
    env.reset(seed=episode_seed(seed, 0))
    first = np.asarray(Image.fromarray(env.render()).resize((336, 224), Image.Resampling.BOX))
    np.testing.assert_array_equal(play.pictures[0], first)
    assert capsys.readouterr().err == ""


def test_an_mdp_from_a_file_is_shown_by_its_states(tmp_path, handed):
    save(tmp_path / "mine.json", make("five-state"))
    run = saved(tmp_path / "fleet", env=environment(f"mdp/{tmp_path}/mine.json"))
    mico(run, *QUICK, "--neighbours", 2)
    (play,) = handed
    assert play.title.startswith("mdp/mine.json ")
    assert set(play.labels) <= {"s1", "s2", "t1", "t2"}
    assert set(play.stored_labels) <= {"s1", "s2", "t1", "t2"}
    assert (len(play.labels), len(play.stored_labels)) == (len(play.pictures), len(play.stored))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["none"], "none is not the folder of a run: it has no config.json"),
        (["several"], "several is not the folder of a run: it has no config.json; the runs in it are one, two"),
        (["empty"], "empty holds no run"),
        (["damaged"], "params/40.arrays is damaged: it does not have its digest"),
        (["it", "--neighbours", "-1"], "neighbours must be at least 0, but is -1"),
        (["it", "--neighbours", "50", "--memory", "20"], "neighbours must be at most memory 20, but is 50"),
        (["it", "--memory", "0"], "memory must be at least 1, but is 0"),
        (["it", "--memory-epsilon", "2"], "memory_epsilon must lie in [0, 1], but is 2.0"),
        (["it", "--out", "new/video.gif", "--epsilon", "-1"], "epsilon must lie in [0, 1], but is -1.0"),
        (["it", "--steps", "0"], "steps must be at least 1, but is 0"),
        (["it", "--episodes", "0"], "episodes must be at least 1, but is 0"),
        (["it", "--seed", "-1"], "seed must lie in [0, 2³¹), but is -1"),
        (["it", "--fps", "0"], "fps must lie in [0.1, 50], but is 0"),
        (["it", "--out", "video.avi"], "out must end in .gif or .mp4, but is video.avi"),
        (["it", "--out", "there.gif"], "there.gif: is there already: --force replaces it"),
        (["it", "--out", "there.gif/video.gif"], "there.gif: Not a directory"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(folder, tmp_path, monkeypatch, capsys, argv, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "it").symlink_to(folder)
    (tmp_path / "empty").mkdir()
    (tmp_path / "there.gif").write_text("precious")
    if argv[0] == "several":
        for name in ("one", "two"):
            saved(tmp_path / f"fleet-{name}", name).rename(writable(tmp_path / "several") / name)
    if argv[0] == "damaged":
        saved(tmp_path / "fleet", "damaged").rename("damaged")
        (tmp_path / "damaged" / "params" / "40.arrays").write_bytes(b"nothing")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as stop:
        mico(*argv)
    printed = capsys.readouterr()
    assert (stop.value.code, printed.out) == (2, "")
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "there.gif").read_text() == "precious"


def test_force_replaces(folder, tmp_path):
    (tmp_path / "video.gif").write_text("old")
    mico(folder, "--out", tmp_path / "video.gif", *QUICK, "--force")
    with Image.open(tmp_path / "video.gif") as video:
        assert video.n_frames > 1


def test_interrupted_drawing_leaves_nothing(folder, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mico.deep.trained.stills.Stills._draw_values", stop)
    with pytest.raises(SystemExit) as ended:
        mico(folder, "--out", tmp_path / "video.gif", *QUICK)
    assert ended.value.code == 130
    assert list(tmp_path.iterdir()) == []
