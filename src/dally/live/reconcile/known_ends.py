"""Ends that the store knows and the backend has forgotten: a killed slurmctld loses its last seconds.

Such a job is shown as it was before its end. To preempt it would run it again, by our own order. What the cluster's
software makes of it by itself is as it would be without us, and operators are told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from sqlalchemy import select

from dally.live.backends import base
from dally.live.backends.base import Observed, ObservedJob
from dally.live.store import Store
from dally.live.store.log_rows import observed_of
from dally.live.store.schema import JOBS

AT_A_TIME: Final = 500  # jobs that the store is asked for
FORGOTTEN: Final = (
    "job {job} had ended ({outcome}), which the backend has forgotten: it is {state} there, and may run again"
)


class KnownEnd(NamedTuple):
    """The latest end of a job."""

    submit_s: float  # of which job: the backend may give its number to another
    restarts: int  # in which of its runs
    outcome: str


class KnownEnds:
    """Asks the store once for each job that comes up."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ends: dict[str, KnownEnd | None] = {}  # of jobs that are live by the backend's account; None: none

    def apply_to(self, observed: Observed) -> Observed:
        """The same with jobs that have ended as not to be preempted, and said."""
        live = [job for job in observed.jobs if job.restarts is not None and job.state not in base.ENDED]
        self._ends = {job.job_id: self._ends[job.job_id] for job in live if job.job_id in self._ends}
        self._ask([job.job_id for job in live if job.job_id not in self._ends])
        ended = {job.job_id: job for job in live if self.has_ended(job)}
        if not ended:
            return observed
        jobs = tuple(replace(job, preemptible=False) if job.job_id in ended else job for job in observed.jobs)
        return replace(observed, jobs=jobs, problems=(*observed.problems, *map(self._problem, ended.values())))

    def has_ended(self, job: ObservedJob) -> bool:
        """Whether this run of the job, or a later one, has."""
        end = self._ends.get(job.job_id)
        same = end is not None and end.submit_s == job.submit_s
        return same and end is not None and job.restarts is not None and job.restarts <= end.restarts

    def _problem(self, job: ObservedJob) -> str:
        end = self._ends[job.job_id]
        return FORGOTTEN.format(job=job.job_id, outcome=end.outcome if end else "", state=job.state)

    def _ask(self, job_ids: list[str]) -> None:
        self._ends |= dict.fromkeys(job_ids)
        for first in range(0, len(job_ids), AT_A_TIME):
            self._ends |= dict(self._ends_of(job_ids[first : first + AT_A_TIME]))

    def _ends_of(self, job_ids: list[str]) -> Iterable[tuple[str, KnownEnd]]:
        chosen = JOBS.c.job_id.in_(job_ids) & JOBS.c.outcome.in_(base.ENDED)
        for row in self._store.rows(select(JOBS.c.outcome, JOBS.c.observed).where(chosen).order_by(JOBS.c.number)):
            job = observed_of(row)
            if job.restarts is not None:
                yield job.job_id, KnownEnd(job.submit_s, job.restarts, row["outcome"])
