"""Which domain is kept for a gang that has waited too long and cannot be served at once."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Job
from dally.policies.consolidating import held
from dally.policies.dally.books import Books
from dally.policies.dally.kept_domain import Kept


def tier_with_room(job: Job, near: i64, cluster: Cluster) -> i64:
    """The first tier from there on that has a domain whose machines could hold the gang as things are."""
    for tier in range(near, cluster.root + 1):
        for domain in range(len(cluster.topology.names[tier])):
            if could_hold(job, tier, domain, cluster):
                return tier
    return near


def could_hold(job: Job, tier: i64, domain: i64, cluster: Cluster) -> bool:
    """Whether machines of the domain that are up have enough GPUs, in whole groups, whoever may lose them."""
    first, last = cluster.topology.machines_of(tier, domain)
    gpus: i64 = 0
    for machine in range(first, last):
        if not cluster.down[machine]:
            whole = cluster.topology.gpus[0][machine] - _taken(machine, cluster)
            gpus += whole // job.group * job.group
            if gpus >= job.gpus:
                return True
    return False


def _taken(machine: i64, cluster: Cluster) -> i64:
    """GPUs of the machine that jobs have which stay."""
    gpus: i64 = 0
    for job in cluster.jobs_on[machine]:
        if job.non_preemptible:
            gpus += held(cluster.topology, job, 0, machine)
    return gpus


def keep_domain(job: Job, tier: i64, preempts: bool, cluster: Cluster, books: Books, kept: Kept) -> float:
    """Keep the domain of that tier that is ready first; returns when, infinity if that is not known.

    Where nobody may be preempted for the job, the domain with most free GPUs is kept until it has enough.
    """
    chosen: i64 = -1
    chosen_s = INFINITY
    most_free: i64 = -1
    for domain in range(len(cluster.topology.names[tier])):
        if not could_hold(job, tier, domain, cluster):
            continue
        ready_s = books.ready_s(job.gpus, tier, domain, cluster)
        if ready_s == INFINITY:
            continue  # others hold what nobody may take
        if not preempts:
            ready_s = INFINITY
        free = cluster.free[tier][domain]
        if not preempts and kept.job == job.index and kept.tier == tier and kept.domain == domain:
            free = job.gpus  # it was chosen before: whoever ended since then did so for this gang
        if chosen < 0 or ready_s < chosen_s or (ready_s == chosen_s and free > most_free):
            chosen, chosen_s, most_free = domain, ready_s, free
    if chosen < 0:
        kept.let_go()
        return INFINITY
    kept.keep(job, tier, chosen)
    return chosen_s
