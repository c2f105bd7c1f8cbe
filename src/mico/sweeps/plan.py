"""Fleets of a sweep: runs that can share a program do, as many together as memory allows."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

import jax

from mico._checks import make_plain_name
from mico.deep.config.run import Label, Run, describe
from mico.deep.envs import split_name
from mico.deep.metric_losses import AbstractMetricLoss, AbstractPairLoss
from mico.sweeps.grid import Cell, Sweep, Values, arms


class Member(NamedTuple):
    """A cell of a sweep, its name in its fleet, and the fields that make it one arm of several."""

    cell: Cell
    name: str
    varied: Values


class Fleet(NamedTuple):
    """Runs that are trained together, the bytes that they take, and the folder that they get in that of the sweep."""

    name: str
    steps: int
    members: tuple[Member, ...]
    size: int

    @property
    def missing(self) -> str | None:
        """The error about a package that the fleet's environment lacks on this machine, or None."""
        return self.members[0].cell.shape.missing

    def runs(self) -> list[Run]:
        """The runs as they are computed: a baseline beside a metric loss is the same as that loss with weight 0."""
        runs = [_run(member.cell, self.steps) for member in self.members]
        metric = next((run.metric for run in runs if run.metric is not None), None)
        return [run if run.metric is not None or metric is None else _weightless(run, metric) for run in runs]

    def program(self) -> Hashable:
        """Fleets that share it need not be compiled again."""
        return jax.tree.structure(self.runs()[0]), len(self.members)

    def labels(self) -> list[Label]:
        """Names of the runs and what they stand for: the baseline, where a loss has weight 0."""
        return [
            Label(member.name, describe(_run(member.cell, self.steps)), dict(member.varied)) for member in self.members
        ]

    def shared(self) -> str | None:
        """The metric loss that the fleet's baselines are computed as, if they share its program."""
        metrics = dict.fromkeys(member.cell.metric for member in self.members)
        others = [metric for metric in metrics if metric != "none"]
        return others[0] if "none" in metrics and others else None


def plan(
    sweep: Sweep, cells: Sequence[Cell], *, memory: int | None, max_runs: int | None, first: int = 0
) -> list[Fleet]:
    """Group cells into fleets.

    Args:
        sweep: The sweep that the cells are of.
        cells: The runs.
        memory: The bytes that a fleet may take; None for any number.
        max_runs: The runs that a fleet may have; None for any number.
        first: The number that the names of the fleets begin with.

    Raises:
        ValueError: If a single run takes more memory, or the steps are no multiple of the update period.
    """
    told_apart = arms(sweep)
    fleets: list[Fleet] = []
    for group in _groups(cells, sweep.steps):
        run = _planned(group[0], sweep.steps)
        if sweep.steps % run.schedule.update_period:
            least = -(-sweep.steps // run.schedule.update_period) * run.schedule.update_period
            multiple = f"a multiple of {run.schedule.update_period}"
            raise ValueError(f"steps must be {multiple}, got {sweep.steps}: the next is {least}")
        size = group[0].shape.size(run)
        for part in _split(group, _most(size, memory, max_runs)):
            members = tuple(_member(cell, told_apart) for cell in part)
            name = _fleet_name(first + len(fleets), part)
            fleets.append(Fleet(name, sweep.steps, members, size * len(part)))
    return fleets


def _groups(cells: Sequence[Cell], steps: int) -> list[list[Cell]]:
    """Cells by the structure of their runs; baselines join the first metric loss whose program can be theirs."""
    groups: dict[Hashable, list[Cell]] = {}
    hosts: dict[Hashable, Hashable] = {}  # a structure of the other parts, and the group that has room for it
    for cell in sorted(cells, key=lambda cell: cell.metric == "none"):
        run = _planned(replace(cell, seed=0), steps)  # the seed does not matter here
        own, others = jax.tree.structure(run), jax.tree.structure(_other_parts(run))
        if run.metric is not None and _can_be_weightless(run.metric):
            hosts.setdefault(others, own)
        key = hosts.get(others, own) if run.metric is None else own
        groups.setdefault(key, []).append(cell)
    order = {cell: index for index, cell in enumerate(cells)}
    found = [sorted(group, key=order.__getitem__) for group in groups.values()]
    return sorted(found, key=lambda group: order[group[0]])


def _other_parts(run: Run) -> dict[str, Any]:
    """All of a run but its metric loss; a run without it may be none, as where that loss alone trains φ."""
    return {name: part for name, part in vars(run).items() if name != "metric"}


def _split(group: Sequence[Cell], most: int) -> list[list[Cell]]:
    """Parts of nearly equal sizes; runs of one seed stay together, so that arms are compared within a program."""
    seeds = {seed: index for index, seed in enumerate(dict.fromkeys(cell.seed for cell in group))}
    count = ceil(len(group) / most)
    if count == 1:
        return [[*group]]
    by_seed = sorted(group, key=lambda cell: seeds[cell.seed])
    bounds = [round(part * len(group) / count) for part in range(count + 1)]
    return [by_seed[low:high] for low, high in pairwise(bounds)]


def _most(size: int, memory: int | None, max_runs: int | None) -> int:
    """How many runs of a size a fleet may have."""
    if memory is not None and size > memory:
        raise ValueError(
            f"memory must be at least {size / 1e9:.3g} GB, which a single run takes, got {memory / 1e9:.3g} GB: set it"
            " by --memory (by default it is what is free here), or make the replay smaller"
        )
    by_memory = 2**31 if memory is None else memory // size
    return by_memory if max_runs is None else min(by_memory, max_runs)


def _member(cell: Cell, told_apart: Sequence[str]) -> Member:
    varied = tuple((name, value) for name, value in cell.fields if name in told_apart)
    fields = [f"{name.rpartition('.')[2].replace('_', '-')}{value}" for name, value in varied]
    return Member(cell, make_plain_name("-".join([cell.agent, cell.metric, *fields, f"seed{cell.seed}"])), varied)


def _fleet_name(number: int, members: Sequence[Cell]) -> str:
    family, member, _ = split_name(members[0].env)  # not the path of a file
    env = family if member is None else f"{family}-{member}"
    metrics = dict.fromkeys(cell.metric for cell in members)
    return make_plain_name("-".join([f"{number:03}", env, members[0].agent, *metrics]))


@cache
def _planned(cell: Cell, steps: int) -> Run:
    return cell.shape.run(dict(cell.fields), cell.seed, steps)


def _run(cell: Cell, steps: int) -> Run:
    if cell.shape.missing:
        raise ValueError(f"{cell.env} with {cell.agent} cannot be run: {cell.shape.missing}")
    return _planned(cell, steps)


def _can_be_weightless(metric: AbstractMetricLoss) -> bool:
    """Whether α = 0 leaves the agent alone: no parameters but the agent's, and a sum of (1 − α) and α."""
    return isinstance(metric, AbstractPairLoss)


def _weightless(run: Run, metric: AbstractMetricLoss) -> Run:
    return replace(run, metric=replace(metric, alpha=0.0))
