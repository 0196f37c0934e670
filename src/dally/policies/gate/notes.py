"""What the gate tells: what tenants hold and are due, who gave way to whom, and what their first jobs wait for."""

from __future__ import annotations

from typing import Final, NamedTuple

from dally.model import Job
from dally.policies.gate.tenants import HOUR_S, Tenant

EPSILON: Final = 1e-9


class Reclaimed(NamedTuple):
    """A job that stopped so that another could have what it was due."""

    time_s: float
    loser: str
    winner: str
    loser_queue: str
    winner_queue: str
    gpus: int
    ran_s: float
    held: int  # by the loser's queue before, and what it was due
    due: float


class Sample(NamedTuple):
    """What a queue holds, asks for and is due of a type of GPU at one moment."""

    time_s: float
    queue: str
    gpu_type: str
    held: int
    demanded: int
    due: float
    guaranteed: float
    used_gpu_s: float  # past use, decayed


class Stall(NamedTuple):
    """From then on a queue's first job waits for this; no cause: not for its queue."""

    time_s: float
    queue: str
    gpu_type: str
    cause: str  # of STALL_TEXTS
    of: str  # the queue whose limit, budget or hold it is
    most: float  # GPUs it may hold, or GPU-hours of its budget
    held: int  # GPUs that it holds


# By cause, with the values of a Stall.
STALL_TEXTS: Final = {
    "hold": "queue {of} is on hold",
    "budget": "the budget of queue {of} is used up: {most:,.0f} GPU-hours",
    "limit": "queue {of} is at its limit: it holds {held} of {most:,.0f} GPUs",
    "room": "queue {of} has no room for its first job: it holds {held} of {most:,.0f} GPUs",
    "share": "queue {of} has its share: it holds {held} GPUs and is due {most:.1f}",
}
# The same later on, when the queue may hold and be due more or less.
LATER_TEXTS: Final = STALL_TEXTS | {
    "limit": "queue {of} is at its limit of {most:,.0f} GPUs",
    "room": "queue {of} has no room for its first job below its limit of {most:,.0f} GPUs",
    "share": "queue {of} has its share",
}


def cause_of(tenant: Tenant, kind: int, job: Job, due: float) -> tuple[str, Tenant]:
    """What keeps that job of the tenant waiting, and whose that is; "": nothing of its queue's."""
    above: Tenant | None = tenant
    while above is not None:
        if above.hold:
            return "hold", above
        if above.budget_left_gpu_s() <= job.restart_due_s * float(job.gpus):
            return "budget", above
        if float(job.gpus) > above.room(kind) + EPSILON:
            return "limit", above
        above = above.parent
    return ("share" if float(tenant.held[kind] + job.gpus) > due + EPSILON else ""), tenant


def stall(tenant: Tenant, name: str, kind: int, cause: str, of: Tenant, due: float, now: float) -> Stall:
    """The same as a note; `name`: of the type of GPU."""
    held, most = int(tenant.held[kind]), due if cause == "share" else 0.0
    if cause == "budget":
        most = of.budget_gpu_s / HOUR_S
    elif cause == "limit":
        whole = of.limits[kind] - float(of.held[kind]) > of.limit - float(of.held_in_all)
        most, held = (of.limit, int(of.held_in_all)) if whole else (of.limits[kind], int(of.held[kind]))
    return Stall(now, tenant.path, name, cause, of.path if cause else "", most, held)
