"""Overrides of delays: for how long operators let gangs decline farther places, and which jobs take any by now."""

from __future__ import annotations

from dally.model import INFINITY, NEVER, WAITING, Job
from dally.policies.delay_timers import DelayOverrides
from dally.policies.queue import Queue


class JobDelayOverrides(DelayOverrides):
    """Delays by job, or by size for jobs without one of their own. For the rest the policy has its own limits."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs: dict[int, Job] = {}  # that wait

    def anything(self) -> bool:
        """Whether there are any: mostly not, and then no pass is to cost more for it."""
        return len(self._jobs) > 0 or len(self.sizes) > 0

    def waits(self, job: Job) -> None:
        """The job waits."""
        if job.delay_until_s >= 0.0:
            self._jobs[int(job.index)] = job
        else:
            self.leaves(job)

    def leaves(self, job: Job) -> None:
        """It waits no more."""
        if self._jobs:
            self._jobs.pop(int(job.index), None)

    def until_s(self, job: Job) -> float:
        """Until when the job declines farther places; NEVER: there is no override."""
        if job.delay_until_s >= 0.0:
            return job.delay_until_s
        wait_s = self.sizes.get(int(job.gpus), -1.0) if self.sizes else -1.0
        return job.lost_s + wait_s if wait_s >= 0.0 else NEVER

    def takers(self, queue: Queue, now: float) -> list[Job]:
        """Waiting jobs whose delay is over, in the order of the queue."""
        jobs = [job for job in self._waiting(queue) if self.until_s(job) <= now]
        jobs.sort(key=lambda job: (queue.key(job), queue.tie(job), int(job.index)))
        return jobs

    def next_s(self, queue: Queue, now: float) -> float:
        """When the next delay is over."""
        soonest = INFINITY
        for job in self._waiting(queue):
            until_s = self.until_s(job)
            if now < until_s < soonest:
                soonest = until_s
        return soonest

    def _waiting(self, queue: Queue) -> list[Job]:
        """Waiting jobs that an override is about."""
        jobs = [job for job in self._jobs.values() if job.status == WAITING and queue.shows(job)]
        if self.sizes:
            jobs += [
                job for job in queue.jobs() if int(job.gpus) in self.sizes and int(job.index) not in self._jobs
            ]
        return jobs
