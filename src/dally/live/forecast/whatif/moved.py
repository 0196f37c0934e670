"""The jobs of this moment on another stage: as after a restart of the daemon with another configuration."""

from __future__ import annotations

from dally.engine.state import State
from dally.live.config import Setup
from dally.live.forecast.present import Present
from dally.model import EVICT, HELD, INFINITY, RUNNING, WAITING, Allocation, Event, Job, make_allocation
from dally.perf.base import SpeedModel
from dally.policies import events
from dally.sweep.whatif.change import WhatIfSide


def restaged(present: Present, side: WhatIfSide[Setup]) -> State:
    """A state of that stage which has taken up all jobs: those that run keep their GPUs, as far as these are there.

    The present is used up. A policy of the same kind knows what today's has learnt; every one goes by the timers
    that operators set.
    """
    now, old = present.now, present.state
    old.catch_up(now)
    numbers = {name: number for number, name in enumerate(side.topology.names[0])}
    places = {job.job_id: _place(old, job, numbers) for job in present.jobs if job.status == RUNNING}
    for job in [job for job in present.jobs if job.status == RUNNING and places[job.job_id] is None]:
        old.happen(Event(EVICT, job), now)
    found = side.config.world(side.topology).state()
    same = type(found.policy).__qualname__ == type(old.policy).__qualname__
    if same:
        found.policy.load(old.policy.save())
    for gpus, wait_s in sorted(present.timers_s.items()):
        if found.policy.delay_overrides is not None:
            found.policy.delay_overrides.set_s(gpus, wait_s)
    for machine, is_down in enumerate(old.cluster.down):
        number = numbers.get(old.cluster.topology.names[0][machine])
        if is_down and number is not None:
            found.cluster.fail(number)
            found.notify(events.MACHINE_FAILED, now, number)
    for job in _in_order(old, present.jobs, side.topology.total_gpus()):
        rescale(job, old.speed, found.speed)
        _take_up(found, job, places.get(job.job_id), now, same)
    found.wakeup_s = now
    return found


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
    """The machines of the stage that drain now."""
    names = present.state.cluster.topology.names[0]
    drain = {names[machine] for machine in present.draining}
    return [number for number, name in enumerate(side.topology.names[0]) if name in drain]


def _take_up(state: State, job: Job, place: Allocation | None, now: float, same_policy: bool) -> None:
    lease_end_s, held = job.lease_end_s, job.status == HELD
    state.adopt(job, now, place if job.status == RUNNING else None)
    if held:
        state.hold(job, now)
    elif place is not None and same_policy and lease_end_s < INFINITY:
        state.restore_lease(job, lease_end_s)


def _place(old: State, job: Job, numbers: dict[str, int]) -> Allocation | None:
    """Where the job is on the other topology; None if not all of that is there."""
    assert job.allocation is not None
    names = old.cluster.topology.names[0]
    parts = [(names[int(machine)], int(gpus)) for machine, gpus in job.allocation.parts()]
    if any(name not in numbers for name, _ in parts):
        return None
    return make_allocation(0, sorted((numbers[name], gpus) for name, gpus in parts))
