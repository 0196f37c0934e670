"""The present as bytes: what a future begins with, to be made as often as futures are wanted."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dally.engine.log import EventLog
from dally.engine.state import State
from dally.model import HELD, INFINITY, NEVER, RUNNING, WAITING, Job

NO_TIMERS: Final[Mapping[int, float]] = {}


@dataclass
class Present:
    """A state between two cycles, with its jobs that have not ended. `stated_s` is what their users expect."""

    state: State
    jobs: list[Job]
    now: float
    next_number: int  # of the job that comes next
    stated_s: dict[int, float]
    timers_s: dict[int, float] = field(default_factory=dict)  # as operators set them, by GPUs
    draining: tuple[int, ...] = ()  # machines that take no new job

    def waiting(self) -> list[Job]:
        """Jobs that wait, in order of number."""
        return [job for job in self.jobs if job.status == WAITING]

    def ages(self) -> list[tuple[Job, float]]:
        """Each job with the seconds of work it has done."""
        return [(job, job.done_s(self.now)) for job in self.jobs]


def dump_present(
    state: State,
    jobs: Iterable[Job],
    now: float,
    next_number: int,
    secret: bool = False,
    timers_s: Mapping[int, float] = NO_TIMERS,
    draining: Iterable[int] = (),
) -> bytes:
    """The present as bytes. `secret`: durations are the truth of a replayed trace, and nobody is to see them."""
    live = [job for job in jobs if job.status in (WAITING, RUNNING, HELD)]
    durations_s = [job.duration_s for job in live]
    log, due_s = state.log, state.sample_due_s
    stated_s = {} if secret else {int(job.index): job.duration_s for job in live if job.duration_s >= 0.0}
    try:
        state.log = EventLog()
        state.sample_due_s = INFINITY  # nobody reads how many slots a future has
        for job in live if secret else ():
            job.duration_s = NEVER
        present = Present(state, live, now, next_number, stated_s, dict(timers_s), tuple(draining))
        return pickle.dumps(present, protocol=5)
    finally:
        state.log, state.sample_due_s = log, due_s
        for job, duration_s in zip(live, durations_s, strict=True):
            job.duration_s = duration_s


def load_present(content: bytes) -> Present:
    """A present of one's own, from bytes that `dump_present` made in this program: nothing else may be in them."""
    result: Present = pickle.loads(content)
    return result
