"""Going on after a restart: the books as they were last written. The next cycle reconciles them."""

from __future__ import annotations

from typing import Any, Final

from dally.engine.handover import restore_lease
from dally.engine.rates import advance, end
from dally.engine.state import State
from dally.live.backends import base
from dally.live.backends.base import ObservedJob
from dally.live.facts import job_of
from dally.live.overrides import FIRST, Overrides
from dally.live.reconcile.roster import Roster
from dally.live.store import Store
from dally.live.store.log_rows import REPLACED, UNKNOWN, end_row, ended_row, observed_of, restore_clocks
from dally.model import CANCEL, CANCELLED, FINISH, FINISHED, INFINITY, NEVER, RUNNING, STATUS_NAMES, Allocation, Job

LEARNT: Final = "learnt"  # the fact under which a policy's knowledge is kept
SPEEDS: Final = "speeds"  # what was learnt of jobs' sensitivity to the network
CONSENT: Final = "waits_from_s"  # since when waiting pays for lost work


def restore(store: Store, state: State, roster: Roster, overrides: Overrides, now: float) -> LeftOut:
    """Take up every job that had not ended, with its clocks and leases, and what is pending of it.

    Those that do not fit are returned.
    """
    learnt = store.fact(LEARNT)
    if learnt is not None and learnt.get("policy") == type(state.policy).__qualname__:
        state.policy.load(learnt["knows"])
    speeds = store.fact(SPEEDS)
    if speeds:
        state.speed.restore(speeds)
    if state.consent is not None:
        state.consent.waits_from_s = store.fact(CONSENT) or NEVER
    gpus = int(roster.topology.total_gpus())
    left_out = LeftOut()
    rows = store.live_jobs()
    newest = {row["job_id"]: row["number"] for row in rows}
    for row in rows:
        observed = observed_of(row)
        job = job_of(observed, row["number"], row["submit_s"], roster.usual_model)
        restore_clocks(job, row["clocks"])
        if row["number"] != newest[job.job_id]:
            left_out.replaced.append((job, observed))
        elif observed.spec.gpus > gpus:  # the cluster has become smaller
            job.status = STATUS_NAMES.index(row["status"])
            left_out.jobs[job.job_id] = (job, observed)
        else:
            job.prioritized = job.job_id in overrides.of(FIRST)
            job.delay_until_s = overrides.delay_until_s(job.job_id)
            roster.enter(job, observed)
            _take_up(state, job, row["status"], roster.allocation(row["placement"] or {}), now)
    roster.next_number = max(roster.next_number, store.last_number() + 1)
    roster.orders = {order.job_id: order for order in store.pending_orders() if order.job_id in roster.jobs}
    return left_out


def _take_up(state: State, job: Job, status: str, allocation: Allocation | None, now: float) -> None:
    lease_end_s = job.lease_end_s
    if status == "running" and allocation is not None and _is_free(state, allocation):
        advance(job, now, state.checkpoint_every_s)
        state.adopt(job, now, allocation)
        if lease_end_s < INFINITY:
            restore_lease(state, job, lease_end_s)
        return
    state.adopt(job, now)
    if status == "held":
        state.hold(job, now)


def _is_free(state: State, allocation: Allocation) -> bool:
    """Not where the machine has fewer GPUs than before."""
    return all(state.cluster.all_free_on(machine) >= gpus for machine, gpus in allocation.parts())


class LeftOut:
    """Jobs of before a restart that ask for more GPUs than there are now.

    They stay as they are in the store, for a larger cluster, until they end or go on as others.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[Job, ObservedJob]] = {}  # with the status that they had
        self.replaced: list[tuple[Job, ObservedJob]] = []  # those that go on under the same name and a later number

    def rows_of_ended(self, roster: Roster, now: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows of those that go on as others or have ended, and the ends of the latter as events."""
        jobs = [ended_row(_ended(job, CANCELLED), observed, REPLACED, now) for job, observed in self.replaced]
        self.replaced = []
        events: list[dict[str, Any]] = []
        reported = {job.job_id: job for job in roster.snapshot.jobs} if self.jobs else {}
        for job_id, (job, before) in list(self.jobs.items()):
            observed = reported.get(job_id)
            if job_id in roster.jobs:
                jobs.append(ended_row(_ended(job, CANCELLED), before, REPLACED, now))
            elif observed is None or observed.state in base.ENDED:
                ran = job.status == RUNNING
                cancelled = not ran or (observed is not None and observed.state == base.CANCELLED)
                if ran:
                    advance(job, now, 0.0)
                    end(job, now)
                _ended(job, CANCELLED if cancelled else FINISHED)
                outcome = UNKNOWN if observed is None else observed.state
                jobs.append(ended_row(job, observed or before, outcome, now))
                events.append(end_row(now, job_id, CANCEL if cancelled else FINISH))
            else:
                continue
            del self.jobs[job_id]
        return jobs, events


def _ended(job: Job, status: int) -> Job:
    job.status = status
    return job
