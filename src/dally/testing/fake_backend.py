"""A backend for tests: a cluster in memory on a clock that the test sets, which fails when told to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dally.cluster.topology import Topology, grid
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import JobByJob, ObservedJob, Placement
from dally.live.wall_clock import WallClock
from dally.sizes import read_sizes


def sizes_of(job: ObservedJob) -> tuple[int, ...]:
    """Numbers of GPUs that it may be started on."""
    spec = job.spec
    return (spec.gpus, *(read_sizes(spec.sizes, spec.gpus) if job.resizable else ()))


def cpus_on(spec: JobSpec, gpus: int) -> float:
    """CPUs that a job takes on a machine where it has so many GPUs."""
    return spec.cpus_per_gpu * gpus + spec.cpus_per_node


class FakeBackend(JobByJob):
    """Jobs run for `duration_s` seconds of `now_s` in all, stop `stop_s` after they are told to."""

    name = "fake"

    def __init__(self, racks: int = 4, machines: int = 4, gpus: int = 8, stop_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.stop_s = stop_s
        self.failing = ""  # what every call answers, if anything
        self.refusing: set[str] = set()  # jobs that it will not start
        self.unstoppable: set[str] = set()  # jobs that it will not stop
        self.blocking: dict[str, str] = {}  # jobs that its own rules keep from starting, and which
        self.ending: set[str] = set()  # jobs that end at the very moment they are told to stop
        self.gone: set[str] = set()  # machines that it no longer tells of
        self.unread: tuple[str, ...] = ()  # what it cannot read
        self.reservations: tuple[base.ObservedReservation, ...] = ()
        self.licences: dict[str, float] = {}
        self.starts: list[tuple[str, Placement]] = []
        self.preempts: list[str] = []
        self.orders_left = -1  # orders that it takes before whoever gives them dies; below 0: any number
        self.jobs: dict[str, ObservedJob] = {}
        self.left_s: dict[str, float] = {}
        self._submitted = 0
        self._term = 0
        self._topology = grid(racks, machines, gpus)
        self._machines = {
            name: base.ObservedMachine(name, int(count))
            for name, count in zip(self._topology.names[0], self._topology.gpus[0], strict=True)
        }
        self._since_s: dict[str, float] = {}  # running: since when; stopping: from when on it is queued
        self._promised: dict[str, Placement] = {}  # blocked jobs: where they start once nothing blocks them

    @property
    def term(self) -> int:
        """How many daemons have begun to lead it."""
        return self._term

    def begin_term(self) -> None:
        """Orders that were decided before are refused."""
        self._term += 1

    def topology(self) -> Topology:
        """As given."""
        return self._topology

    def snapshot(self) -> base.Observed:
        """How things stand at `now_s`."""
        self._answer()
        self._advance()
        machines = tuple(machine for name, machine in self._machines.items() if name not in self.gone)
        return base.Observed(
            tuple(self.jobs.values()), machines, self.unread, self._term, self.reservations, self.licences
        )

    def submit(self, request: base.Submission) -> str:
        """Take in a job, queued."""
        self._answer()
        self._submitted += 1
        job_id = str(self._submitted)
        resizable = self.resizes and bool(request.spec.sizes)
        self.jobs[job_id] = ObservedJob(job_id, base.QUEUED, request.spec, self.now_s, resizable=resizable)
        self.left_s[job_id] = request.spec.duration_s or 0.0
        return job_id

    def start_job(self, job_id: str, placement: Placement) -> None:
        """Runs at once; refuses what is not free, as a real cluster would."""
        self._answer()
        self._count_order()
        self._advance()
        job = self._known(job_id)
        if job.state == base.RUNNING and job.placement == placement:
            return
        if job.state != base.QUEUED or job_id in self.refusing:
            raise base.BackendError(f"job {job_id} cannot be started: it is {job.state}")
        free = self.free()
        short = [name for name, gpus in placement.items() if free.get(name, 0) < gpus]
        if short or sum(placement.values()) not in sizes_of(job):
            raise base.BackendError(f"job {job_id}: no such GPUs free on {', '.join(short) or 'these machines'}")
        self._check_needs(job, placement)
        if job_id in self.blocking:
            self._promised[job_id] = dict(placement)
            self.jobs[job_id] = replace(job, state=base.BLOCKED, reason=self.blocking[job_id])
            return
        self.starts.append((job_id, placement))
        self._since_s[job_id] = self.now_s
        self.jobs[job_id] = replace(job, state=base.RUNNING, placement=dict(placement))

    def preempt_job(self, job_id: str) -> None:
        """Stops, and is queued `stop_s` later; one that is blocked is called back."""
        self._answer()
        self._count_order()
        self._advance()
        self.preempts.append(job_id)
        job = self._known(job_id)
        if job.state == base.BLOCKED:
            self._become(job_id, base.QUEUED)
        if job.state == base.RUNNING and job_id in self.ending:
            self._become(job_id, base.FINISHED)
            return
        if job_id in self.unstoppable:
            raise base.BackendError(f"job {job_id} stays where it is")
        if job.state == base.RUNNING:
            self.left_s[job_id] -= self.now_s - self._since_s[job_id]
            self._since_s[job_id] = self.now_s + self.stop_s
            self.jobs[job_id] = replace(job, state=base.STOPPING)
            self._advance()

    def cancel_job(self, job_id: str) -> None:
        """Ends at once."""
        self._answer()
        if self._known(job_id).state not in base.ENDED:
            self._become(job_id, base.CANCELLED)

    def retry(self, job_id: str) -> None:
        """Queued at once."""
        self._answer()
        if self._known(job_id).state != base.FAILED:
            raise base.BackendError(f"job {job_id} has not failed")
        self._become(job_id, base.QUEUED)

    def drain(self, machine: str, why: str) -> None:
        """At once."""
        self._answer()
        self._machines[machine] = replace(self._machine(machine), state=base.DRAINING, reason=why)

    def resume(self, machine: str) -> None:
        """At once, unless it is down."""
        self._answer()
        if self._machine(machine).state == base.DOWN:
            raise base.BackendError(f"{machine} is down")
        self._machines[machine] = replace(self._machine(machine), state=base.UP, reason="")

    def wait(self, timeout_s: float) -> None:
        """Time passes only when the test says so."""

    # What a test does behind the scheduler's back.

    def hold(self, job_id: str) -> None:
        """Its user puts it on hold."""
        self._become(job_id, base.HELD)

    def resize(self, job_id: str, gpus: int) -> None:
        """Its user asks for another number of GPUs."""
        self.jobs[job_id] = self.jobs[job_id].with_gpus(gpus)

    def release(self, job_id: str) -> None:
        """And lets it go again."""
        self._become(job_id, base.QUEUED)

    def block(self, job_id: str, reason: str) -> None:
        """Its own rules keep a job from starting that was not told to start yet."""
        self._become(job_id, base.BLOCKED)
        self.jobs[job_id] = replace(self.jobs[job_id], reason=reason)

    def requeue(self, job_id: str) -> None:
        """Somebody stops it; it is queued."""
        self._become(job_id, base.QUEUED)

    def fail(self, job_id: str, reason: str) -> None:
        """It fails."""
        self._become(job_id, base.FAILED)
        self.jobs[job_id] = replace(self.jobs[job_id], reason=reason)

    def put(self, job_id: str, placement: Placement) -> None:
        """Somebody starts it."""
        self._become(job_id, base.RUNNING)
        self._since_s[job_id] = self.now_s
        self.jobs[job_id] = replace(self.jobs[job_id], placement=placement)

    def set_machine(self, name: str, state: str) -> None:
        """A machine goes down, drains or comes back; jobs of one that goes down are queued."""
        self._machines[name] = replace(self._machines[name], state=state)
        for job_id, job in self.jobs.items():
            if state == base.DOWN and name in job.placement:
                self._become(job_id, base.QUEUED)

    def equip(self, name: str, **facts: Any) -> None:
        """A machine has these CPUs, features and so on, or others take some of them."""
        self._machines[name] = replace(self._machines[name], **facts)

    def allow(self, job_id: str, *names: str) -> None:
        """Its rules let the job run on these machines alone."""
        self.jobs[job_id] = replace(self.jobs[job_id], allowed=frozenset(names))

    def lose(self, name: str) -> None:
        """A machine goes down, and it goes on telling that jobs run there."""
        self._machines[name] = replace(self._machines[name], state=base.DOWN)

    def forget(self, job_id: str) -> None:
        """It no longer tells of a job that ended."""
        del self.jobs[job_id], self.left_s[job_id]
        self._since_s.pop(job_id, None)

    def held(self) -> dict[str, int]:
        """GPUs that jobs have, by machine."""
        result = dict.fromkeys(self._machines, 0)
        for job in self.jobs.values():
            for name, gpus in job.placement.items():
                result[name] += gpus
        return result

    def free(self) -> dict[str, int]:
        """GPUs that a job could start on now, by machine."""
        held = self.held()
        return {name: at.gpus - held[name] if at.state == base.UP else 0 for name, at in self._machines.items()}

    def _check_needs(self, job: ObservedJob, placement: Placement) -> None:
        """Refuse a job on machines that it may not use, or that lack CPUs for it."""
        running = [one for one in self.jobs.values() if one.managed and one.placement]
        for name, gpus in placement.items():
            machine = self._machines[name]
            taken = machine.cpus_taken + cpus_on(job.spec, gpus)
            taken += sum(cpus_on(one.spec, one.placement[name]) for one in running if name in one.placement)
            if machine.cpus is not None and taken > machine.cpus:
                raise base.BackendError(f"job {job.job_id}: {taken:g} CPUs of {name}, which has {machine.cpus:g}")
            if job.allowed is not None and name not in job.allowed:
                raise base.BackendError(f"job {job.job_id} may not run on {name}")

    def _count_order(self) -> None:
        if self.orders_left == 0:
            raise KeyboardInterrupt
        self.orders_left -= 1

    def _answer(self) -> None:
        if self.failing:
            raise base.BackendError(self.failing)

    def _machine(self, name: str) -> base.ObservedMachine:
        if name not in self._machines:
            raise base.BackendError(f"there is no machine {name}")
        return self._machines[name]

    def _known(self, job_id: str) -> ObservedJob:
        if job_id not in self.jobs:
            raise base.BackendError(f"there is no job {job_id}")
        return self.jobs[job_id]

    def _advance(self) -> None:
        for job_id, job in self.jobs.items():
            if job.state == base.STOPPING and self.now_s >= self._since_s[job_id]:
                self._become(job_id, base.QUEUED)
            elif job.state == base.RUNNING and self.now_s - self._since_s[job_id] >= self.left_s[job_id]:
                self._become(job_id, base.FINISHED)
            elif job.state == base.BLOCKED and job_id in self._promised and job_id not in self.blocking:
                self._start_unblocked(job_id)

    def _start_unblocked(self, job_id: str) -> None:
        """As a real cluster does with a job that it was told to start, whoever has its GPUs by then."""
        free, placement = self.free(), self._promised[job_id]
        if all(free.get(name, 0) >= gpus for name, gpus in placement.items()):
            self.put(job_id, placement)

    def _become(self, job_id: str, state: str) -> None:
        self._promised.pop(job_id, None)
        self.jobs[job_id] = replace(self.jobs[job_id], state=state, placement={}, reason="")


class FakeClock(WallClock):
    """Shows what the backend's clock shows; second 0 is 1970."""

    def __init__(self, backend: FakeBackend) -> None:
        super().__init__(0.0)
        self._backend = backend

    def now(self) -> float:
        """Seconds of the backend's clock."""
        return self._backend.now_s
