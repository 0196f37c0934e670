"""What happened since the last cycle: the backend's truth against the engine's books, as events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dally.engine.state import State
from dally.live.backends import base
from dally.live.backends.base import ClusterJob, ClusterState
from dally.live.roster import Roster
from dally.live.wanted import START, Wanted
from dally.model import (
    ADOPT,
    CANCEL,
    EVICT,
    FAIL,
    FINISH,
    HELD,
    HOLD,
    RELEASE,
    REPAIR,
    RUNNING,
    START_FAILED,
    SUBMIT,
    Allocation,
    Event,
    Job,
)

MOST_TRIES = 3  # the backend is asked for one start before that is given up
START_WITHIN_S = 120.0  # of the wall clock, from when it was last asked; so long it may refuse to stop a job, too
KEPT_FOR = 5.0  # times that: a job that it would not stop is left alone


class Comparison:
    """One look at the backend: `events` sets the engine's books right, `ended` are jobs that will not be back."""

    def __init__(self, state: State, roster: Roster, found: ClusterState, now: float, speed: float) -> None:
        self.events: list[Event] = []
        self.ended: dict[str, ClusterJob | None] = {}  # None: the backend no longer knows the job
        self.replaced: list[tuple[Job, ClusterJob]] = []  # jobs that go on as others, which ask for other GPUs
        self.too_large: list[str] = []  # jobs that ask for more GPUs than there are: no policy is asked about those
        self.stopped: list[Job] = []  # jobs that were on hold and ran; see holding.py
        self.kept: list[str] = []  # jobs that were to stop and run on, and why
        self.overbooked: list[str] = []  # jobs that run where the books have no room for them
        self._state = state
        self._roster = roster
        self._gpus = int(roster.topology.total_gpus())
        self.now = now
        self._patience_s = START_WITHIN_S * speed
        self._found: list[tuple[Job, Allocation]] = []
        self._gone: set[int] = set()  # numbers of the jobs whose GPUs the events so far give back
        states = dict.fromkeys(roster.machines, base.DOWN)  # also of machines that nobody tells of any more
        states |= {machine.name: machine.state for machine in found.machines}
        self._down = {name for name, state in states.items() if state == base.DOWN}
        roster.latest = found
        self._machines(states)
        jobs = [told for told in map(self._within, found.jobs) if told is not None]
        for told in jobs:
            self._job(told)
        named = {told.job_id for told in jobs}
        for job in [job for job in roster if job.job_id not in named]:
            self._end(job, None)
        self._adopt_found()

    def _machines(self, states: Mapping[str, str]) -> None:
        """Machines that went down or came back; one that drains is left alone until it is empty."""
        down = self._state.cluster.down
        for name, number in self._roster.machines.items():
            state = states[name]
            empty = not self._state.cluster.jobs_on[number]
            gone = state == base.DOWN or (state == base.DRAINING and empty)
            if gone and not down[number]:
                self.events.append(Event(FAIL, machine=number))
            elif state == base.UP and down[number]:
                self.events.append(Event(REPAIR, machine=number))

    def _within(self, told: ClusterJob) -> ClusterJob | None:
        """Of a job that is not ours only what it has on our machines; None if it runs nowhere on them."""
        if told.managed or all(name in self._roster.machines for name in told.placement):
            return told
        placement = {name: gpus for name, gpus in told.placement.items() if name in self._roster.machines}
        return replace(told, placement=placement, gpus=sum(placement.values())) if placement else None

    def _job(self, told: ClusterJob) -> None:
        roster = self._roster
        job = roster.jobs.get(told.job_id)
        if job is None:
            if told.state in base.ENDED or told.gpus < 1:
                return
            if told.gpus > self._gpus:
                self.too_large.append(told.job_id)
                return
            job = roster.admit(told)
            self.events.append(Event(SUBMIT, job))
        elif told.gpus > self._gpus:
            self.too_large.append(told.job_id)
            told = replace(told, gpus=int(job.gpus))  # as it came, until it asks for what there is
        elif told.gpus != job.gpus and told.state not in base.ENDED:
            job = self._resized(job, told)
        roster.told[told.job_id] = told
        wanted = roster.wanted.get(told.job_id)
        if told.state in base.ENDED:
            self._end(job, told)
        elif told.state == base.RUNNING:
            self._runs(job, told, wanted)
        elif told.state == base.STARTING:
            self._starts(job, told, wanted)
        elif told.state in (base.QUEUED, base.HELD):
            self._waits(job, told, wanted)

    def _resized(self, job: Job, told: ClusterJob) -> Job:
        """The job asks for another number of GPUs than when it came: for the engine that is another job."""
        self.events.append(Event(CANCEL, job))
        self.replaced.append((job, self._roster.told[job.job_id]))
        self._roster.dismiss(job)
        other = self._roster.admit(told)
        self.events.append(Event(SUBMIT, other))
        return other

    def _end(self, job: Job, told: ClusterJob | None) -> None:
        """The job is over: as an end if it ran, however it ended, unless its user took it back."""
        cancelled = job.status != RUNNING or (told is not None and told.state == base.CANCELLED)
        if not cancelled:
            job.duration_s = job.done_s(self.now)  # whatever its user expected
        self.events.append(Event(CANCEL if cancelled else FINISH, job))
        self.ended[job.job_id] = told

    def _runs(self, job: Job, told: ClusterJob, wanted: Wanted | None) -> None:
        if wanted is not None and told.managed and self._roster.is_stopping(job):
            if self._is_kept(wanted):
                self._keep(job)
        elif wanted is not None:
            if told.managed and wanted.placement != told.placement and wanted.asked != START:
                if not self._is_kept(wanted):
                    return  # on its way out, or to another place
                self._keep(job)
                self.kept.append(f"{job.job_id}: {wanted.error}")
            del self._roster.wanted[job.job_id]  # it is there, or where the backend saw fit
        allocation = self._roster.allocation(told.placement)
        here = job.allocation if job.status == RUNNING else None
        if allocation is None or (here is not None and sorted(here.parts()) == allocation.parts()):
            return
        if here is not None:
            self.events.append(Event(EVICT, job, reason="it runs elsewhere"))
        if allocation.total() == job.gpus and not any(name in self._down for name in told.placement):
            self._found.append((job, allocation))  # not a gang that lost machines: see withheld.py

    def _starts(self, job: Job, told: ClusterJob, wanted: Wanted | None) -> None:
        if wanted is None:
            if not told.managed:
                return
            if job.status == RUNNING:
                self.events.append(Event(EVICT, job, reason="it was requeued"))
            self._roster.want(job.job_id, None, self.now)  # somebody else released it: call it back
        elif wanted.placement is not None and self._too_late(wanted):
            self._fail(job, f"did not start within {START_WITHIN_S:g} s")
            self._roster.want(job.job_id, None, self.now)

    def _waits(self, job: Job, told: ClusterJob, wanted: Wanted | None) -> None:
        held = told.state == base.HELD
        self._roster.kept_until_s.pop(job.job_id, None)
        if wanted is not None and wanted.placement is None:
            if job.status == RUNNING:
                self.stopped.append(job)
                return
            del self._roster.wanted[job.job_id]  # as we wished
        elif wanted is not None and job.status == RUNNING:
            if not held and wanted.tries < MOST_TRIES and not self._too_late(wanted):
                return  # about to start
            self._fail(job, wanted.error or ("it was put on hold" if held else "the backend did not start it"))
            del self._roster.wanted[job.job_id]
        elif job.status == RUNNING:
            self.events.append(Event(EVICT, job, reason=told.reason))
        if held and job.status != HELD:
            self.events.append(Event(HOLD, job))
        elif not held and job.status == HELD:
            self.events.append(Event(RELEASE, job))

    def _is_kept(self, wanted: Wanted) -> bool:
        """Whether the backend has refused to stop the job for so long that it will not."""
        return bool(wanted.error) and self.now - wanted.decided_s > self._patience_s

    def _keep(self, job: Job) -> None:
        """Leave it alone for a while."""
        self._roster.kept_until_s[job.job_id] = self.now + KEPT_FOR * self._patience_s

    def _too_late(self, wanted: Wanted) -> bool:
        since_s = wanted.tried_s if wanted.tried_s >= 0.0 else wanted.decided_s
        return self.now - since_s > self._patience_s

    def _fail(self, job: Job, reason: str) -> None:
        self.events.append(Event(START_FAILED, job, reason=reason))

    # Jobs that were found where the books do not have them.

    def _adopt_found(self) -> None:
        """Make room for them in the books: a start that is not carried out yet gives way to what is the case."""
        if not self._found:
            return
        free = self._free_after()
        for job, allocation in self._found:
            for machine, gpus in allocation.parts():
                self._make_room(free, machine, gpus)
            if all(free[machine] >= gpus for machine, gpus in allocation.parts()):
                for machine, gpus in allocation.parts():
                    free[machine] -= gpus
                self.events.append(Event(ADOPT, job, allocation=allocation))
            else:
                self.overbooked.append(job.job_id)

    def _free_after(self) -> list[int]:
        """Free GPUs by machine once the events so far have happened."""
        cluster = self._state.cluster
        free = [int(gpus) for gpus in cluster.free[0]]
        gone = {int(event.job.index): event.job for event in self.events if event.job and event.kind in GIVE_BACK}
        for job in gone.values():
            for machine, gpus in job.allocation.parts() if job.allocation is not None else []:
                free[machine] += gpus
        for event in self.events:
            if event.kind in (FAIL, REPAIR):
                whole = int(self._roster.topology.gpus[0][event.machine])
                free[int(event.machine)] = whole if event.kind == REPAIR else 0
        self._gone = set(gone)
        return free

    def _make_room(self, free: list[int], machine: int, gpus: int) -> None:
        for other in list(self._state.cluster.jobs_on[machine]):
            if free[machine] >= gpus:
                return
            wanted = self._roster.wanted.get(other.job_id)
            if int(other.index) in self._gone or wanted is None or wanted.placement is None:
                continue
            self._gone.add(int(other.index))
            self._fail(other, "another job has taken its GPUs")
            del self._roster.wanted[other.job_id]
            for place, held in other.allocation.parts() if other.allocation is not None else []:
                free[place] += held


GIVE_BACK = (FINISH, CANCEL, EVICT, START_FAILED)
