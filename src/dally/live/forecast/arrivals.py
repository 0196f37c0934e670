"""Jobs still to come: those of late, come again at the same hours."""

from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import Final

from dally.live.forecast.past_jobs import PastJob

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
