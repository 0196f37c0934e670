"""How one job stands, as the daemon's status has it."""

from __future__ import annotations

from typing import Final, NamedTuple

from dally.job_spec import JobSpec

UNSCHEDULABLE: Final = "unschedulable"
ProgressValues = tuple[int | None, int | None, float | None, float | None, float | None]
NO_PROGRESS: Final[ProgressValues] = (None, None, None, None, None)


class JobStatus(NamedTuple):
    """One job that has not ended. Times are seconds since 1970, lengths seconds of the engine's clock.

    A tuple, as every cycle makes one of every job: a frozen dataclass takes four times as long to make.
    """

    job_id: str
    spec: JobSpec
    state: str  # waiting, held, blocked, unschedulable, starting, running, stopping
    managed: bool
    submit_s: float
    since_s: float  # it waits or runs
    place: int | None  # in the order, 1 is first
    placement: dict[str, int]
    tier: str
    work_s: float  # done so far, at full speed
    slowdown: float | None  # at present
    preemptions: int
    migrations: int
    why: str  # it waits
    reason: str  # of `why`, as explanation.waiting names them
    next_s: float | None  # when it takes a farther place
    held_by: str = ""  # who put it on hold here; empty: nobody did
    first_by: str = ""  # who put it first in the queue
    delay_by: str = ""  # who said how long it delays for closer places,
    delay_until_s: float | None = None  # and until when
    non_preemptible: str = ""  # why it cannot be stopped while it runs; empty: it can be
    step: int | None = None  # steps of training done, as the job says,
    total_steps: int | None = None  # of so many
    end_s: float | None = None  # when it ends by its own progress,
    end_low_s: float | None = None  # and between which moments it does 80 times out of 100
    end_high_s: float | None = None
