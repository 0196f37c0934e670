"""Who got what: GPU-hours, waits and fairness by queue and by user, and the use of every type of GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dally.metrics.summary import mean, quantile
from dally.metrics.usage import QueueUse, queue_of, queue_use, type_use
from dally.model import CANCEL, FINISH, FINISHED, SUBMIT

if TYPE_CHECKING:
    from dally.metrics.simulated import Simulated
    from dally.policies.gate.gate import Gate
    from dally.policies.gate.notes import Reclaimed

HOUR_S = 3600.0
LEAST_VIED = 0.01  # of the longest time that a queue vied with others: less says nothing of its share


def summarize_sharing(record: Simulated) -> dict[str, Any]:
    """What summary.json says of queues and types of GPU; nothing where a run has neither."""
    sharing = record.sharing
    if sharing is None:  # one policy has all GPUs, maybe of several types
        return {"gpu_types": type_use(record).summary()} if len(set(record.topology.gpu_types)) > 1 else {}
    uses = queue_use(record, sharing.tree)
    return {
        "queues": _by_queue(record, sharing, uses),
        "jain": jain([use.vied_gpu_s / use.vied_s / use.part for use in _rivals(uses)]),
        "rho": rho_by_user(record),
        "gpu_types": type_use(record).summary(),
    }


def _by_queue(record: Simulated, sharing: Gate, uses: dict[str, QueueUse]) -> dict[str, dict[str, Any]]:
    entitled = sharing.due_gpu_s(record.end_s)
    taken = _reclaimed(sharing.reclaimed, "loser_queue", uses)
    options = _reclaimed(sharing.reclaimed, "winner_queue", uses)
    jct: dict[str, list[float]] = {path: [] for path in uses}
    waits: dict[str, list[float]] = {path: [] for path in uses}
    counts = dict.fromkeys(uses, 0)
    for job in record.outcomes:
        path = queue_of(sharing.tree, job)
        counts[path] += 1
        if job.status == FINISHED:
            jct[path].append(job.finish_s - job.submit_s)
            waits[path].append(max(0.0, job.finish_s - job.submit_s - job.held_s))
    return {
        path: {
            "jobs": counts[path],
            "finished": len(jct[path]),
            "queue_mean_s": mean(waits[path]),
            "jct_mean_s": mean(jct[path]),
            "guarantee": use.guarantee,
            "gpu_h": use.gpu_s / HOUR_S,
            "entitled_gpu_h": entitled.get(path, 0.0) / HOUR_S,
            "borrowed_gpu_h": use.borrowed_gpu_s / HOUR_S,
            "lent_gpu_h": use.lent_gpu_s / HOUR_S,
            "stopped": taken.get(path, (0, 0.0))[0],
            "stopped_gpu_h": taken.get(path, (0, 0.0))[1] / HOUR_S,
            "reclaimed": options.get(path, (0, 0.0))[0],
            "reclaimed_gpu_h": options.get(path, (0, 0.0))[1] / HOUR_S,
        }
        for path, use in uses.items()
    }


def _rivals(uses: dict[str, QueueUse]) -> list[QueueUse]:
    """Queues that had jobs waiting beside others long enough for their shares to be compared."""
    longest_s = max((use.vied_s for use in uses.values()), default=0.0)
    return [use for use in uses.values() if use.vied_s > LEAST_VIED * longest_s and use.part > 0.0]


def _reclaimed(rows: Iterable[Reclaimed], side: str, paths: Collection[str]) -> dict[str, tuple[int, float]]:
    """By queue of that side: jobs that were stopped, and the GPU-seconds for which they had run."""
    result: dict[str, tuple[int, float]] = {}
    for row in rows:
        queue = getattr(row, side)
        if queue not in paths:  # a priority class of a queue
            queue = queue.rpartition("#")[0]
        count, gpu_s = result.get(queue, (0, 0.0))
        result[queue] = (count + 1, gpu_s + row.gpus * row.ran_s)
    return result


def jain(shares: Sequence[float]) -> float | None:
    """Jain's index: 1 if all are equal, 1/n if one has everything; None of less than two."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if len(shares) > 1 and squares > 0.0 else None


def rho_by_user(record: Simulated) -> dict[str, Any] | None:
    """Finish-time fairness: time to finish ÷ that on a fair share, of all finished jobs of a user together.

    As Themis has it: a fair share is 1/N of the cluster, N the mean over a job's life of all demands ÷ GPUs, at
    least 1. Above 1: worse off than with a share of one's own. None where jobs have no users.
    """
    crowd = _crowding(record)
    took_s: dict[str, float] = {}
    fair_s: dict[str, float] = {}
    for job in record.outcomes:
        if job.status == FINISHED and job.user and job.finish_s > job.submit_s:
            begin, end = crowd[int(job.index)]
            span_s = job.finish_s - job.submit_s
            took_s[job.user] = took_s.get(job.user, 0.0) + span_s
            fair_s[job.user] = fair_s.get(job.user, 0.0) + job.duration_s * (end - begin) / span_s
    result = {user: took_s[user] / fair for user, fair in fair_s.items() if fair > 0.0}
    if not result:
        return None
    worst = max(result, key=lambda user: result[user])
    p50 = quantile(sorted(result.values()), 0.5)
    return {"users": len(result), "p50": p50, "max": result[worst], "worst": worst, "by_user": result}


def _crowding(record: Simulated) -> dict[int, tuple[float, float]]:
    """By finished job: the integral over time of demands ÷ GPUs, at least 1, at its submission and at its end."""
    gpus = float(record.topology.total_gpus())
    begun: dict[int, float] = {}
    result: dict[int, tuple[float, float]] = {}
    integral = demand = now = 0.0
    log = record.log
    for time_s, kind, number in zip(log.times, log.kinds, log.jobs, strict=True):
        if kind not in (SUBMIT, FINISH, CANCEL) or number < 0:
            continue
        integral += (time_s - now) * max(1.0, demand / gpus)
        now = time_s
        if kind == SUBMIT:
            begun[number] = integral
            demand += float(record.outcomes[number].gpus)
        elif number in begun:
            demand -= float(record.outcomes[number].gpus)
            result[number] = (begun.pop(number), integral)
    return result
