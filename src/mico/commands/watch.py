"""`mico watch RUN`: a trained run at play, as a video."""

import errno
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from mico.commands.text import in_bytes
from mico.deep import Trained, load
from mico.deep.alike import Distance, Neighbours, distance_name, neighbours
from mico.deep.envs.host import episode_seed
from mico.deep.pictures import action_names, check_pictures, pictures
from mico.deep.settings import describe
from mico.deep.watching import Seen, distinct, play, returned
from mico.results.log import run_folders
from mico.results.stills import Play, Stills
from mico.results.videos import check_video, write_video


@dataclass(frozen=True)
class Options:
    """Plays a trained run and shows what it sees, its values of the actions, and what it takes for alike."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN", help="the folder of a run")]
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="PATH", help="the video, .gif or .mp4; by default watch.gif in RUN")
    ] = None
    force: Annotated[bool, tyro.conf.arg(help="replace a video that is there")] = False
    episodes: Annotated[int, tyro.conf.arg(help="to show")] = 1
    steps: Annotated[int, tyro.conf.arg(help="to show at most")] = 500
    epsilon: Annotated[float, tyro.conf.arg(help="share of random actions")] = 0.001
    seed: Annotated[int, tyro.conf.arg(help="of the environment and the random actions, as in evaluate")] = 0
    fps: Annotated[float, tyro.conf.arg(help="steps shown in a second")] = 10.0
    neighbours: Annotated[int, tyro.conf.arg(help="stored frames to show that are nearest, 0 for none")] = 4
    memory: Annotated[int, tyro.conf.arg(help="steps played first, whose frames are stored")] = 2000
    memory_epsilon: Annotated[float, tyro.conf.arg(help="share of random actions in those")] = 0.1
    distance: Annotated[
        Distance, tyro.conf.arg(help="as learnt, or without what each state has to itself (reduced)")
    ] = "reduced"


def main(argv: list[str]) -> None:
    options = tyro.cli(Options, prog="mico watch", args=argv)
    _check(options)
    folder = _folder(options.run)
    trained = load(folder)
    check_pictures(trained.settings.env)
    out = folder / "watch.gif" if options.out is None else options.out
    if out.exists() and not options.force:
        raise FileExistsError(errno.EEXIST, "is there already: --force replaces it", str(out))
    check_video(out, fps=options.fps)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with console.status("playing"):
        length = {"steps": options.steps, "episodes": options.episodes}
        seen = play(trained, **length, seed=options.seed, epsilon=options.epsilon)
        stored, near = _alike(trained, seen, options)
    with console.status("drawing"):
        write_video(out, Stills(_play(trained, seen, (stored, near), options)), fps=options.fps)
    console.print(f"{_returns(seen)} in {len(seen.frame):,} steps")
    console.print(f"wrote {out}: {len(seen.frame) / options.fps:.3g} seconds, {in_bytes(out.stat().st_size)}")


def _check(options: Options) -> None:
    """What the library would name otherwise, or only after work is spent."""
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


def _alike(trained: Trained, seen: Seen, options: Options) -> tuple[Seen, Neighbours]:
    """What is stored, from other episodes than those that are shown, and of it the nearest to each step."""
    steps = options.memory if options.neighbours else 1
    other = episode_seed(options.seed, 1)
    stored = distinct(play(trained, steps=steps, episodes=None, seed=other, epsilon=options.memory_epsilon))
    return stored, neighbours(trained, seen, stored, count=options.neighbours, distance=options.distance)


def _play(trained: Trained, seen: Seen, alike: tuple[Seen, Neighbours], options: Options) -> Play:
    described, env = describe(trained.settings), trained.settings.env
    stored, near = alike
    metric = "no metric" if described["metric"] is None else described["metric"]["name"]
    agent = f"{described['agent']['name']}, {metric}, seed {described['seed']}"
    return Play(
        title=f"{env.name}   {agent}   {trained.step:,} steps",
        actions=action_names(env),
        pictures=pictures(env, seen.frame),
        values=seen.values,
        worth=seen.worth,
        action=seen.action if env.spec.num_actions else None,
        reward=seen.reward,
        returned=returned(seen),
        ended=seen.ended,
        stored=pictures(env, stored.frame),
        neighbours=near.index,
        distances=near.distance,
        caption=f"nearest of {len(stored.frame):,} stored, by {distance_name(trained, options.distance)}",
    )


def _returns(seen: Seen) -> str:
    totals = returned(seen)
    whole = ", ".join(f"{total:.4g}" for total in totals[seen.ended])
    if seen.ended[-1]:
        return f"return {whole}"
    return f"return {whole + ', ' if whole else ''}{totals[-1]:.4g} so far"
