"""How evenly users share a cluster: the worst user's slowdown and finish-time fairness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dally.metrics.summary import mean, quantile, slowdown
from dally.metrics.usage import crowding
from dally.model import FINISHED
from dally.perf.base import SpeedModel

if TYPE_CHECKING:
    from dally.metrics.simulated import Simulated

LEAST_USERS = 2


def summarize_users(record: Simulated, rho: dict[str, Any] | None) -> dict[str, Any]:
    """The worst user's mean slowdown and finish-time fairness; nothing unless jobs of two users finished."""
    by_user = _slowdowns(record)
    if len(by_user) < LEAST_USERS:
        return {}
    means = {user: mean(slowdowns) for user, slowdowns in by_user.items()}
    worst = max(means, key=lambda user: means[user])
    fairness = {"rho_max": rho["max"]} if rho else {}
    return {"user_slowdown_max": means[worst], "user_slowdown_worst": worst, **fairness}


def _slowdowns(record: Simulated) -> dict[str, list[float]]:
    """By user, those of finished jobs."""
    speed: SpeedModel = record.speed
    result: dict[str, list[float]] = {}
    for job in record.outcomes:
        if job.status != FINISHED:
            continue
        user = job.user
        if user:
            result.setdefault(user, []).append(slowdown(speed, job))
    return result


def rho_by_user(record: Simulated) -> dict[str, Any] | None:
    """Finish-time fairness: time to finish ÷ that on a fair share, of all finished jobs of a user together.

    As Themis has it: a fair share is 1/N of the cluster, N the mean over a job's life of all demands ÷ GPUs, at
    least 1. Above 1: worse off than with a share of one's own. None where jobs have no users.
    """
    if not any(job.user for job in record.outcomes):
        return None
    crowd = crowding(record)
    took_s: dict[str, float] = {}
    fair_s: dict[str, float] = {}
    for job in record.outcomes:
        if job.status != FINISHED or job.finish_s <= job.submit_s:
            continue
        user = job.user
        if user:
            begin, end = crowd[int(job.index)]
            span_s = job.finish_s - job.submit_s
            took_s[user] = took_s.get(user, 0.0) + span_s
            fair_s[user] = fair_s.get(user, 0.0) + job.duration_s * (end - begin) / span_s
    result = {user: took_s[user] / fair for user, fair in fair_s.items() if fair > 0.0}
    if not result:
        return None
    worst = max(result, key=lambda user: result[user])
    p50 = quantile(sorted(result.values()), 0.5)
    return {"users": len(result), "p50": p50, "max": result[worst], "worst": worst, "by_user": result}
