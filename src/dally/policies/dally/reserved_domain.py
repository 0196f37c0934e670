"""A domain reserved for a job that has waited too long: no other job gets GPUs there."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.cluster.trial import Trial
from dally.model import INFINITY, Job
from dally.pickles import picklable
from dally.policies.consolidating import held
from dally.policies.dally.ledger import Ledger

NO_JOB: i64 = -1


class ReservedDomain:
    """Which domain is reserved, if any, and for which job."""

    __slots__ = ("domain", "job", "tier")

    def __init__(self) -> None:
        self.job: i64 = NO_JOB
        self.tier: i64 = 0
        self.domain: i64 = 0

    def reserve(self, job: Job, tier: i64, domain: i64) -> None:
        """From now on the domain is the job's."""
        self.job = job.index
        self.tier = tier
        self.domain = domain

    def release(self) -> None:
        """Nothing is reserved any more."""
        self.job = NO_JOB

    def trial(self, cluster: Cluster) -> Trial:
        """A trial in which nothing of the reserved domain is to be had."""
        trial = cluster.trial()
        if self.job != NO_JOB:
            trial.block(self.tier, self.domain)
        return trial

    def overlaps(self, tier: i64, domain: i64, cluster: Cluster) -> bool:
        """Whether a domain holds GPUs that are reserved."""
        if self.job == NO_JOB:
            return False
        first, last = cluster.topology.machines_of(tier, domain)
        own_first, own_last = cluster.topology.machines_of(self.tier, self.domain)
        return first < own_last and own_first < last


picklable(ReservedDomain)


def tier_with_room(job: Job, near: i64, cluster: Cluster) -> i64:
    """The first tier from there on that has a domain whose machines could hold the gang as things are."""
    for tier in range(near, cluster.root + 1):
        for domain in range(len(cluster.topology.names[tier])):
            if could_hold(job, tier, domain, cluster):
                return tier
    return near


def could_hold(job: Job, tier: i64, domain: i64, cluster: Cluster) -> bool:
    """Whether machines of the domain that are up have enough GPUs, in whole groups, whichever job may lose them."""
    first, last = cluster.topology.machines_of(tier, domain)
    gpus: i64 = 0
    for machine in range(first, last):
        if not cluster.down[machine]:
            whole = cluster.topology.gpus[0][machine] - _taken(machine, cluster)
            whole = min(whole, cluster.most_on(job, machine))
            group = cluster.group_of(job)
            gpus += whole // group * group
            if gpus >= job.gpus:
                return True
    return False


def _taken(machine: i64, cluster: Cluster) -> i64:
    """GPUs of the machine that non-preemptible jobs hold."""
    gpus: i64 = 0
    for job in cluster.jobs_on[machine]:
        if job.non_preemptible:
            gpus += held(cluster.topology, job, 0, machine)
    return gpus


def reserve_domain(
    job: Job, tier: i64, preempts: bool, cluster: Cluster, ledger: Ledger, reserved: ReservedDomain
) -> float:
    """Reserve the domain of that tier that is ready first; returns when, infinity if that is not known.

    Where no job may be preempted for it, the domain with most free GPUs is reserved until it has enough.
    """
    chosen: i64 = -1
    chosen_s = INFINITY
    most_free: i64 = -1
    for domain in range(len(cluster.topology.names[tier])):
        if not could_hold(job, tier, domain, cluster):
            continue
        ready_s = ledger.ready_s(job.gpus, tier, domain, cluster)
        if ready_s == INFINITY:
            continue  # others hold GPUs that may not be taken
        if not preempts:
            ready_s = INFINITY
        free = cluster.free[tier][domain]
        if not preempts and reserved.job == job.index and reserved.tier == tier and reserved.domain == domain:
            free = job.gpus  # it was chosen before: what has ended since then did so for this gang
        if chosen < 0 or ready_s < chosen_s or (ready_s == chosen_s and free > most_free):
            chosen, chosen_s, most_free = domain, ready_s, free
    if chosen < 0:
        reserved.release()
        return INFINITY
    reserved.reserve(job, tier, chosen)
    return chosen_s
