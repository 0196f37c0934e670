"""What a trace looks like: sizes, durations, arrivals, load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import Any, Final

from dally.traces.changes import arrival_span_s, gpu_s, load_of
from dally.traces.reading import History
from dally.traces.rows import NOT_KNOWN, TraceRow
from dally.traces.times import Clock

LARGE_GPUS: Final = 8  # more than this needs several machines of the usual size
DURATIONS: Final = (
    ("up to 1 min", 60.0), ("1-10 min", 600.0), ("10 min-1 h", 3600.0), ("1-6 h", 21600.0), ("6-24 h", 86400.0),
    ("1-7 d", 604800.0), ("over 7 d", float("inf")),
)  # fmt: skip


def statistics(history: History, clock: Clock, cluster_gpus: int | None = None) -> dict[str, Any]:
    """The figures of a trace by name; what is not known is None."""
    rows = history.rows
    work_s = gpu_s(rows) if history.length != "iterations" else None
    large_s = gpu_s(row for row in rows if row.spec.gpus > LARGE_GPUS)
    waits = sorted(row.wait_s for row in rows if row.wait_s != NOT_KNOWN)
    sizes = sorted(row.spec.gpus for row in rows)
    return {
        "format": history.format,
        "rows": len(rows),
        "length": history.length,
        "users": len({row.spec.user for row in rows if row.spec.user}),
        "span_s": arrival_span_s(rows),
        "gpu_hours": None if work_s is None else work_s / 3600.0,
        "share_over_8": large_s / work_s if work_s else None,
        "gpus_mean": sum(sizes) / len(sizes) if sizes else None,
        "gpus_max": sizes[-1] if sizes else None,
        **_durations(history),
        "wait_mean_s": sum(waits) / len(waits) if waits else None,
        "wait_p50_s": percentile(waits, 50),
        "sizes": by_size(rows, work_s),
        "durations": by_duration(rows) if work_s is not None else [],
        "arrivals_by_hour": by_hour(history, clock),
        "statuses": dict(Counter(row.status for row in rows if row.status).most_common()),
        "cluster_gpus": cluster_gpus,
        "load": load_of(history, cluster_gpus) if cluster_gpus and work_s is not None else None,
        "impossible": sum(row.spec.gpus > cluster_gpus for row in rows) if cluster_gpus else None,
        "unused": history.unused,
        "notes": history.notes,
    }


def _durations(history: History) -> dict[str, float | None]:
    known = sorted(row.stated for row in history.rows) if history.length != "iterations" else []
    return {
        "duration_mean_s": sum(known) / len(known) if known else None,
        **{f"duration_p{share}_s": percentile(known, share) for share in (50, 90, 99)},
        "duration_max_s": known[-1] if known else None,
        "zero_durations": known.count(0.0),
    }


def percentile(ordered: Sequence[float], share: int) -> float | None:
    """The smallest value that at least that share, in percent, does not exceed; None of nothing."""
    return ordered[max(ceil(len(ordered) * share / 100) - 1, 0)] if ordered else None


def by_size(rows: Sequence[TraceRow], work_s: float | None) -> list[dict[str, Any]]:
    """Jobs and GPU-hours by GPUs: 1, 2, 3-4, 5-8 and so on."""
    jobs: Counter[int] = Counter()
    seconds: dict[int, float] = {}
    for row in rows:
        step = (row.spec.gpus - 1).bit_length()
        jobs[step] += 1
        seconds[step] = seconds.get(step, 0.0) + row.spec.gpus * row.stated
    return [
        {
            "gpus": str(1 << step) if step < 2 else f"{(1 << step - 1) + 1}-{1 << step}",
            "jobs": jobs[step],
            "jobs_share": jobs[step] / len(rows),
            "gpu_hours": None if work_s is None else seconds[step] / 3600.0,
            "gpu_hours_share": seconds[step] / work_s if work_s else None,
        }
        for step in sorted(jobs)
    ]


def by_duration(rows: Sequence[TraceRow]) -> list[dict[str, Any]]:
    """Jobs by how long they run."""
    counts = dict.fromkeys((name for name, _ in DURATIONS), 0)
    for row in rows:
        counts[next(name for name, most_s in DURATIONS if row.stated <= most_s)] += 1
    return [{"duration": name, "jobs": count, "jobs_share": count / len(rows)} for name, count in counts.items()]


def by_hour(history: History, clock: Clock) -> list[int]:
    """Submissions in each hour of the day; of 24 hours from second 0 where dates are not known."""
    counts = [0] * 24
    for row in history.rows:
        if history.epoch_s is None:
            hour = int(row.submit_s // 3600.0) % 24
        else:
            hour = clock.hour(history.epoch_s + row.submit_s)
        counts[hour] += 1
    return counts
