"""Jobs of before a restart that nobody took up again, as they ask for more GPUs than there are now."""

from __future__ import annotations

from typing import Any

from dally.engine.rates import advance, end
from dally.live.backends import base
from dally.live.backends.base import ClusterJob
from dally.live.roster import Roster
from dally.live.store.job_rows import REPLACED, UNKNOWN, ended_row
from dally.live.store.log_rows import end_row
from dally.model import CANCEL, CANCELLED, FINISH, FINISHED, RUNNING, Job


class LeftOut:
    """They stay as they are in the store, for a larger cluster, until they end or go on as others."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[Job, ClusterJob]] = {}
        self._replaced: list[tuple[Job, ClusterJob]] = []

    def add(self, job: Job, told: ClusterJob) -> None:
        """One that does not fit; its status is what it was."""
        self._jobs[job.job_id] = (job, told)

    def add_replaced(self, job: Job, told: ClusterJob) -> None:
        """One that goes on under the same name and a later number."""
        self._replaced.append((job, told))

    def look(self, roster: Roster, now: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows of those that go on as others or have ended, and the ends of the latter as events."""
        jobs = [ended_row(_ended(job, CANCELLED), told, REPLACED, now) for job, told in self._replaced]
        self._replaced = []
        events: list[dict[str, Any]] = []
        found = {told.job_id: told for told in roster.latest.jobs} if self._jobs else {}
        for job_id, (job, before) in list(self._jobs.items()):
            told = found.get(job_id)
            if job_id in roster.jobs:
                jobs.append(ended_row(_ended(job, CANCELLED), before, REPLACED, now))
            elif told is None or told.state in base.ENDED:
                ran = job.status == RUNNING
                cancelled = not ran or (told is not None and told.state == base.CANCELLED)
                if ran:
                    advance(job, now, 0.0)
                    end(job, now)
                _ended(job, CANCELLED if cancelled else FINISHED)
                jobs.append(ended_row(job, told or before, UNKNOWN if told is None else told.state, now))
                events.append(end_row(now, job_id, CANCEL if cancelled else FINISH))
            else:
                continue
            del self._jobs[job_id]
        return jobs, events


def _ended(job: Job, status: int) -> Job:
    job.status = status
    return job
