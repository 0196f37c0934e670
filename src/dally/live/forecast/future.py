"""One future: the present with a duration for every job and with jobs to come, run until those asked for start."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from dally.cluster.capacity import Cluster
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.live.forecast.closed_machines import ClosedMachines
from dally.live.forecast.present import Present
from dally.model import INFINITY, START, Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.base import Policy

STEPS: Final = 16  # cycles between two looks at who has started


@dataclass(frozen=True)
class Started:
    """How a job fared in one future."""

    start_s: float
    tier: int
    slowdown: float  # of its work from then on, against its closest placement alone


@dataclass(frozen=True)
class Outcome:
    """How those asked for fared, as far as was looked; where time was up before, when the others might start."""

    started: dict[int, Started]
    guessed: dict[int, float]
    reached_s: float


def run_future(
    present: Present,
    durations_s: dict[int, float],
    coming: Callable[[float, int], tuple[list[Job], float]],
    asked: Collection[int],
    until_s: float,
    allowed_s: float = INFINITY,
) -> Outcome:
    """Who of those asked for starts when and where. The present is used up.

    `coming` tells who comes from a moment on, numbered from there on, and up to which other moment these are all;
    `allowed_s` is for how many CPU seconds to look.
    """
    simulation = _taken_up(present, durations_s)
    log = present.state.log
    known_s = present.now  # who comes up to here is known
    open_ones = set(asked)
    starts: dict[int, tuple[float, int]] = {}
    read = 0
    over = False
    limit_s = time.process_time() + allowed_s
    while open_ones and not over and time.process_time() < limit_s:
        for _ in range(STEPS):
            if simulation.step(min(known_s, until_s)):
                continue
            over = known_s >= until_s
            if not over:
                later, known_s = coming(known_s, len(simulation.jobs))
                simulation.jobs += later
            break
        for row in range(read, len(log)):
            number = int(log.jobs[row])
            if log.kinds[row] == START and number in open_ones:
                open_ones.remove(number)
                starts[number] = (log.times[row], int(log.tiers[row]))
        read = len(log)
    found = {
        number: Started(start_s, tier, _slowdown(simulation.jobs[number], simulation.now))
        for number, (start_s, tier) in starts.items()
    }
    guessed = {} if over or not open_ones else _guessed(simulation, present, open_ones)
    return Outcome(found, guessed, until_s if over else simulation.now)


def _guessed(simulation: Simulation, present: Present, numbers: Collection[int]) -> dict[int, float]:
    """When these start if those who wait now go on starting in their order, as many in an hour as up to here."""
    log, now = present.state.log, simulation.now
    first = {int(log.jobs[row]) for row in range(len(log)) if log.kinds[row] == START}
    drained = sum(number < present.next_number for number in first)
    if drained == 0 or now <= present.now:
        return {}
    each_s = (now - present.now) / drained
    left = [number for number in (int(job.index) for job in present.state.queue) if number < present.next_number]
    return {number: now + (place + 1) * each_s for place, number in enumerate(left) if number in numbers}


def _taken_up(present: Present, durations_s: dict[int, float]) -> Simulation:
    nobody = Job(0, "", 0.0, 1, 0.0)
    jobs = [nobody] * present.next_number
    for job in present.jobs:
        job.duration_s = durations_s[int(job.index)]
        jobs[int(job.index)] = job
    simulation = Simulation([], Cluster.grid(1, 1, 1), Policy(), SpeedModel(), Costs(), Failures())
    executor = ClosedMachines(present.state, present.draining)
    simulation.take_up(present.state, jobs, present.next_number, present.now, executor)
    return simulation


def _slowdown(job: Job, now: float) -> float:
    done_s = job.done_s(now)
    if done_s > 0.0:
        return job.worked_s(now) / done_s
    return 1.0 / job.rate if job.rate > 0.0 else INFINITY
