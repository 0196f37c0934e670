"""The jobs that the daemon looks after: what the backend reports of them, and what is pending."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from dally.cluster.feasibility.statement import without_constraints
from dally.cluster.topology import Topology
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import Observed, ObservedJob, ObservedMachine, Placement
from dally.live.facts import allocation_of, job_of
from dally.live.reconcile.pending import BLOCKED, RUN, STOP, PendingOrder
from dally.model import RUNNING, Allocation, Job


class Settled(NamedTuple):
    """A job as it was when the table had nothing to do about it."""

    observed: ObservedJob
    job: Job
    status: int
    requested: int
    allocation: Allocation | None
    permits_version: int


class Roster:
    """Jobs that have not ended, by the backend's name and by the engine's number."""

    def __init__(self, topology: Topology, usual_model: str, moment_s: Callable[[float], float]) -> None:
        """`moment_s` puts the backend's times on the engine's clock."""
        self.topology = topology
        self.machines = {name: number for number, name in enumerate(topology.names[0])}
        self.jobs: dict[str, Job] = {}
        self.observed: dict[str, ObservedJob] = {}  # as of the latest snapshot
        self.orders: dict[str, PendingOrder] = {}
        self.non_preemptible: dict[str, str] = {}  # jobs that cannot be stopped as things are, and why
        self.unschedulable: dict[str, tuple[ObservedJob, str]] = {}  # jobs that no machine could ever take, and why
        self.outgrown: dict[
            str, str
        ] = {}  # jobs of the engine of which that is so since machines have gone, and why
        self.snapshot = Observed((), ())
        self.fits_nowhere: Callable[[ObservedJob], str] = lambda observed: ""  # why no machines could hold a job
        self.permits_version = 0  # counts changes after which `fits_nowhere` may say something else
        self.next_number = 0
        self.usual_model = usual_model
        self._moment_s = moment_s
        self._by_number: dict[int, Job] = {}
        self._closed: tuple[tuple[ObservedMachine, ...], frozenset[str]] = (), frozenset()
        self._settled: dict[str, Settled] = {}  # jobs of which the table had nothing to do
        self._allowed: dict[frozenset[str], frozenset[int]] = {}  # sets of machines by their names

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs.values())

    def admit(self, observed: ObservedJob) -> Job:
        """A job that is new to us."""
        job = self.job_of(observed)
        self.enter(job, observed)
        return job

    def job_of(self, observed: ObservedJob) -> Job:
        """The engine's job, with the next number."""
        spec, allowed = self.constraints_of(observed)
        observed = observed if spec is observed.spec else replace(observed, spec=spec)
        job = job_of(observed, self.next_number, self._moment_s(observed.submit_s), self.usual_model)
        job.allowed = allowed
        return job

    def constraints_of(self, observed: ObservedJob) -> tuple[JobSpec, frozenset[int] | None]:
        """What counts of what the job states, and the machines that its backend allows it, each set once."""
        spec = observed.spec if observed.managed else without_constraints(observed.spec)
        names = observed.allowed if observed.managed else None
        if names is None:
            return spec, None
        if names not in self._allowed:
            self._allowed[names] = frozenset(self.machines[name] for name in names if name in self.machines)
        return spec, self._allowed[names]

    def enter(self, job: Job, observed: ObservedJob) -> None:
        """A job, new or known from before a restart."""
        self.jobs[job.job_id] = job
        self.observed[job.job_id] = observed
        self._by_number[int(job.index)] = job
        self.next_number = max(self.next_number, int(job.index) + 1)

    def dismiss(self, job: Job) -> None:
        """The job has ended."""
        for jobs in (self.jobs, self.observed, self.orders, self._settled):
            jobs.pop(job.job_id, None)
        self._by_number.pop(int(job.index), None)

    def settle(self, job: Job, observed: ObservedJob) -> None:
        """The table has nothing to do about the job as it is, and as it is reported."""
        self._settled[job.job_id] = Settled(
            observed, job, int(job.status), int(job.requested), job.allocation, self.permits_version
        )

    def is_settled(self, job: Job, observed: ObservedJob) -> bool:
        """Whether that is still so: nothing is pending, and all that guards look at is the same."""
        settled = self._settled.get(job.job_id)
        if settled is None or settled[0] is not observed or settled[1] is not job:
            return False
        _, _, status, requested, allocation, version = settled
        same = status == job.status and requested == job.requested and allocation is job.allocation
        return same and version == self.permits_version and job.job_id not in self.orders

    def numbered(self, number: int) -> Job | None:
        """The job of that number, unless it has ended."""
        return self._by_number.get(number)

    def desire(self, job_id: str, placement: Placement | None, now: float) -> None:
        """From now on the job is to be there, or to stop. How often it was blocked is not forgotten."""
        before = self.orders.get(job_id)
        order = PendingOrder(job_id, STOP if placement is None else RUN, now, placement)
        order.blocks = before.blocks if before is not None else 0
        self.orders[job_id] = order

    def desired(self, job_id: str) -> str:
        """What is pending of the job; empty: nothing."""
        order = self.orders.get(job_id)
        return "" if order is None else order.desired

    def is_stopping(self, job: Job) -> bool:
        """Whether the job is to stop, and has its GPUs in the books until the backend says that it has."""
        return job.status == RUNNING and self.desired(job.job_id) == STOP

    def blocked_by(self, job_id: str) -> str | None:
        """Why the cluster's own rules keep the job from starting; None: they do not."""
        order, observed = self.orders.get(job_id), self.observed[job_id]
        if observed.state == base.BLOCKED:
            return observed.reason
        return order.reason if order is not None and order.desired == BLOCKED else None

    def closed(self) -> frozenset[str]:
        """Machines that take no new jobs."""
        of, closed = self._closed
        if of is not self.snapshot.machines:
            closed = frozenset(row.name for row in self.snapshot.machines if row.state != base.UP)
            self._closed = self.snapshot.machines, closed
        return closed

    def allocation(self, placement: Placement) -> Allocation | None:
        """Where that is on the cluster's tree; None if it has no such machine."""
        return allocation_of(self.topology, self.machines, placement)
