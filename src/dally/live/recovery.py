"""Going on after a restart: the books as they were last written. The next cycle sets them right by the backend."""

from __future__ import annotations

from dally.engine.rates import advance
from dally.engine.state import State
from dally.live.facts import job_of
from dally.live.left_out import LeftOut
from dally.live.overrides import FIRST, Overrides
from dally.live.roster import Roster
from dally.live.store import Store
from dally.live.store.job_rows import restore_clocks, told_of
from dally.model import INFINITY, STATUS_NAMES, Allocation

LEARNT = "learnt"  # the fact under which a policy's knowledge is kept


def restore(store: Store, state: State, roster: Roster, overrides: Overrides, now: float) -> LeftOut:
    """Take up every job that had not ended, with its clocks and leases, and what was wanted of it.

    Those that do not fit are returned.
    """
    learnt = store.fact(LEARNT)
    if learnt is not None and learnt.get("policy") == type(state.policy).__qualname__:
        state.policy.load(learnt["knows"])
    gpus = int(roster.topology.total_gpus())
    left_out = LeftOut()
    rows = store.live_jobs()
    newest = {row["job_id"]: row["number"] for row in rows}
    for row in rows:
        told = told_of(row)
        job = job_of(told, row["number"], row["submit_s"], roster.usual_model)
        restore_clocks(job, row["clocks"])
        if row["number"] != newest[job.job_id]:
            left_out.add_replaced(job, told)
            continue
        if told.gpus > gpus:  # the cluster has become smaller: see truth.py
            job.status = STATUS_NAMES.index(row["status"])
            left_out.add(job, told)
            continue
        lease_end_s = job.lease_end_s
        job.prioritized = job.job_id in overrides.of(FIRST)
        job.delay_until_s = overrides.patient_until_s(job.job_id)
        roster.enter(job, told)
        allocation = roster.allocation(row["placement"] or {})
        if row["status"] == "running" and allocation is not None and _is_free(state, allocation):
            advance(job, now, state.checkpoint_every_s)
            state.adopt(job, now, allocation)
            if lease_end_s < INFINITY:
                state.restore_lease(job, lease_end_s)
        else:
            state.adopt(job, now)
            if row["status"] == "held":
                state.hold(job, now)
    roster.next_number = max(roster.next_number, store.last_number() + 1)
    for wanted in store.wanted():
        if wanted.job_id in roster.jobs:
            roster.wanted[wanted.job_id] = wanted
    return left_out


def _is_free(state: State, allocation: Allocation) -> bool:
    """Not where the machine has fewer GPUs than before."""
    return all(state.cluster.free[0][machine] >= gpus for machine, gpus in allocation.parts())
