"""How much longer each user's jobs take than they run: what a fair order goes by."""

from __future__ import annotations

import math
from typing import Final

from dally.model import Job
from dally.pickles import picklable

HALF_LIFE_S: Final = 86400.0
LEAST_S: Final = 600.0  # of every user, in the system and at work: nobody is judged by seconds
WAITS: Final = 1
RUNS: Final = 2


class UserJobs:
    """A user's jobs in the system: how many wait or run, how many run, and seconds of both, halved every day."""

    __slots__ = ("at_work", "at_work_s", "present", "present_s", "since_s")

    def __init__(self) -> None:
        self.present: int = 0
        self.at_work: int = 0
        self.present_s: float = 0.0
        self.at_work_s: float = 0.0
        self.since_s: float = 0.0

    def advance(self, now: float) -> None:
        """Count the time up to now."""
        elapsed_s = now - self.since_s
        if elapsed_s <= 0.0:
            return
        self.since_s = now
        keep = math.pow(0.5, elapsed_s / HALF_LIFE_S)
        self.present_s = keep * self.present_s + self.present * elapsed_s
        self.at_work_s = keep * self.at_work_s + self.at_work * elapsed_s


picklable(UserJobs)


class UserStretch:
    """By user, time in the system ÷ time at work, over jobs that are there or were in the last days."""

    __slots__ = ("_power", "_states", "_users", "now")

    def __init__(self, power: float) -> None:
        self._power: float = power
        self._users: dict[str, UserJobs] = {}
        self._states: dict[int, int] = {}  # by job
        self.now: float = 0.0

    def weight(self, job: Job) -> float:
        """By what the job's rank is multiplied: the less, the longer its user's jobs take for what they run."""
        user = self._of(job, self.now)
        return math.pow((user.at_work_s + LEAST_S) / (user.present_s + LEAST_S), self._power)

    def waits(self, job: Job, now: float) -> None:
        """The job waits, for the first time or again."""
        self._enter(job, now, WAITS)

    def runs(self, job: Job, now: float) -> None:
        """The job has GPUs."""
        self._enter(job, now, RUNS)

    def leaves(self, job: Job, now: float) -> None:
        """The job is in the system no more."""
        self._enter(job, now, 0)

    def _enter(self, job: Job, now: float, state: int) -> None:
        user = self._of(job, now)
        before = self._states.pop(int(job.index), 0)
        user.present += (state > 0) - (before > 0)
        user.at_work += (state == RUNS) - (before == RUNS)
        if state:
            self._states[int(job.index)] = state

    def _of(self, job: Job, now: float) -> UserJobs:
        self.now = max(self.now, now)
        user = self._users.get(job.user)
        if user is None:
            user = UserJobs()
            user.since_s = self.now
            self._users[job.user] = user
        user.advance(self.now)
        return user


picklable(UserStretch, 0.0)
