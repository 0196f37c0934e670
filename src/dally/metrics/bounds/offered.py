"""What the bounds know of a workload: when each gang came, its size and the least time it needs."""

from __future__ import annotations

from math import isfinite

from librt.vecs import append, vec

from dally.model import Job


class Workload:
    """The jobs in order of submission, one entry of each list per job; times count from the first submission."""

    __slots__ = ("duration_s", "gpus", "size", "submit_s")

    def __init__(self, gpus: int) -> None:
        self.gpus: float = float(gpus)  # of the cluster
        self.submit_s: vec[float] = vec[float]()
        self.size: vec[float] = vec[float]()  # GPUs of the gang
        self.duration_s: vec[float] = vec[float]()  # at its best possible speed

    def __len__(self) -> int:
        return len(self.submit_s)

    def add(self, submit_s: float, size: float, duration_s: float) -> None:
        """One more job, submitted no earlier than those before."""
        if not isfinite(submit_s + duration_s):
            raise ValueError(
                f"a job of {duration_s} s, submitted at {submit_s} s: no bound knows what to do with it"
            )
        self.submit_s = append(self.submit_s, submit_s)
        self.size = append(self.size, size)
        self.duration_s = append(self.duration_s, duration_s)

    def durations_s(self) -> float:
        """The sum of all durations."""
        total = 0.0
        for duration_s in self.duration_s:
            total += duration_s
        return total


def workload_of(jobs: list[Job], gpus: int, slowdowns: list[float] | None = None) -> Workload:
    """Jobs in order of submission; `slowdowns`: by how much no placement can do better than each duration."""
    workload = Workload(gpus)
    for place in range(len(jobs)):
        job = jobs[place]
        slowdown = 1.0 if slowdowns is None else slowdowns[place]
        workload.add(job.submit_s - jobs[0].submit_s, float(job.gpus), job.duration_s * slowdown)
    return workload
