"""What was decided and is not so yet: where each job is to be, until the backend says that it is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dally.live.backends.base import Placement

START: Final = "start"
PREEMPT: Final = "preempt"


@dataclass
class Wanted:
    """Where a job is to run, or that it is not to. One per job: a later decision replaces an earlier one."""

    job_id: str
    placement: Placement | None  # None: it is to give its GPUs back and wait
    decided_s: float
    tries: int = 0
    tried_s: float = -1.0  # when the backend was last asked; before 0: never
    asked: str = ""  # START or PREEMPT: what it was asked for then
    error: str = ""  # what it answered, if it refused
