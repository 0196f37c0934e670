"""Jobs that came: enough to expect others like them, at the same hours."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from random import Random
from typing import Final

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


DAY_S: Final = 86400.0
BLOCK_S: Final = 6 * 3600.0  # bursts stay whole, days get mixed
DAYS: Final = 7


class ArrivalBlocks:
    """Submissions of the last days. A block of hours to come is that of one of these days, drawn at random."""

    def __init__(self) -> None:
        self._jobs: list[PastJob] = []
        self._moments_s: list[float] = []
        self._places: dict[int, int] = {}

    def came(self, job: PastJob) -> None:
        """A job was submitted, or is known better by now."""
        place = self._places.get(job.number)
        if place is not None:
            self._jobs[place] = job
            return
        self._places[job.number] = len(self._jobs)
        self._jobs.append(job)
        self._moments_s.append(max(job.submit_s, self._moments_s[-1]) if self._moments_s else job.submit_s)

    def forget(self, before_s: float) -> None:
        """Those who came before that say nothing any more."""
        first = bisect_left(self._moments_s, before_s)
        if first > len(self._jobs) // 2:
            del self._jobs[:first], self._moments_s[:first]
            self._places = {job.number: place for place, job in enumerate(self._jobs)}

    def draw(self, begin_s: float, now: float, rng: Random) -> list[tuple[float, PastJob]]:
        """Who comes when in the block that begins then, in order."""
        end_s = begin_s + BLOCK_S
        back_s = self._back_s(begin_s, end_s, now, rng) if self._jobs else 0.0
        if back_s <= 0.0:
            return []
        first = bisect_left(self._moments_s, begin_s - back_s)
        last = bisect_left(self._moments_s, end_s - back_s)
        return [(max(self._moments_s[place] + back_s, begin_s), self._jobs[place]) for place in range(first, last)]

    def _back_s(self, begin_s: float, end_s: float, now: float, rng: Random) -> float:
        """How far back to look for what happens in a block: whole days, as far as anything is known; 0: nowhere."""
        first_s = self._moments_s[0]
        least = max(1, -int(-(end_s - now) // DAY_S))
        most = min(least + DAYS - 1, int((begin_s - first_s) // DAY_S))
        if most >= least:
            return DAY_S * rng.randint(least, most)
        spare_s = now - first_s - BLOCK_S
        return end_s - now + rng.random() * spare_s if spare_s > 0.0 else 0.0
