"""`mico watch RUN`: a trained run at play, as a video."""

import errno
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from mico.cli._flags import parse_flags
from mico.cli.counts import Count
from mico.cli.text import PlainConsole, in_bytes
from mico.deep import Trained, load
from mico.deep.config.run import describe
from mico.deep.envs import Tabular
from mico.deep.envs.host.episodes import episode_seed
from mico.deep.trained.render import check_pictures, pictures, state_names
from mico.deep.trained.rollout import Rollout, play, return_so_far, unique_observations
from mico.deep.trained.similarity import Distance, Neighbours, distance_name, neighbours
from mico.deep.trained.stills import SIDE, SMALL, Play, Stills
from mico.deep.trained.videos import check_video, write_video
from mico.runs.folder import run_folders


@dataclass(frozen=True)
class Options:
    """Play a trained run and draw what it sees, its action values, and the stored frames most similar to it."""

    run: Annotated[
        Path,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN", help="Folder of a run, or a folder of `mico train` that holds one run."),
    ]
    out: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="FILE",
            help="Video to write, ending in .gif or .mp4.",
            help_behavior_hint="(default: watch.gif in the run's folder)",
        ),
    ] = None
    force: Annotated[bool, tyro.conf.arg(help="Replace the video if it exists.")] = False
    episodes: Annotated[Count, tyro.conf.arg(help="Episodes to show.")] = 1
    steps: Annotated[Count, tyro.conf.arg(help="Most steps to show.")] = 500
    epsilon: Annotated[float, tyro.conf.arg(help="Probability of a random action.")] = 0.001
    seed: Annotated[
        int, tyro.conf.arg(help="Random seed of the environment and of the actions, as in `mico evaluate`.")
    ] = 0
    fps: Annotated[float, tyro.conf.arg(help="Steps shown in each second of the video.")] = 10.0
    neighbours: Annotated[
        Count, tyro.conf.arg(help="How many of the most similar stored frames to show beside each step; 0 shows none.")
    ] = 4
    memory: Annotated[
        Count, tyro.conf.arg(help="Steps of other episodes that are played first, and whose frames are stored.")
    ] = 2000
    memory_epsilon: Annotated[float, tyro.conf.arg(help="Probability of a random action in those steps.")] = 0.1
    distance: Annotated[
        Distance,
        tyro.conf.arg(
            help="Distance between frames: as learnt, or reduced by each frame's distance to itself (docs/watch.md)."
        ),
    ] = "reduced"


def main(argv: list[str]) -> None:
    """Run `mico watch` with these arguments."""
    options = parse_flags(Options, prog="mico watch", args=argv, config=(tyro.conf.FlagCreatePairsOff,))
    _check(options)
    folder = _folder(options.run)
    trained = load(folder)
    check_pictures(trained.settings.env)
    out = folder / "watch.gif" if options.out is None else options.out
    if out.exists() and not options.force:
        raise FileExistsError(errno.EEXIST, "is there already: --force replaces it", str(out))
    check_video(out, fps=options.fps)
    console = PlainConsole(soft_wrap=True)
    with console.status("playing"):
        length = {"steps": options.steps, "episodes": options.episodes}
        seen = play(trained, **length, seed=options.seed, epsilon=options.epsilon, image_side=SIDE)
        stored, near = _alike(trained, seen, options)
    with console.status("drawing"):
        write_video(out, Stills(_play(trained, seen, (stored, near), options)), fps=options.fps)
    console.print(f"{_returns(seen)} in {len(seen.frame):,} steps")
    console.print(f"wrote {out}: {len(seen.frame) / options.fps:.3g} seconds, {in_bytes(out.stat().st_size)}")


def _check(options: Options) -> None:
    """Check options that the library names differently, or would refuse only after some work."""
    for name, least in (("neighbours", 0), ("memory", 1)):
        if getattr(options, name) < least:
            raise ValueError(f"{name} must be at least {least}, but is {getattr(options, name)}")
    if options.neighbours > options.memory:
        raise ValueError(f"neighbours must be at most memory {options.memory}, but is {options.neighbours}")
    if not 0 <= options.memory_epsilon <= 1:
        raise ValueError(f"memory_epsilon must lie in [0, 1], but is {options.memory_epsilon}")


def _folder(given: Path) -> Path:
    """The run's, or that of a fleet of one."""
    if not given.is_dir() or (given / "config.json").exists():
        return given
    inside = run_folders(given)
    return inside[0] if len(inside) == 1 else given


def _alike(trained: Trained, seen: Rollout, options: Options) -> tuple[Rollout, Neighbours]:
    """Store frames of other episodes than those shown, and find the nearest of them to each step."""
    steps = options.memory if options.neighbours else 1
    other = episode_seed(options.seed, 1)
    chance = {"seed": other, "epsilon": options.memory_epsilon}
    stored = unique_observations(play(trained, steps=steps, episodes=None, **chance, image_side=SMALL))
    return stored, neighbours(trained, seen, stored, count=options.neighbours, distance=options.distance)


def _play(trained: Trained, seen: Rollout, alike: tuple[Rollout, Neighbours], options: Options) -> Play:
    described, env = describe(trained.settings), trained.settings.env
    stored, near = alike
    metric = "no metric" if described["metric"] is None else described["metric"]["name"]
    has_map = isinstance(env, Tabular) and env.problem.layout is not None
    agent = f"{described['agent']['name']}, {metric}, seed {described['seed']}"
    return Play(
        title=f"{env.name}   {agent}   {trained.step:,} steps",
        actions=env.action_names,
        pictures=pictures(env, seen.frame) if seen.image is None else seen.image,
        values=seen.values,
        worth=seen.state_value,
        action=seen.action if env.spec.num_actions else None,
        reward=seen.reward,
        returned=return_so_far(seen),
        ended=seen.ended,
        stored=pictures(env, stored.frame) if stored.image is None else stored.image,
        neighbours=near.index,
        distances=near.distance,
        labels=state_names(env, seen.frame),
        stored_labels=() if has_map else state_names(env, stored.frame),
        caption=f"nearest of {len(stored.frame):,} stored, by {distance_name(trained, options.distance)}",
    )


def _returns(seen: Rollout) -> str:
    totals = return_so_far(seen)
    whole = ", ".join(f"{total:.4g}" for total in totals[seen.ended])
    if seen.ended[-1]:
        return f"return {whole}"
    return f"return {whole + ', ' if whole else ''}{totals[-1]:.4g} so far"
