"""One future on one stage: who starts and ends when, and what the GPUs do meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from dally.cluster.capacity import Cluster
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.live.config import Setup
from dally.live.forecast.closed_machines import ClosedMachines
from dally.live.forecast.present import Present
from dally.live.forecast.whatif.moved import draining_on, rescale, restaged
from dally.model import FINISHED, HELD, INFINITY, START, Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.base import Policy
from dally.sweep.whatif.change import WhatIfSide

STEPS: Final = 16  # cycles between two looks at the time


@dataclass(frozen=True)
class Fate:
    """What became of a job, in seconds from now; where that was not seen, as far as was looked."""

    start_s: float  # until it has GPUs; 0 if it has them
    end_s: float  # until it is done
    waits_s: float  # without GPUs, all in all
    started: bool
    ended: bool


@dataclass(frozen=True)
class FutureSide:
    """One future on one stage, up to `reached_s` from now."""

    reached_s: float
    fates: dict[int, Fate] = field(default_factory=dict)  # of jobs that wait or run now, by number
    coming_jct_s: list[float] = field(default_factory=list)  # of those who come, up to where was looked
    empty_s: float = 0.0  # until nobody waits for the first time
    used_gpu_s: float = 0.0
    useful_gpu_s: float = 0.0
    preemptions: int = 0


def run_side(
    present: Present,
    durations_s: dict[int, float],
    coming: Sequence[Job],
    side: WhatIfSide[Setup],
    until_s: float,
    allowed_s: float = INFINITY,
) -> FutureSide:
    """The future with these durations and these jobs to come, for at most so many CPU seconds. All is used up."""
    for job in present.jobs:
        job.duration_s = durations_s[int(job.index)]
    before, now = present.state.speed, present.now
    compared = [job for job in present.jobs if job.status != HELD]
    state = restaged(present, side)
    for job in coming:
        rescale(job, before, state.speed)
    there = {int(job.index): (job.run_s(now), job.done_s(now), int(job.preemptions)) for job in present.jobs}
    simulation = Simulation([], Cluster.grid(1, 1, 1), Policy(), SpeedModel(), Costs(), Failures())
    executor = ClosedMachines(state, draining_on(present, side))
    simulation.take_up(state, _numbered(present, coming), present.next_number, now, executor)
    empty_s = _run(simulation, until_s, time.process_time() + allowed_s)
    if empty_s < 0.0:
        return FutureSide(simulation.now - now)
    state.catch_up(until_s)
    starts = _starts(simulation, present.next_number)
    jobs = [*present.jobs, *coming]
    nothing = (0.0, 0.0, 0)
    return FutureSide(
        until_s - now,
        {int(job.index): _fate(job, starts, there[int(job.index)][0], now, until_s) for job in compared},
        [_end_s(job, until_s) - job.submit_s for job in coming],
        min(empty_s, until_s) - now,
        sum(int(job.gpus) * (job.run_s(until_s) - there.get(int(job.index), nothing)[0]) for job in jobs),
        sum(int(job.gpus) * (job.done_s(until_s) - there.get(int(job.index), nothing)[1]) for job in jobs),
        sum(int(job.preemptions) - there.get(int(job.index), nothing)[2] for job in jobs),
    )


def _numbered(present: Present, coming: Sequence[Job]) -> list[Job]:
    """By number; those who have ended are nobody."""
    jobs = [Job(0, "", 0.0, 1, 0.0)] * present.next_number
    for job in present.jobs:
        jobs[int(job.index)] = job
    return [*jobs, *coming]


def _run(simulation: Simulation, until_s: float, cpu_until_s: float) -> float:
    """When nobody waits for the first time, infinity if never; below 0 if time was up before."""
    empty_s = INFINITY
    going = True
    while going:
        if time.process_time() > cpu_until_s:
            return -1.0
        for _ in range(STEPS):
            going = simulation.step(until_s)
            if not going:
                break
            if empty_s == INFINITY and len(simulation.state.queue) == 0:
                empty_s = simulation.now
    return empty_s


def _starts(simulation: Simulation, numbers: int) -> dict[int, float]:
    """The first start from now on of those who are there, by number."""
    log = simulation.state.log
    found: dict[int, float] = {}
    for row in range(len(log)):
        if log.kinds[row] == START and log.jobs[row] < numbers:
            found.setdefault(int(log.jobs[row]), log.times[row])
    return found


def _end_s(job: Job, until_s: float) -> float:
    return min(job.finish_s, until_s) if job.status == FINISHED else until_s


def _fate(job: Job, starts: dict[int, float], held_s: float, now: float, until_s: float) -> Fate:
    number, end_s = int(job.index), _end_s(job, until_s)
    waits_s = end_s - now - (job.run_s(until_s) - held_s)
    start_s = starts.get(number, now if waits_s <= 0.0 else until_s) - now
    return Fate(start_s, end_s - now, max(0.0, waits_s), start_s < until_s - now, job.status == FINISHED)
