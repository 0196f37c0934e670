"""What is kept of a job once it has come: enough to expect others like it."""

from __future__ import annotations

from dataclasses import dataclass

from dally.model import NEVER, Job


@dataclass(frozen=True)
class PastJob:
    """A job that came, and how long it took once that is known."""

    number: int
    submit_s: float
    gpus: int
    duration_s: float = NEVER  # of work at full speed; NEVER: it has not ended
    stated_s: float = NEVER  # what its user expected
    user: str = ""
    name: str = ""
    model: str = ""
    group: int = 1
    priority: float = 0.0
    limit_s: float = NEVER
    account: str = ""
    partition: str = ""
    qos: str = ""
    queue: str = ""
    gpu_type: str = ""

    def again(self, number: int, submit_s: float, duration_s: float) -> Job:
        """A job like this one that comes at another time."""
        job = Job(
            number, f"~{number}", submit_s, self.gpus, duration_s, self.model, self.user, self.priority, self.name
        )
        job.group = self.group
        job.limit_s = self.limit_s
        job.account = self.account
        job.partition = self.partition
        job.qos = self.qos
        job.queue = self.queue
        job.gpu_type = self.gpu_type
        return job


def past_of(job: Job, duration_s: float = NEVER, stated_s: float = NEVER) -> PastJob:
    """What is kept of the engine's job."""
    return PastJob(
        int(job.index), job.submit_s, int(job.gpus), duration_s, stated_s, job.user, job.name, job.model,
        int(job.group), job.priority, job.limit_s, job.account, job.partition, job.qos,
        job.queue, job.gpu_type,
    )  # fmt: skip
