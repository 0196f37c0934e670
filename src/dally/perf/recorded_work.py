"""How much work recorded jobs did: their running times, less what their places and neighbours cost them.

Who sat where and when is recorded, so at every moment it is known who shared which links, and with that every
job's speed. The work is the sum of speed × time: what the job would have needed alone at its closest placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dally.model import Allocation, Job
from dally.perf.base import Speed, SpeedModel


class Recorded(NamedTuple):
    """A job, where it ran, and from when to when, in seconds."""

    job: Job
    allocation: Allocation
    start_s: float
    end_s: float


class _Progress:
    """Seconds of work so far, as of a moment, and the rate since then."""

    __slots__ = ("rate", "since_s", "work_s")

    def __init__(self, now: float) -> None:
        self.work_s = 0.0
        self.rate = 1.0  # a job starts at speed 1
        self.since_s = now

    def go_on(self, now: float, rate: float) -> None:
        self.work_s += (now - self.since_s) * self.rate
        self.since_s = now
        self.rate = rate


def recorded_work(model: SpeedModel, ran: Sequence[Recorded]) -> list[float]:
    """Seconds of work of each job, as `Job.duration_s` counts them. The jobs are as they were afterwards."""
    speed = model.anew("fair")
    order = sorted(
        [(record.end_s, 0, place) for place, record in enumerate(ran)]
        + [(record.start_s, 1, place) for place, record in enumerate(ran) if record.end_s > record.start_s]
    )
    running: dict[int, _Progress] = {}  # by the job's index
    result = [0.0] * len(ran)
    for now, starts, place in order:
        job = ran[place].job
        if starts:
            job.allocation = ran[place].allocation
            running[int(job.index)] = _Progress(now)
            _change(speed.placed(job), running, now)
        elif int(job.index) in running:
            progress = running.pop(int(job.index))
            progress.go_on(now, 0.0)
            result[place] = progress.work_s
            _change(speed.removed(job), running, now)
            job.allocation = None
    return result


def _change(speeds: list[Speed], running: dict[int, _Progress], now: float) -> None:
    for changed in speeds:
        running[int(changed.job.index)].go_on(now, changed.rate)
