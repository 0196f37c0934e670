"""Jobs that an operator or their user has taken off by `scontrol requeuehold`: they wait for a release.

Slurm shows such a job as one that Dally has preempted. So the two are told apart in the moment in which a job
stops, and the job is put on an operator's hold, which every later daemon knows as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from dally.live.backends import base
from dally.live.backends.base import ObservedJob
from dally.live.backends.slurm.job_record import STOPPING, JobRecord, text_of
from dally.live.backends.slurm.preempter import all_or_each
from dally.live.backends.slurm.tools import Tools

REQUEUED_HELD: Final = "job requeued in held state"  # Slurm's words


class RequeueHolds:
    """Who stopped which job."""

    def __init__(self) -> None:
        self._ours: set[str] = set()  # jobs that Dally stops or has stopped
        self._due: set[str] = set()  # jobs that others have stopped, and that have no operator's hold yet

    def ordered(self, jobs: Iterable[str]) -> list[str]:
        """Dally itself is about to requeue these."""
        result = list(jobs)
        self._ours.update(result)
        return result

    def look(
        self, records: Mapping[str, JobRecord], before: Mapping[str, JobRecord], stopping: frozenset[str]
    ) -> None:
        """At the jobs of a snapshot and of the one before it; `stopping`: jobs that Dally is stopping now."""
        runs_on = {job_id for job_id in self._ours if job_id in records and not _has_stopped(records[job_id])}
        self._ours = {job_id for job_id in self._ours - (runs_on - stopping) if job_id in records}
        held = {job_id for job_id, record in records.items() if _is_requeued_held(record)}
        stopped = {job_id for job_id in held if job_id in before and not before[job_id].pending}
        self._due = held & (self._due | stopped) - self._ours

    def apply_to(self, job: ObservedJob) -> ObservedJob:
        """Such a job is on hold."""
        waits = job.managed and job.state in (base.QUEUED, base.STOPPING)
        return replace(job, state=base.HELD, reason=REQUEUED_HELD) if waits and job.job_id in self._due else job

    def write(self, tools: Tools, check_term: Callable[[], None]) -> list[str]:
        """Put them on an operator's hold; what failed, a line each."""
        if self._due:
            check_term()
        return all_or_each(tools, ("scontrol", "hold"), sorted(self._due), "hold")


def _has_stopped(record: JobRecord) -> bool:
    return record.pending or record.ended or not record.states.isdisjoint(STOPPING)


def _is_requeued_held(record: JobRecord) -> bool:
    shown = REQUEUED_HELD in (text_of(record.row, "state_reason"), text_of(record.row, "state_description"))
    return record.pending and not record.released and shown
