"""Gangs by what may become due of them, kept up to date as they change: a cycle does not look at all of them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

from dally.live.backends import base
from dally.live.backends.base import ObservedJob
from dally.live.backends.kubernetes.pod_gang import PodGang
from dally.live.backends.kubernetes.pod_record import GangKey, PodRecord
from dally.live.backends.kubernetes.pod_rules import NO_RULES

Gangs = dict[GangKey, PodGang]


class GangIndex:
    """Dicts, as their order is that in which gangs came."""

    def __init__(self, ours: Callable[[PodRecord], bool]) -> None:
        self.with_claims: Gangs = {}  # gangs that wait and whose pods name volume claims
        self.with_rules: Gangs = {}  # gangs that wait and whose first pod has rules by other pods
        self.without_pods: Gangs = {}  # that live
        self.incomplete: Gangs = {}  # gangs with a controller that wait for pods
        self._ours = ours
        self._our_gangs: Gangs = {}
        self._our_tuple: tuple[PodGang, ...] | None = ()

    def put(self, gang: PodGang) -> None:
        """The gang is new, or looked at anew."""
        key, waiting, controller = gang.key, gang.waiting, gang.controller
        _mark(self.with_claims, gang, any(pod.rules.claims for pod in waiting))
        _mark(self.with_rules, gang, bool(waiting) and waiting[0].rules != NO_RULES)
        _mark(self.without_pods, gang, not gang.pods())
        _mark(self.incomplete, gang, controller is not None and 0 < len(waiting) < gang.due)
        if self._ours((gang.pods() or gang.ended)[0]):
            self._our_gangs[key] = gang
        else:
            self._our_gangs.pop(key, None)
        self._our_tuple = None

    def drop(self, key: GangKey) -> None:
        """The gang is gone."""
        for gangs in (self.with_claims, self.with_rules, self.without_pods, self.incomplete, self._our_gangs):
            gangs.pop(key, None)
        self._our_tuple = None

    def ours(self) -> tuple[PodGang, ...]:
        """Those that we look after; the same tuple until a gang changes."""
        if self._our_tuple is None:
            self._our_tuple = tuple(self._our_gangs.values())
        return self._our_tuple


def _mark(gangs: Gangs, gang: PodGang, there: bool) -> None:
    if there:
        gangs[gang.key] = gang
    else:
        gangs.pop(gang.key, None)


class OrderedJobs:
    """Jobs in the order they came; of one second, those of shorter names first, as job-2 before job-10."""

    def __init__(self) -> None:
        self.ended: dict[str, ObservedJob] = {}
        self._jobs: dict[str, ObservedJob] = {}
        self._order: list[tuple[float, int, str]] = []
        self._tuple: tuple[ObservedJob, ...] | None = ()

    def put(self, job: ObservedJob) -> ObservedJob:
        """Returns the job, new or changed, or its equal of before: others see by that that nothing changed."""
        before = self._jobs.get(job.job_id)
        if before == job:
            assert before is not None
            return before
        if before is None or before.submit_s != job.submit_s:
            self._take_out(before)
            insort(self._order, _place(job))
        self._jobs[job.job_id] = job
        self._tuple = None
        if job.state in base.ENDED:
            self.ended[job.job_id] = job
        else:
            self.ended.pop(job.job_id, None)
        return job

    def drop(self, job_id: str) -> None:
        """The job is gone."""
        self._take_out(self._jobs.pop(job_id, None))
        self.ended.pop(job_id, None)
        self._tuple = None

    def _take_out(self, job: ObservedJob | None) -> None:
        if job is not None:
            del self._order[bisect_left(self._order, _place(job))]

    def all(self) -> tuple[ObservedJob, ...]:
        """In order; the same tuple until a job changes."""
        if self._tuple is None:
            self._tuple = tuple([self._jobs[job_id] for _, _, job_id in self._order])
        return self._tuple


def _place(job: ObservedJob) -> tuple[float, int, str]:
    return job.submit_s, len(job.job_id), job.job_id
