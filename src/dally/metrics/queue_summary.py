"""Who got what: GPU-hours, waits and fairness by queue and by user, and the use of every type of GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dally.metrics.summary import mean
from dally.metrics.usage import QueueUse, queue_use, queues_by_job, type_use
from dally.model import FINISHED

if TYPE_CHECKING:
    from dally.metrics.simulated import Simulated
    from dally.policies.gate.gate import Gate
    from dally.policies.gate.notes import Reclaimed

HOUR_S = 3600.0
LEAST_VIED = 0.01  # of the longest time that a queue vied with others: less says nothing of its share


def summarize_sharing(record: Simulated, rho: dict[str, Any] | None) -> dict[str, Any]:
    """What summary.json says of queues and types of GPU; nothing where a run has neither."""
    sharing = record.sharing
    if sharing is None:  # one policy has all GPUs, maybe of several types
        return {"gpu_types": type_use(record).summary()} if len(set(record.topology.gpu_types)) > 1 else {}
    homes = queues_by_job(sharing.tree, record.outcomes)
    uses = queue_use(record, sharing.tree, homes)
    return {
        "queues": _by_queue(record, sharing, homes, uses),
        "jain": jain([use.vied_gpu_s / use.vied_s / use.part for use in _rivals(uses)]),
        "rho": rho,
        "gpu_types": type_use(record).summary() if any(record.topology.gpu_types) else {},
    }


def _by_queue(
    record: Simulated, sharing: Gate, homes: list[str], uses: dict[str, QueueUse]
) -> dict[str, dict[str, Any]]:
    entitled = sharing.due_gpu_s(record.end_s)
    taken = _reclaimed(sharing.reclaimed, "loser_queue", uses)
    options = _reclaimed(sharing.reclaimed, "winner_queue", uses)
    jct: dict[str, list[float]] = {path: [] for path in uses}
    waits: dict[str, list[float]] = {path: [] for path in uses}
    counts = dict.fromkeys(uses, 0)
    for job, path in zip(record.outcomes, homes, strict=True):
        counts[path] += 1
        if job.status == FINISHED:
            jct_s = job.finish_s - job.submit_s
            jct[path].append(jct_s)
            waits[path].append(max(0.0, jct_s - job.held_s))
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
