"""What is kept of a job once it has come: enough to expect others like it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dally.job_spec import JobSpec
from dally.model import NEVER, Job, job_of_spec


@dataclass(frozen=True)
class PastJob:
    """A job that came, and how long it took once that is known. Its model is one that there is a profile of."""

    number: int
    submit_s: float
    spec: JobSpec
    duration_s: float = NEVER  # of work at full speed; NEVER: it has not ended

    @property
    def stated_s(self) -> float:
        """What its user expected; NEVER: nothing."""
        return NEVER if self.spec.duration_s is None else self.spec.duration_s

    def again(self, number: int, submit_s: float, duration_s: float) -> Job:
        """A job like this one that comes at another time."""
        return job_of_spec(number, f"~{number}", submit_s, self.spec, duration_s)


def past_of(job: Job, duration_s: float = NEVER) -> PastJob:
    """What is kept of the engine's job."""
    spec = replace(job.spec, gpus=int(job.gpus), group=int(job.group), model=job.model)
    return PastJob(int(job.index), job.submit_s, spec, duration_s)
