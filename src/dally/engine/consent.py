"""Consent to preemption, heeded for every policy: which running jobs are non-preemptible or stay where they are.

A job that states no checkpoint loses its whole run when it is stopped. Once it has run for a while, it is preempted
only if that is paid for: a job that could use its machines must have waited for twice the GPU time that would be
lost. The preempted job might have run on for as long as it has run, so a shorter wait gains nothing. What was
waited is spent then, by all jobs: preemption never undoes more GPU time than half of what one job waited for.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.engine.consent_rules import NO, PRICED, ConsentRules, Rule
from dally.heap import IndexedHeap
from dally.model import INFINITY, NEVER, Job
from dally.pickles import picklable
from dally.policies.queue import Queue
from dally.policies.view import View

REVIEW_S: Final = 60.0  # at most, between two reviews of which job has waited for how long
LEAST_S: Final = 1e-3  # and at least
ROUNDED: Final = 1.0 - 1e-9  # of a price is all of it: the moment it was due at is a rounded one
WORTH: Final = 2.0  # times its lost work that a preemption must be worth


class Payer(NamedTuple):
    """A job that waits, and for how much GPU time it has."""

    signature: int
    gpus: int
    waited_gpu_s: float


class Consent:
    """What the rules make of the jobs at hand."""

    __slots__ = (
        "_by_backend", "_paid", "_payers", "_protected", "_usual_s", "_young", "_young_jobs",
        "next_s", "rules", "waits_from_s",
    )  # fmt: skip

    def __init__(self, rules: ConsentRules, usual_checkpoint_s: float) -> None:
        """`usual_checkpoint_s`: between checkpoints of all jobs, where the operator states that; 0: nobody does."""
        self.rules: ConsentRules = rules
        self._usual_s: float = usual_checkpoint_s
        self._young: IndexedHeap = IndexedHeap()  # those that run for less than `after_s` yet, by when they do
        self._young_jobs: dict[int, Job] = {}
        self._protected: dict[int, Job] = {}  # those that have, and lose everything when they are stopped
        self._paid: dict[int, Job] = {}  # those among them that may be preempted now
        self._by_backend: dict[int, Job] = {}  # jobs that the backend would not stop, whatever the rules
        self.waits_from_s: float = NEVER  # since when waiting counts: the latest that was paid with it
        self._payers: dict[int, Payer] = {}  # by signature, as of the latest review
        self.next_s: float = INFINITY  # when the next review is due

    def rule(self, job: Job) -> Rule:
        """What holds for the job."""
        return self.rules.of(job)

    def loses_run(self, job: Job) -> bool:
        """Whether a stop undoes the whole run, as far as anybody states."""
        return self.rule(job).choice == PRICED and job.checkpoints_s(self._usual_s) <= 0.0

    # What happens to jobs.

    def started(self, job: Job, now: float) -> None:
        """The job got GPUs. The policy is told of that, and not of what this changes."""
        choice = self.rule(job).choice
        job.unsaved = self.loses_run(job)
        job.non_migratable = choice == NO
        self._set(job, choice == NO)
        if job.unsaved:
            key = int(job.index)
            if job.run_s(now) >= self.rules.after_s:  # all its runs count: one that is stopped again and again ends
                self._protected[key] = job
                job.non_migratable = True
                self._set(job, True)
            else:
                self._young_jobs[key] = job
                self._young.put(job.index, job.placed_s + self.rules.after_s - job.held_s, 0.0)
            self._await_young()

    def stopped(self, job: Job) -> None:
        """The job has given its GPUs back."""
        key = int(job.index)
        self._young.discard(job.index)
        for jobs in (self._young_jobs, self._protected, self._paid):
            jobs.pop(key, None)
        job.non_migratable = False
        self._set(job, False)

    def preempted(self, job: Job, now: float) -> None:
        """It is about to lose its GPUs: what was waited up to now has been spent on it."""
        if int(job.index) in self._protected:
            self.waits_from_s = now
            self.next_s = now

    def refused_by_backend(self, job: Job, refused: bool) -> bool:
        """Note whether the backend would not stop the job; whether it is non-preemptible then."""
        if refused:
            self._by_backend[int(job.index)] = job
        else:
            self._by_backend.pop(int(job.index), None)
        return self.spares(job)

    def spares(self, job: Job) -> bool:
        """Whether the rules or the backend keep the running job from being preempted."""
        key = int(job.index)
        if key in self._by_backend:
            return True
        if key in self._protected:
            return key not in self._paid
        return job.allocation is not None and self.rule(job).choice == NO

    def _set(self, job: Job, non_preemptible: bool) -> None:
        job.non_preemptible = non_preemptible or int(job.index) in self._by_backend

    def _await_young(self) -> None:
        if len(self._young) > 0:
            self.next_s = min(self.next_s, self._young.key(self._young.first()))

    # The review before each pass.

    def review(self, now: float, queue: Queue, cluster: Cluster, view: View) -> list[Job]:
        """Jobs that have become non-preemptible, or are no longer; they do not say so yet."""
        if now < self.next_s and not self._paid:
            return []
        while len(self._young) > 0 and self._young.key(self._young.first()) <= now:
            key = int(self._young.pop())
            job = self._young_jobs.pop(key)
            job.non_migratable = True
            self._protected[key] = job
        self._weigh(now, queue, cluster, view)
        self._await_young()
        changed: list[Job] = []
        for job in self._protected.values():
            if self.spares(job) != job.non_preemptible:
                changed.append(job)
        return changed

    def _weigh(self, now: float, queue: Queue, cluster: Cluster, view: View) -> None:
        """Find out for which jobs the waiting pays; no wait pays for two of them."""
        self.next_s = now + REVIEW_S if self._protected else INFINITY
        self._paid = {}
        self._find_payers(now, queue)
        if not self._protected or not self._payers:
            return
        left_gpu_s = {number: payer.waited_gpu_s for number, payer in self._payers.items()}
        rows: list[tuple[float, float, int]] = []
        for key, job in self._protected.items():
            price = WORTH * cost_gpu_s(job, now, view)
            rows.append((price / float(_freed_together(job, cluster)), price, key))
        rows.sort()
        for _, price, key in rows:
            job = self._protected[key]
            for payer in self.payers(job, cluster):
                if left_gpu_s[payer.signature] >= price * ROUNDED:
                    left_gpu_s[payer.signature] -= price
                    self._paid[key] = job
                    break
                growth = float(payer.gpus) - WORTH * float(job.gpus) * job.rate
                missing_gpu_s = price - payer.waited_gpu_s
                if growth > 0.0 and missing_gpu_s > 0.0:
                    self.next_s = min(self.next_s, now + max(missing_gpu_s / growth, LEAST_S))

    def _find_payers(self, now: float, queue: Queue) -> None:
        """The job of each signature that has waited for most GPU time since waiting was last spent."""
        self._payers = {}
        if not self._protected:
            return
        for job in queue.all_jobs():
            waited_s = now - max(job.lost_s, self.waits_from_s)
            waited_gpu_s = float(job.gpus) * max(0.0, waited_s)
            before = self._payers.get(int(job.signature))
            if before is None or waited_gpu_s > before.waited_gpu_s:
                self._payers[int(job.signature)] = Payer(int(job.signature), int(job.gpus), waited_gpu_s)

    def payers(self, job: Job, cluster: Cluster) -> list[Payer]:
        """Of the waiting jobs that could use one of the job's machines those that have waited longest, at most one
        of each signature, as of the latest review."""
        fit = cluster.feasibility
        allocation = job.allocation
        if fit is None or allocation is None:
            return list(self._payers.values())
        payers: list[Payer] = []
        for payer in self._payers.values():
            for part in range(len(allocation.machines)):
                if fit.most(payer.signature, allocation.machines[part]) > 0:
                    payers.append(payer)
                    break
        return payers

    def anew(self) -> Consent:
        """The same rules, of no jobs yet."""
        return Consent(self.rules, self._usual_s)


picklable(Consent, ConsentRules(), 0.0)


def cost_gpu_s(job: Job, now: float, view: View) -> float:
    """GPU time that stopping the job undoes and takes: its whole run, and its restart."""
    return float(job.gpus) * (view.at_risk_s(job, now) + view.restart_s(job))


def _freed_together(job: Job, cluster: Cluster) -> i64:
    """Its GPUs and those that are free beside them: what its stop would be good for."""
    gpus = job.gpus
    allocation = job.allocation
    if allocation is not None:
        for part in range(len(allocation.machines)):
            gpus += cluster.all_free_on(allocation.machines[part])
    return gpus
