"""What teams have to do with it: notes of a policy that shares GPUs among them, as rows of the store."""

from __future__ import annotations

from typing import Any, Final

from dally.policies.base import Policy
from dally.policies.gate.gate import Gate
from dally.policies.gate.notes import Reclaimed, Sample, Stall

SHARE: Final = "share"
RECLAIM: Final = "reclaim"
STALL: Final = "stall"
TABLES: Final = {"shares": SHARE, "reclaims": RECLAIM, "stalls": STALL}  # of a record, by kind of row
KINDS: Final = {Sample: SHARE, Reclaimed: RECLAIM, Stall: STALL}


def share_rows(policy: Policy) -> list[dict[str, Any]]:
    """What was noted since the last cycle, as rows of the table `decisions`; [] without queues."""
    if not isinstance(policy, Gate):
        return []
    return [
        {"time_s": note.time_s, "kind": KINDS[type(note)], "job_id": None, "told": note._asdict()}
        for note in policy.take_notes()
    ]


def queue_of(policy: Policy, job: Any) -> str:
    """The queue that a job is in; empty: there are none."""
    return policy.queue_of(job) if isinstance(policy, Gate) else ""
