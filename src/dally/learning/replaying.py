"""Replays of recorded jobs under any policy, on the cluster and the network of a scenario."""

from __future__ import annotations

from collections.abc import Sequence

from dally.cluster.capacity import Cluster
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.gym.windows import fresh_job
from dally.learning.nightly import ReplayedJob
from dally.model import FINISHED, Job
from dally.policies.registry import build
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import Chosen


class Replays:
    """The jobs of a trace, and runs of any of them from an empty cluster."""

    def __init__(self, scenario: Scenario) -> None:
        simulation, _ = assemble(scenario)
        self.jobs = simulation.jobs
        self._state = simulation.state

    def simulation(self, jobs: Sequence[Job], chosen: Chosen) -> Simulation:
        """A run of these jobs, before its first event."""
        return self._simulation([fresh_job(job, index, 0.0) for index, job in enumerate(jobs)], chosen)

    def __call__(self, chosen: Chosen, rows: Sequence[ReplayedJob]) -> list[float]:
        """Completion times of the jobs under the policy."""
        jobs = []
        for index, row in enumerate(rows):
            job = fresh_job(row.job, index, 0.0)
            job.submit_s = job.lost_s = job.since_s = row.submit_s
            job.duration_s = row.duration_s
            jobs.append(job)
        simulation = self._simulation(jobs, chosen)
        simulation.run()
        left = sum(job.status != FINISHED for job in jobs)
        if left:
            raise InputError(f"{chosen.label()}: {left} jobs never finished in the replay")
        return [job.finish_s - job.submit_s for job in jobs]

    def _simulation(self, jobs: list[Job], chosen: Chosen) -> Simulation:
        state = self._state
        policy = build(chosen.name, chosen.settings)
        cluster = Cluster(state.cluster.topology, state.cluster.network)
        return Simulation(jobs, cluster, policy, state.speed.anew(policy.link_sharing), state.costs, Failures())
