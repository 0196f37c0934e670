"""How much is spent on stopping and moving gangs: a share of all GPU time, and so many moves of one job."""

from __future__ import annotations

from mypy_extensions import i64

from dally.model import NEVER, Job
from dally.pickles import picklable
from dally.policies.dally.limits import Limits

HOUR_S = 3600.0


class Churn:
    """A bucket of GPU-seconds that fills with time and that restarts are paid from; and who moved when."""

    __slots__ = ("_filled_s", "_left_gpu_s", "_moved_s", "_moves_per_h", "_share", "_window_s")

    def __init__(self, limits: Limits) -> None:
        self._share: float = limits.churn
        self._window_s: float = limits.churn_window_s
        self._moves_per_h: i64 = limits.moves_per_h
        self._left_gpu_s: float = 0.0
        self._filled_s: float = NEVER  # when it was last filled; never: it is full
        self._moved_s: dict[int, list[float]] = {}

    def begin_pass(self, now: float, gpus: i64) -> None:
        """Fill the bucket up to now; it holds the share of one window."""
        most_gpu_s = self._share * float(gpus) * self._window_s
        if self._filled_s == NEVER:
            self._left_gpu_s = most_gpu_s
        else:
            self._left_gpu_s += self._share * float(gpus) * (now - self._filled_s)
        self._left_gpu_s = min(self._left_gpu_s, most_gpu_s)
        self._filled_s = now

    def allows(self) -> bool:
        """Whether anything is left; what a gang costs may overdraw it, or large ones could never be stopped."""
        return self._left_gpu_s > 0.0

    def spend(self, job: Job, stop_s: float) -> None:
        """The job is stopped or moved."""
        self._left_gpu_s -= stop_s * float(job.gpus)

    def spend_gpu_s(self, gpu_s: float) -> None:
        """A job changes its size, which takes so many GPU-seconds."""
        self._left_gpu_s -= gpu_s

    def may_grow(self, job: Job, now: float) -> bool:
        """Whether the job has moved so little that it may also give back, within the hour, what it grows by."""
        return 2 * self._lately(job, now) < self._moves_per_h

    def may_move(self, job: Job, now: float) -> bool:
        """Whether the job has moved less often in the last hour than it may."""
        return self._lately(job, now) < self._moves_per_h

    def _lately(self, job: Job, now: float) -> i64:
        """Moves of the job in the last hour."""
        times = self._moved_s.get(int(job.index))
        lately: i64 = 0
        if times is not None:
            for moved_s in times:
                if moved_s + HOUR_S > now:
                    lately += 1
        return lately

    def moved(self, job: Job, now: float) -> None:
        """The job moves; only what still counts is remembered."""
        times = [moved_s for moved_s in self._moved_s.get(int(job.index), []) if moved_s + HOUR_S > now]
        times.append(now)
        self._moved_s[int(job.index)] = times

    def forget(self, job: Job) -> None:
        """The job is gone."""
        self._moved_s.pop(int(job.index), None)


picklable(Churn, Limits())
