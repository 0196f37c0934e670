"""What is known of a job when it is submitted, as numbers a regression can use."""

from __future__ import annotations

from math import log, log2
from typing import Final

from dally.model import INFINITY, Job
from dally.pickles import picklable
from dally.policies.prediction.history import Durations, median

DAY_S: Final = 86400.0
HOUR_S: Final = 3600.0
UNKNOWN: Final = -99.0  # far from any ratio of durations
ANY: Final = "\n"  # stands for every user or name; no trace holds it
RECENT: Final = 5  # jobs whose median says what a user does these days


class Past:
    """Finished jobs that have something in common, and when one was last submitted."""

    __slots__ = ("durations", "recent_s", "submitted_s")

    def __init__(self) -> None:
        self.durations: Durations = Durations()
        self.recent_s: list[float] = []
        self.submitted_s: float = -INFINITY

    def add(self, duration_s: float) -> None:
        self.durations.add(duration_s)
        self.recent_s.append(duration_s)
        if len(self.recent_s) > RECENT:
            del self.recent_s[0]


picklable(Past)


class PastDurations:
    """Finished jobs by user, by user and size, by user, name and size, and by size."""

    __slots__ = ("first_s", "numbers", "pasts")

    def __init__(self) -> None:
        self.first_s: float = INFINITY  # the first submission: days begin with it
        self.pasts: dict[tuple[str, str, int], Past] = {}
        self.numbers: dict[tuple[str, str], int] = {}  # of users, names and models as they came

    def of(self, job: Job) -> list[Past]:
        """The job's pasts: user, name and size; user and size; user; size."""
        size = int(job.gpus)
        return [
            self._past(job.user, job.name, size),
            self._past(job.user, ANY, size),
            self._past(job.user, ANY, 0),
            self._past(ANY, ANY, size),
        ]

    def repetitions(self, job: Job) -> Durations:
        """Durations of finished jobs of the same user, name and size."""
        return self._past(job.user, job.name, int(job.gpus)).durations

    def meet(self, job: Job) -> None:
        """The job was submitted."""
        self.first_s = min(self.first_s, job.submit_s)

    def learn(self, job: Job) -> None:
        """The job finished."""
        for past in self.of(job):
            past.add(job.duration_s)

    def row(self, job: Job, guess_s: float) -> list[float]:
        """The job's features; durations are told as their ratio to a first guess. It counts as submitted."""
        named, user_and_size, user, size = self.of(job)
        row = [
            log2(float(job.gpus)),
            (job.submit_s - self.first_s) % DAY_S // HOUR_S,
            log(at_least_1(guess_s)),
            self._number("user", job.user),
            self._number("name", job.name),
            self._number("model", job.model),
            log(1.0 + float(len(named.durations))),
            log(1.0 + float(len(user_and_size.durations))),
        ]
        for past in (named, user_and_size, user, size):
            row.append(_ratio(past.durations.median_s(), guess_s))
            row.append(_ratio(past.durations.last_s, guess_s))
            row.append(_ratio(median(sorted(past.recent_s)), guess_s))
        for past in (user_and_size, user):
            ago_s = job.submit_s - past.submitted_s if past.submitted_s > -INFINITY else 100.0 * DAY_S
            row.append(log(1.0 + max(0.0, ago_s)))
            past.submitted_s = job.submit_s
        return row

    def _past(self, user: str, name: str, size: int) -> Past:
        past = self.pasts.get((user, name, size))
        if past is None:
            past = Past()
            self.pasts[(user, name, size)] = past
        return past

    def _number(self, kind: str, token: str) -> float:
        return float(self.numbers.setdefault((kind, token), len(self.numbers)))


picklable(PastDurations)


def at_least_1(duration_s: float) -> float:
    """The duration, or 1 s: ratios of shorter ones say nothing."""
    return duration_s if duration_s > 1.0 else 1.0


def _ratio(duration_s: float, guess_s: float) -> float:
    return log(at_least_1(duration_s) / at_least_1(guess_s)) if duration_s >= 0.0 else UNKNOWN
