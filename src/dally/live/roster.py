"""The jobs that the daemon looks after, and what it wants of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dally.cluster.topology import Topology
from dally.live.backends import base
from dally.live.backends.base import ClusterJob, ClusterState, Placement
from dally.live.facts import allocation_of, job_of
from dally.live.wanted import Wanted
from dally.model import RUNNING, Allocation, Job


class Roster:
    """Jobs that have not ended, by the backend's name and by the engine's number, with what was told of them."""

    def __init__(self, topology: Topology, usual_model: str, moment_s: Callable[[float], float]) -> None:
        """`moment_s` puts the backend's times on the engine's clock."""
        self.topology = topology
        self.machines = {name: number for number, name in enumerate(topology.names[0])}
        self.jobs: dict[str, Job] = {}
        self.told: dict[str, ClusterJob] = {}  # as of the latest snapshot
        self.wanted: dict[str, Wanted] = {}
        self.kept_until_s: dict[str, float] = {}  # jobs that the backend would not stop: when it is asked again
        self.stays: dict[str, str] = {}  # jobs that nobody can stop as things are, and why: see staying.py
        self.latest = ClusterState((), ())
        self.next_number = 0
        self.usual_model = usual_model
        self._moment_s = moment_s
        self._by_number: dict[int, Job] = {}

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs.values())

    def admit(self, told: ClusterJob) -> Job:
        """A job that is new to us."""
        job = job_of(told, self.next_number, self._moment_s(told.submit_s), self.usual_model)
        self.enter(job, told)
        return job

    def enter(self, job: Job, told: ClusterJob) -> None:
        """A job, new or known from before a restart."""
        self.jobs[job.job_id] = job
        self.told[job.job_id] = told
        self._by_number[int(job.index)] = job
        self.next_number = max(self.next_number, int(job.index) + 1)

    def dismiss(self, job: Job) -> None:
        """The job has ended."""
        self.jobs.pop(job.job_id, None)
        self.told.pop(job.job_id, None)
        self.wanted.pop(job.job_id, None)
        self.kept_until_s.pop(job.job_id, None)
        self._by_number.pop(int(job.index), None)

    def numbered(self, number: int) -> Job | None:
        """The job of that number, unless it has ended."""
        return self._by_number.get(number)

    def want(self, job_id: str, placement: Placement | None, now: float) -> None:
        """From now on the job is to be there, or to wait."""
        self.wanted[job_id] = Wanted(job_id, placement, now)

    def is_stopping(self, job: Job) -> bool:
        """Whether the job is to stop, and has its GPUs in the books until the backend says that it has."""
        wanted = self.wanted.get(job.job_id)
        return wanted is not None and wanted.placement is None and job.status == RUNNING

    def closed(self) -> set[str]:
        """Machines that take no new jobs."""
        return {machine.name for machine in self.latest.machines if machine.state != base.UP}

    def allocation(self, placement: Placement) -> Allocation | None:
        """Where that is on the cluster's tree; None if it has no such machine."""
        return allocation_of(self.topology, self.machines, placement)
