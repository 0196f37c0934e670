"""Windows of a trace: runs of so many jobs in a row, apart in time for training, validation and test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dally.cluster.capacity import Cluster
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.errors import InputError, unknown
from dally.metrics.bounds.jct import jct_bound_s
from dally.model import Job
from dally.policies.base import Policy
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario

# Shares of the jobs in order of submission: what is learned on earlier jobs is judged on later ones.
SPLITS: Final = {"train": (0.0, 0.6), "validation": (0.6, 0.8), "test": (0.8, 1.0), "all": (0.0, 1.0)}


class Reference(NamedTuple):
    """What a window's jobs take under the baseline, and at least under any policy: mean completion times."""

    baseline_s: float
    bound_s: float


@dataclass
class TraceWindows:
    """The windows of one split. Each begins with an empty cluster and ends with its last job."""

    scenario: Scenario
    window_jobs: int = 256
    split: str = "train"
    _references: dict[tuple[int, str], Reference] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise unknown("split", self.split, SPLITS)
        if self.window_jobs < 1:
            raise InputError(f"window_jobs {self.window_jobs}: must be 1 or more")
        simulation, _ = assemble(self.scenario)
        jobs = simulation.jobs
        first, last = (round(share * len(jobs)) for share in SPLITS[self.split])
        self._jobs = jobs[first:last]
        self._state = simulation.state
        self.topology = simulation.state.cluster.topology
        self.count = len(self._jobs) // self.window_jobs
        if self.count == 0:
            raise InputError(
                f"{self.scenario.trace}: split {self.split} has {len(self._jobs)} jobs, fewer than the "
                f"{self.window_jobs} of a window"
            )

    def jobs(self, number: int) -> list[Job]:
        """The window's jobs as they are before they come; its first one comes at 0."""
        chosen = self._jobs[number * self.window_jobs : (number + 1) * self.window_jobs]
        begin_s = chosen[0].submit_s
        return [fresh_job(job, index, begin_s) for index, job in enumerate(chosen)]

    def simulation(self, number: int, policy: Policy) -> Simulation:
        """The window's run under that policy, before its first event."""
        network = self._state.cluster.network
        speed = self._state.speed.anew(policy.link_sharing)
        cluster = Cluster(self.topology, network)
        return Simulation(self.jobs(number), cluster, policy, speed, self._state.costs, Failures())

    def reference(self, number: int, baseline: str, policy: Policy) -> Reference:
        """What the named baseline makes of the window, worked out once."""
        key = (number, baseline)
        if key not in self._references:
            simulation = self.simulation(number, policy)
            simulation.run()
            if simulation.stuck:
                raise InputError(f"baseline {baseline}: leaves jobs of window {number} unfinished")
            bound_s = jct_bound_s(self.jobs(number), self.topology.total_gpus())
            self._references[key] = Reference(mean_jct_s(simulation.jobs), bound_s)
        return self._references[key]


def mean_jct_s(jobs: list[Job]) -> float:
    """The mean completion time of jobs that are done."""
    return sum(job.finish_s - job.submit_s for job in jobs) / len(jobs)


def fresh_job(job: Job, index: int, begin_s: float) -> Job:
    """The job as it is before it comes, on a clock that starts then."""
    result = Job(index, job.job_id, job.submit_s - begin_s, job.gpus, job.duration_s, job.model, job.spec)
    result.group = job.group
    return result
