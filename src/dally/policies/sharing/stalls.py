"""Why a team's first job waits though there may be GPUs: its limits, its budget, or its share."""

from __future__ import annotations

from typing import NamedTuple

from dally.model import Job
from dally.policies.sharing.desks import Desk

EPSILON = 1e-9


class Stall(NamedTuple):
    """From then on a queue's first job waits for this; no cause: not for its queue."""

    time_s: float
    queue: str
    gpu_type: str
    cause: str  # hold, budget, limit or share
    of: str  # the queue whose limit, budget or hold it is
    most: float  # GPUs it may hold, or GPU-hours of its budget
    held: int  # GPUs that it holds


def stall_of(desk: Desk, job: Job, due: float, now: float) -> Stall:
    """What keeps that job of the team waiting."""
    kind = desk.pool.kind
    found = Stall(now, desk.team.path, desk.pool.name, "", "", 0.0, desk.team.held[kind])
    for team in desk.team.up():
        written = team.written
        if written.hold:
            return found._replace(cause="hold", of=team.path)
        if written.budget is not None and team.budget_left_gpu_s() <= job.restart_due_s * float(job.gpus):
            return found._replace(cause="budget", of=team.path, most=written.budget.gpu_hours)
        if float(job.gpus) > team.room(kind) + EPSILON:
            own, over_all = team.quotas[kind].limit - team.held[kind], team.over_all.limit - sum(team.held)
            most = team.quotas[kind].limit if own <= over_all else team.over_all.limit
            held = team.held[kind] if own <= over_all else sum(team.held)
            return found._replace(cause="limit", of=team.path, most=most, held=held)
    if found.held + int(job.gpus) > due + EPSILON:
        return found._replace(cause="share", of=desk.team.path, most=due)
    return found
