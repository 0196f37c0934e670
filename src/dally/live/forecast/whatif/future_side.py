"""One future on one side of a what-if: when jobs start and end, and what the GPUs do meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from dally.engine.handover import restore_lease
from dally.engine.signing import constrain
from dally.engine.simulate import Simulation
from dally.engine.state import State
from dally.live.config import Setup
from dally.live.forecast.future import STEPS, Present, begin_future, set_durations
from dally.model import (
    EVICT,
    FINISHED,
    HELD,
    INFINITY,
    RUNNING,
    START,
    WAITING,
    Allocation,
    Event,
    Job,
    make_allocation,
)
from dally.perf.base import SpeedModel
from dally.policies import events
from dally.sweep.whatif.change import WhatIfSide


def moved_to(present: Present, side: WhatIfSide[Setup]) -> State:
    """A state of that side which has taken up all jobs: those that run keep their GPUs, as far as these are there.

    The present is used up. A policy of the same kind knows what today's has learnt; every one goes by the timers
    that operators set.
    """
    now, old = present.now, present.state
    old.catch_up(now)
    numbers = {name: number for number, name in enumerate(side.topology.names[0])}
    places = {job.job_id: _place(old, job, numbers) for job in present.jobs if job.status == RUNNING}
    for job in [job for job in present.jobs if job.status == RUNNING and places[job.job_id] is None]:
        old.happen(Event(EVICT, job), now)
    result = side.config.world(side.topology).state()
    if old.cluster.feasibility is not None:
        constrain(result)
    same = type(result.policy).__qualname__ == type(old.policy).__qualname__
    if same:
        result.policy.load(old.policy.save())
    for gpus, wait_s in sorted(present.timers_s.items()):
        if result.policy.delay_overrides is not None:
            result.policy.delay_overrides.set_s(gpus, wait_s)
    for machine, is_down in enumerate(old.cluster.down):
        number = numbers.get(old.cluster.topology.names[0][machine])
        if is_down and number is not None:
            result.cluster.fail(number)
            result.notify(events.MACHINE_FAILED, now, number)
    for job in _in_order(old, present.jobs, side.topology.total_gpus()):
        rescale(job, old.speed, result.speed)
        _take_up(result, job, places.get(job.job_id), now, same)
    result.wakeup_s = now
    return result


def rescale(job: Job, before: SpeedModel, after: SpeedModel) -> None:
    """The same work: at its closest placement a job takes another time where the network is another."""
    factor = after.closest_s(job, 1.0) / before.closest_s(job, 1.0)
    if factor != 1.0:
        job.duration_s *= factor
        job.work_s *= factor
        job.saved_work_s *= factor


def _in_order(old: State, jobs: list[Job], most: int) -> list[Job]:
    """Those that run, in order of their start, then the others; one on hold need not fit."""
    running = list(old.cluster.running.values())
    return running + [job for job in jobs if job.status == WAITING or (job.status == HELD and job.gpus <= most)]


def draining_on(present: Present, side: WhatIfSide[Setup]) -> list[int]:
    """The machines of the side that drain now."""
    names = present.state.cluster.topology.names[0]
    drain = {names[machine] for machine in present.draining}
    return [number for number, name in enumerate(side.topology.names[0]) if name in drain]


def _take_up(state: State, job: Job, place: Allocation | None, now: float, same_policy: bool) -> None:
    lease_end_s, held = job.lease_end_s, job.status == HELD
    state.adopt(job, now, place if job.status == RUNNING else None)
    if held:
        state.hold(job, now)
    elif place is not None and same_policy and lease_end_s < INFINITY:
        restore_lease(state, job, lease_end_s)


def _place(old: State, job: Job, numbers: dict[str, int]) -> Allocation | None:
    """Where the job is on the other topology; None if not all of that is there."""
    assert job.allocation is not None
    names = old.cluster.topology.names[0]
    parts = [(names[int(machine)], int(gpus)) for machine, gpus in job.allocation.parts()]
    if any(name not in numbers for name, _ in parts):
        return None
    return make_allocation(0, sorted((numbers[name], gpus) for name, gpus in parts))


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
    """One future on one side, up to `reached_s` from now."""

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
    set_durations(present, durations_s)
    before, now = present.state.speed, present.now
    compared = [job for job in present.jobs if job.status != HELD]
    state = moved_to(present, side)
    for job in coming:
        rescale(job, before, state.speed)
    there = {int(job.index): (job.run_s(now), job.done_s(now), int(job.preemptions)) for job in present.jobs}
    simulation = begin_future(present, state, draining_on(present, side), coming)
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
    result: dict[int, float] = {}
    for row in range(len(log)):
        if log.kinds[row] == START and log.jobs[row] < numbers:
            result.setdefault(int(log.jobs[row]), log.times[row])
    return result


def _end_s(job: Job, until_s: float) -> float:
    return min(job.finish_s, until_s) if job.status == FINISHED else until_s


def _fate(job: Job, starts: dict[int, float], held_s: float, now: float, until_s: float) -> Fate:
    number, end_s = int(job.index), _end_s(job, until_s)
    waits_s = end_s - now - (job.run_s(until_s) - held_s)
    start_s = starts.get(number, now if waits_s <= 0.0 else until_s) - now
    return Fate(start_s, end_s - now, max(0.0, waits_s), start_s < until_s - now, job.status == FINISHED)
