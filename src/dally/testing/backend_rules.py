"""check_backend: what every backend must keep, on a cluster of its own with nothing on it."""

from __future__ import annotations

import time
from collections.abc import Callable

from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import (
    Backend,
    BackendError,
    Drains,
    ObservedJob,
    Placement,
    StartOrder,
    Submission,
    Submits,
)  # fmt: skip
from dally.testing.invariants import InvariantError

LONG_S = 3600.0
NO_JOB = "999999"


def check_backend(make: Callable[[], Backend], patience_s: float = 60.0) -> None:
    """Raise unless the backend that `make` returns keeps its contract; `patience_s` is how long an order may take.

    The cluster has two machines of two GPUs or more, all of them up and free; the jobs submitted here are
    cancelled at the end.
    """
    backend = make()
    bench = BackendBench(backend, patience_s)
    try:
        check_machines(bench)
        check_life(bench)
        check_refusals(bench)
        check_end(bench)
        check_term(bench)
        check_draining(bench)
    finally:
        bench.clear()
        backend.close()


class BackendBench:
    """A backend under test."""

    def __init__(self, backend: Backend, patience_s: float) -> None:
        self.backend = backend
        self.patience_s = patience_s
        self.submitted: list[str] = []
        names = backend.topology().names[0]
        counts = [int(count) for count in backend.topology().gpus[0]]
        self.machines = dict(zip(names, counts, strict=True))

    def submit(self, gpus: int, seconds: float = LONG_S) -> str:
        """A job that runs that long; at 0 it ends at once."""
        command = ("sleep", f"{seconds:g}")
        spec = JobSpec(gpus, model="resnet50", name="check", duration_s=seconds)
        require("submit", isinstance(self.backend, Submits), "it cannot take in the jobs to be checked with")
        assert isinstance(self.backend, Submits)
        job_id = self.backend.submit(Submission(spec, command))
        self.submitted.append(job_id)
        return job_id

    def start(self, job_id: str, placement: Placement) -> None:
        """Start one job, in the present term; a BackendError if that is refused."""
        _taken(self.backend.start([StartOrder(job_id, placement)], self.backend.term))

    def preempt(self, job_id: str) -> None:
        """Preempt one job likewise."""
        _taken(self.backend.preempt([job_id], self.backend.term))

    def cancel(self, job_id: str) -> None:
        """Cancel one job likewise."""
        _taken(self.backend.cancel([job_id], self.backend.term))

    def job(self, job_id: str) -> ObservedJob | None:
        """As the backend tells of it now."""
        result = [job for job in self.backend.snapshot().jobs if job.job_id == job_id]
        require("snapshot", len(result) <= 1, f"job {job_id} appears {len(result)} times in a snapshot")
        return result[0] if result else None

    def become(self, job_id: str, state: str, placement: Placement) -> ObservedJob:
        """The job once it is in that state and has these GPUs, or an error when patience ends."""
        until_s = time.monotonic() + self.patience_s
        while True:
            job = self.job(job_id)
            if job is not None and job.state == state and job.placement == placement:
                return job
            if time.monotonic() > until_s:
                result = "gone" if job is None else f"{job.state} on {job.placement}"
                raise InvariantError(state, f"job {job_id} should be {state} on {placement}, and is {result}")
            self.backend.wait(0.2)

    def machine_becomes(self, name: str, state: str, why: str) -> None:
        """The machine is in that state, and the reason that it tells has `why` in it; or an error."""
        until_s = time.monotonic() + self.patience_s
        while True:
            result = [machine for machine in self.backend.snapshot().machines if machine.name == name]
            if result and result[0].state == state and why in result[0].reason:
                return
            if time.monotonic() > until_s:
                raise InvariantError("drain", f"{name} should be {state} ({why}), and is {result}")
            self.backend.wait(0.2)

    def refuses(self, what: str, order: Callable[[], None]) -> None:
        """An order that cannot be carried out is answered by a BackendError of one line."""
        try:
            order()
        except BackendError as error:
            require("refuse", bool(str(error)) and "\n" not in str(error), f"{what}: must say why in one line")
        except Exception as error:
            raise InvariantError(
                "refuse", f"{what}: {type(error).__name__}, not a BackendError: {error}"
            ) from error
        else:
            raise InvariantError("refuse", f"{what}: not refused")

    def clear(self) -> None:
        """Cancel what is left."""
        for job_id in self.submitted:
            try:
                self.cancel(job_id)
            except BackendError:
                continue  # gone


def _taken(answers: list[str]) -> None:
    require("answers", len(answers) == 1, f"one order has {len(answers)} answers")
    if answers[0]:
        raise BackendError(answers[0])


def require(rule: str, holds: bool, otherwise: str) -> None:
    """An InvariantError unless it holds."""
    if not holds:
        raise InvariantError(rule, otherwise)


def check_machines(bench: BackendBench) -> None:
    """The topology is about the machines of the snapshot."""
    record = {machine.name: machine.gpus for machine in bench.backend.snapshot().machines}
    require("topology", record == bench.machines, f"the topology has {bench.machines}, the snapshot {record}")


def check_life(bench: BackendBench) -> None:
    """Queued, started, started again, preempted, started elsewhere, cancelled."""
    first, second = list(bench.machines)[:2]
    job_id = bench.submit(2)
    job = bench.become(job_id, base.QUEUED, {})
    require("fields", job.spec.gpus == 2, f"2 GPUs were asked for, and it says {job.spec.gpus}")
    require("fields", job.spec.model == "resnet50", f"the model was resnet50, and it says {job.spec.model!r}")
    stated_s = job.spec.duration_s
    require("fields", stated_s == LONG_S, f"duration_s was {LONG_S}, and it says {stated_s}")
    require("fields", job.managed, "a job that it takes in is managed")
    bench.start(job_id, {first: 2})
    bench.start(job_id, {first: 2})
    bench.become(job_id, base.RUNNING, {first: 2})
    bench.start(job_id, {first: 2})
    bench.become(job_id, base.RUNNING, {first: 2})
    bench.preempt(job_id)
    bench.preempt(job_id)
    again = bench.become(job_id, base.QUEUED, {})
    require("submit_s", again.submit_s == job.submit_s, "a preemption must not change when it was submitted")
    require("submit_s", job.submit_s <= time.time() + 1.0, "it cannot have been submitted in the future")
    bench.start(job_id, {first: 1, second: 1})
    bench.become(job_id, base.RUNNING, {first: 1, second: 1})
    check_not_twice(bench, job_id, first)
    bench.cancel(job_id)
    gone_or(bench, job_id, base.CANCELLED)


def check_not_twice(bench: BackendBench, holder: str, machine: str) -> None:
    """GPUs that a job has are not given to another, and are free when it has stopped."""
    whole = bench.machines[machine]
    other = bench.submit(whole)
    bench.become(other, base.QUEUED, {})
    bench.refuses(f"{whole} GPUs of {machine}, of which job {holder} has one",
                  lambda: bench.start(other, {machine: whole}))  # fmt: skip
    bench.become(other, base.QUEUED, {})
    bench.preempt(holder)
    bench.become(holder, base.QUEUED, {})
    bench.start(other, {machine: whole})
    bench.become(other, base.RUNNING, {machine: whole})
    bench.cancel(other)
    gone_or(bench, other, base.CANCELLED)


def check_refusals(bench: BackendBench) -> None:
    """What does not exist, or does not fit."""
    machine = next(iter(bench.machines))
    job_id = bench.submit(1)
    bench.become(job_id, base.QUEUED, {})
    start = bench.start
    bench.refuses("a machine that does not exist", lambda: start(job_id, {"no-such-machine": 1}))
    bench.refuses("more GPUs than the job asks for", lambda: start(job_id, {machine: 2}))
    bench.refuses("no GPUs at all", lambda: start(job_id, {}))
    bench.become(job_id, base.QUEUED, {})
    bench.refuses("start of an unknown job", lambda: start(NO_JOB, {machine: 1}))
    bench.refuses("preemption of an unknown job", lambda: bench.preempt(NO_JOB))
    bench.refuses("cancelling an unknown job", lambda: bench.cancel(NO_JOB))
    bench.cancel(job_id)
    gone_or(bench, job_id, base.CANCELLED)
    bench.refuses("start of a job that was cancelled", lambda: start(job_id, {machine: 1}))


def check_end(bench: BackendBench) -> None:
    """A job that runs to its end is finished and holds nothing."""
    machine = next(iter(bench.machines))
    job_id = bench.submit(1, 0.0)
    bench.become(job_id, base.QUEUED, {})
    bench.start(job_id, {machine: 1})
    gone_or(bench, job_id, base.FINISHED)


def check_term(bench: BackendBench) -> None:
    """Orders that were decided while another daemon led are refused, all of them."""
    backend, machine = bench.backend, next(iter(bench.machines))
    job_id = bench.submit(1)
    bench.become(job_id, base.QUEUED, {})
    term = backend.snapshot().term
    require("term", term == backend.term, f"it is term {backend.term}, and the snapshot says {term}")
    orders = [StartOrder(job_id, {machine: 1})]
    bench.refuses("a start of an earlier term", lambda: void(backend.start(orders, term - 1)))
    bench.refuses("a preemption of an earlier term", lambda: void(backend.preempt([job_id], term - 1)))
    bench.refuses("cancelling in an earlier term", lambda: void(backend.cancel([job_id], term - 1)))
    bench.become(job_id, base.QUEUED, {})
    bench.cancel(job_id)
    gone_or(bench, job_id, base.CANCELLED)


def void(_: object) -> None:
    """Nothing: for what is called for what it raises."""


def check_draining(bench: BackendBench) -> None:
    """On a machine that drains what runs goes on and nothing new starts, until it is resumed.

    A backend may leave both to the cluster's own tools.
    """
    backend = bench.backend
    if not isinstance(backend, Drains):
        return
    machine = next(iter(bench.machines))
    job_id, other = bench.submit(1), bench.submit(1)
    for one in (job_id, other):
        bench.become(one, base.QUEUED, {})
    bench.start(job_id, {machine: 1})
    bench.become(job_id, base.RUNNING, {machine: 1})
    try:
        backend.drain(machine, "first reason")
        backend.drain(machine, "check of draining")
        bench.machine_becomes(machine, base.DRAINING, "check of draining")
        bench.become(job_id, base.RUNNING, {machine: 1})
        bench.refuses(f"a start on {machine}, which drains", lambda: bench.start(other, {machine: 1}))
        bench.become(other, base.QUEUED, {})
    finally:
        backend.resume(machine)
    backend.resume(machine)
    bench.machine_becomes(machine, base.UP, "")
    bench.start(other, {machine: 1})
    bench.become(other, base.RUNNING, {machine: 1})
    bench.refuses("draining a machine that does not exist", lambda: backend.drain("no-such-machine", "check"))
    bench.refuses("resuming a machine that does not exist", lambda: backend.resume("no-such-machine"))
    for one in (job_id, other):
        bench.cancel(one)
        gone_or(bench, one, base.CANCELLED)


def gone_or(bench: BackendBench, job_id: str, state: str) -> None:
    """The job ends that way; a backend may forget it."""
    until_s = time.monotonic() + bench.patience_s
    job = bench.job(job_id)
    while job is not None and job.state not in base.ENDED and time.monotonic() < until_s:
        bench.backend.wait(0.2)
        job = bench.job(job_id)
    ended = job is None or (job.state == state and not job.placement)
    require("end", ended, f"job {job_id} should be {state}, and is {job and job.state} on {job and job.placement}")
