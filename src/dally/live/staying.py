"""Jobs that nobody can stop as things are. The policy is told, or it would choose them again and again in vain."""

from __future__ import annotations

from typing import Final

from dally.engine.state import State
from dally.live.roster import Roster

NOT_OURS: Final = "others look after it, or it could not be started again"
KEPT: Final = "the backend would not stop it"
NO_GAIN: Final = "its machines take no new jobs, so nobody would gain by it"


def note_staying(state: State, roster: Roster, now: float) -> None:
    """Find out who stays and why, and have the policy know."""
    closed = roster.closed()
    roster.stays = {}
    for job in roster:
        told = roster.told[job.job_id]
        if not told.managed:
            roster.stays[job.job_id] = NOT_OURS
        elif now < roster.kept_until_s.get(job.job_id, now):
            roster.stays[job.job_id] = KEPT
        elif told.placement and closed.issuperset(told.placement):
            roster.stays[job.job_id] = NO_GAIN
        state.set_non_preemptible(job, job.job_id in roster.stays, now)
