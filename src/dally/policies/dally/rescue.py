"""Which domain is kept for a gang that has waited too long and cannot be served at once."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Job
from dally.policies.dally.books import Books
from dally.policies.dally.kept_domain import Kept


def keep_domain(job: Job, tier: i64, preempts: bool, cluster: Cluster, books: Books, kept: Kept) -> float:
    """Keep the domain of that tier that is ready first; returns when, infinity if that is not known.

    Where nobody may be preempted for the job, the domain with most free GPUs is kept until it has enough.
    """
    chosen: i64 = -1
    chosen_s = INFINITY
    most_free: i64 = -1
    for domain in range(len(cluster.topology.names[tier])):
        ready_s = books.ready_s(job.gpus, tier, domain, cluster)
        if ready_s == INFINITY:
            continue  # too many of its machines are down
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
