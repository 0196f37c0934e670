"""Handing a cluster at work over from one policy to another."""

from __future__ import annotations

from dally.cluster.capacity import Cluster
from dally.engine.signing import constrain
from dally.engine.state import State
from dally.model import HELD, WAITING, Job
from dally.policies import events
from dally.policies.base import Policy


def restore_lease(state: State, job: Job, end_s: float) -> None:
    """An adopted job's lease ends when it would have."""
    job.lease_end_s = end_s
    state.leases.put(job.index, end_s, 0.0)


def handed_over(state: State, jobs: list[Job], policy: Policy, now: float) -> State:
    """The same cluster at the same moment under another policy, which adopts every job that is there.

    Progress, clocks and the log go on. The old state is of no more use: its jobs are the new one's.
    """
    state.catch_up(now)
    cluster = Cluster(state.cluster.topology, state.cluster.network)
    successor = State(cluster, policy, state.speed.anew(policy.link_sharing), state.costs, state.sample_every_s)
    if state.consent is not None:
        successor.consent = state.consent.anew()
    successor.log = state.log
    successor.finished = state.finished
    successor.sample_from_s = state.sample_from_s
    successor.sample_due_s = state.sample_due_s
    fit = state.cluster.feasibility
    if fit is not None:
        fit.signatures.fits.clear()  # the old state's books
        constrain(successor, fit.signatures)
    for machine in range(len(state.cluster.down)):
        if state.cluster.down[machine]:
            cluster.fail(machine)
            successor.notify(events.MACHINE_FAILED, now, machine)
    for job in list(state.cluster.running.values()):
        successor.adopt(job, now, job.allocation)
    for job in jobs:
        if job.status == WAITING:
            successor.adopt(job, now)
        elif job.status == HELD:
            successor.adopt(job, now)
            successor.hold(job, now)
    successor.wakeup_s = now
    return successor
