"""How long jobs last, given how long they have lasted already, and which others are to come at which hours."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import sqrt
from random import Random
from typing import Final, NamedTuple

from dally.job_spec import JobSpec
from dally.live.facts import one_size
from dally.model import INFINITY, NEVER, Job, job_of_spec
from dally.policies.prediction.hazard import size_class


@dataclass(frozen=True)
class PastJob:
    """A job that came, and how long it took once that is known. Its model is one that there is a profile of."""

    number: int
    submit_s: float
    spec: JobSpec
    duration_s: float = NEVER  # of work at full speed; NEVER: it has not ended
    reported_s: float = NEVER  # the same as its own progress had it last; NEVER: it said nothing

    @property
    def stated_s(self) -> float:
        """What its user expected; NEVER: nothing."""
        return NEVER if self.spec.duration_s is None else self.spec.duration_s

    def again(self, number: int, submit_s: float, duration_s: float) -> Job:
        """A job like this one that comes at another time."""
        return job_of_spec(number, f"~{number}", submit_s, one_size(self.spec), duration_s)


def past_of(job: Job, duration_s: float = NEVER) -> PastJob:
    """What is kept of the engine's job."""
    spec = replace(job.spec, gpus=int(job.gpus), group=int(job.group), model=job.model)
    return PastJob(int(job.index), job.submit_s, spec, duration_s, job.reported_s)


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

    def forget(self, before_s: float) -> list[int]:
        """Jobs that were submitted before that say nothing any more: their numbers."""
        first = bisect_left(self._moments_s, before_s)
        if first <= len(self._jobs) // 2:
            return []
        forgotten = [job.number for job in self._jobs[:first]]
        del self._jobs[:first], self._moments_s[:first]
        self._places = {job.number: place for place, job in enumerate(self._jobs)}
        return forgotten

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


BURST_GAP_S: Final = 600.0  # like jobs of one user that are submitted no farther apart are one burst
TOGETHER: Final = 0.5  # correlation of the ranks of durations within a burst: 0.47 in Philly, 0.58 in ITP


class Bursts:
    """Which jobs were submitted together: those of one user, name and size, one shortly after the other.

    A user's dozens of like jobs end alike, whatever earlier jobs of that user did: sweeps, retries, broken scripts.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # of bursts, by number of the job
        self._latest: dict[Key, tuple[float, int]] = {}  # the last submission of a class, and its burst
        self._count = 0

    def came(self, job: PastJob) -> None:
        """A job was submitted; jobs that nobody signs belong to no burst."""
        if job.number in self._numbers or not job.spec.user:
            return
        key: Key = (job.spec.user, job.spec.name, job.spec.gpus)
        last_s, burst = self._latest.get(key, (-INFINITY, 0))
        if job.submit_s - last_s > BURST_GAP_S:
            self._count += 1
            burst = self._count
        self._latest[key] = (job.submit_s, burst)
        self._numbers[job.number] = burst

    def forget(self, numbers: Iterable[int]) -> list[int]:
        """These jobs are never asked about again: the bursts that have no others."""
        bursts = {self._numbers.pop(number, 0) for number in numbers} - {0}
        return sorted(bursts.difference(self._numbers.values()))

    def number(self, job: int) -> int | None:
        """The burst of the job of that number."""
        return self._numbers.get(job)

    def of(self, job: Job) -> int | None:
        """The burst of a job, one that is only previewed included."""
        number = self._numbers.get(int(job.index))
        if number is None and job.user:
            last_s, burst = self._latest.get((job.user, job.name, int(job.gpus)), (-INFINITY, 0))
            number = burst if 0.0 <= job.submit_s - last_s <= BURST_GAP_S else None
        return number


KEEP: Final = 150  # durations of a class, the latest
KEEP_ALL: Final = 600  # of the widest
WEIGHT: Final = 4.0  # jobs that the wider class counts for in a narrower one
LEAST_AGE_S: Final = 60.0  # half of those alive at an age end by twice that, before anything is known
LONGEST_S: Final = 30.0 * 86400.0
TAIL_POINTS: Final = 16
# Actual ÷ reported duration, before it is known how well reports hold: most within a fifth, a few far off.
USUAL_RATIOS: Final = (0.5, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 2.0)

Key = tuple[str | int, ...]


class LifetimeCurve(NamedTuple):
    """How many of a class end when: durations in order, with the share that ends there."""

    durations_s: list[float]
    survival: list[float]  # before each of them; one more at the end: those of whom nothing is known beyond
    met: list[float]  # jobs known to have got as far as each, ended or not; one more at the end


class Lifetimes:
    """Durations of finished jobs by burst, then user, name and size, each class leaning on the wider one.

    Jobs that are still there count as far as they have got (Kaplan and Meier, 1958), or a week's long jobs would
    be missing from the week's history. A class in which n jobs are known to have outlasted an age speaks for
    n / (n + 4) of its jobs, the next wider one for the rest.
    """

    def __init__(self) -> None:
        self._ended: dict[Key, deque[float]] = {(): deque(maxlen=KEEP_ALL)}
        self._ratios: deque[float] = deque(maxlen=KEEP)  # actual ÷ stated
        self._report_ratios: deque[float] = deque(USUAL_RATIOS, maxlen=KEEP)  # actual ÷ reported
        self._alive: dict[Key, list[float]] = {}
        self._curves: dict[Key, LifetimeCurve] = {}
        self._tables: dict[tuple[Key, float], list[float]] = {}
        self._bursts = Bursts()
        self._shared: dict[int, list[float]] = {}  # ranks that the jobs of a burst have in common, future by future

    def came(self, past: PastJob) -> None:
        """A job was submitted."""
        self._bursts.came(past)

    def forget(self, numbers: Iterable[int]) -> None:
        """These jobs were submitted too long ago to be asked about; durations of their bursts go too."""
        for burst in self._bursts.forget(numbers):
            self._ended.pop(("burst", burst), None)

    def learn(self, past: PastJob) -> None:
        """A job ended."""
        for key in self._keys(past.spec, self._bursts.number(past.number)):
            self._ended.setdefault(key, deque(maxlen=KEEP)).append(past.duration_s)
        if past.stated_s > 0.0:
            self._ratios.append(past.duration_s / past.stated_s)
        if past.reported_s > 0.0:
            self._report_ratios.append(past.duration_s / past.reported_s)
        self._curves.clear()
        self._tables.clear()

    def look(self, alive: Iterable[tuple[Job, float]]) -> None:
        """These jobs are there now, each with so many seconds of work done."""
        self._alive = {}
        self._curves.clear()
        self._tables.clear()
        self._shared.clear()
        for job, age_s in alive:
            if age_s > 0.0:
                for key in self._keys(job, self._bursts.of(job)):
                    self._alive.setdefault(key, []).append(age_s)

    def draw(self, job: Job, age_s: float, stated_s: float, count: int, rng: Random) -> list[float]:
        """So many durations of the job, as evenly spread as its distribution, jobs of a burst long together."""
        result = self._ordered(self._spread(job, age_s, stated_s, count), self._bursts.of(job), rng)
        if job.limit_s > 0.0:
            return [min(duration_s, max(job.limit_s, age_s)) for duration_s in result]
        return result

    def _ordered(self, ascending: list[float], burst: int | None, rng: Random) -> list[float]:
        """These by random ranks; those of a burst are correlated (a Gaussian copula)."""
        common, own = (sqrt(TOGETHER), sqrt(1.0 - TOGETHER)) if burst is not None else (0.0, 1.0)
        scores = [own * rng.gauss(0.0, 1.0) for _ in ascending]
        if burst is not None:
            shared = self._shared.get(burst)
            if shared is None or len(shared) != len(ascending):
                shared = self._shared[burst] = [rng.gauss(0.0, 1.0) for _ in ascending]
            scores = [score + common * other for score, other in zip(scores, shared, strict=True)]
        order = sorted(range(len(scores)), key=scores.__getitem__)
        result = [0.0] * len(order)
        for place, duration_s in zip(order, ascending, strict=True):
            result[place] = duration_s
        return result

    def _keys(self, spec: JobSpec | Job, burst: int | None) -> list[Key]:
        """The classes of a job, the narrowest first."""
        keys = chain(spec.user, spec.name, int(spec.gpus))
        return keys if burst is None else [("burst", burst), *keys]

    def _spread(self, job: Job, age_s: float, stated_s: float, count: int) -> list[float]:
        for known_s, ratios in ((job.reported_s, self._report_ratios), (stated_s, [1.0, *self._ratios])):
            if known_s > age_s:
                points = sorted(known_s * ratio for ratio in ratios if known_s * ratio > age_s)
                if points:
                    return quantiles([(point, 1.0) for point in points], count)
        keys = self._keys(job, self._bursts.of(job))
        known = self._tables.get((keys[0], age_s))
        if known is None or len(known) != count:
            known = quantiles(self._points(keys, age_s), count)
            self._tables[keys[0], age_s] = known
        return known

    def _points(self, keys: list[Key], age_s: float) -> list[tuple[float, float]]:
        """Durations beyond an age, each with its share, in order."""
        points: list[tuple[float, float]] = []
        share = 1.0
        for key in keys:
            curve = self._curve(key)
            first = bisect_right(curve.durations_s, age_s)
            met, alive = curve.met[first], curve.survival[first]
            if met <= 0.0 or alive <= 0.0:
                continue
            own = share * met / (met + WEIGHT) / alive
            for place in range(first, len(curve.durations_s)):
                ends = curve.survival[place] - curve.survival[place + 1]
                points.append((curve.durations_s[place], own * ends))
                share -= own * ends
        least_s = max(age_s, LEAST_AGE_S)
        for point in range(TAIL_POINTS):
            left = 1.0 - (point + 0.5) / TAIL_POINTS
            points.append((min(least_s / left, max(LONGEST_S, 2.0 * least_s)), max(share, 0.0) / TAIL_POINTS))
        points.sort()
        return points

    def _curve(self, key: Key) -> LifetimeCurve:
        result = self._curves.get(key)
        if result is None:
            result = kaplan_meier(self._ended.get(key, ()), self._alive.get(key, ()))
            self._curves[key] = result
        return result


def chain(user: str, name: str, gpus: int) -> list[Key]:
    """The classes of a job, the narrowest first."""
    size = size_class(gpus)
    keys: list[Key] = [(user, name, gpus)] if name else []
    if user:
        keys.append((user, size))
    return [*keys, (size,), ()]


def kaplan_meier(ended_s: Iterable[float], alive_s: Iterable[float]) -> LifetimeCurve:
    """The survival curve of jobs that ended then and of others that are as old as that and still there."""
    durations = sorted(ended_s)
    ages = sorted(alive_s)
    survival, met = [], []
    left, older = 1.0, len(ages)
    for place, duration_s in enumerate(durations):
        while older and ages[len(ages) - older] < duration_s:
            older -= 1
        at_risk = len(durations) - place + older
        survival.append(left)
        met.append(float(at_risk))
        left *= 1.0 - 1.0 / at_risk
    last_s = durations[-1] if durations else -1.0
    survival.append(left)
    met.append(float(sum(age_s > last_s for age_s in ages)))
    return LifetimeCurve(durations, survival, met)


def quantiles(points: list[tuple[float, float]], count: int) -> list[float]:
    """So many values that split these weighted points, in order, into equal parts: the middle of each."""
    step = sum(share for _, share in points) / count
    result: list[float] = []
    reached, due = 0.0, 0.5 * step
    for value, share in points:
        reached += share
        while due < reached and len(result) < count:
            result.append(value)
            due += step
    return result + [points[-1][0]] * (count - len(result))
