"""What was decided of a job and is not so yet, and how far that has come. The store has it whenever it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from dally.live.backends.base import Placement
from dally.model import NEVER

# PendingOrder.desired
RUN: Final = "run"  # on `placement`
STOP: Final = "stop"  # give its GPUs back and wait
BLOCKED: Final = "blocked"  # wait until `retry_s`: the cluster's own rules keep it from starting
KEEP: Final = "keep"  # run on until `retry_s`: the backend would not stop it

# PendingOrder.request
START: Final = "start"
PREEMPT: Final = "preempt"


@dataclass
class PendingOrder:
    """One per job: a later decision replaces an earlier one."""

    job_id: str
    desired: str
    decided_s: float
    placement: Placement | None = None
    request: str = ""  # what the backend was last sent, or is about to be
    attempts: int = 0  # starts that it was sent
    sent_s: float = NEVER
    answer: str | None = None  # to that; empty: taken; None: none is known
    blocks: int = 0  # how often in a row its start was blocked,
    reason: str = ""  # and why, in the backend's words
    retry_s: float = NEVER  # not before then

    def plain(self) -> dict[str, Any]:
        """For the store; every order is looked at each cycle, and `dataclasses.asdict` takes ten times as long."""
        return {**vars(self), "placement": None if self.placement is None else dict(self.placement)}

    @property
    def is_taken(self) -> bool:
        """Whether the backend has taken the request."""
        return bool(self.request) and self.answer == ""
