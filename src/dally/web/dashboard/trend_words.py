"""What charts show, in a sentence each: for those who listen, and for those in a hurry."""

from __future__ import annotations

from collections.abc import Sequence

from dally.metrics.trends import SIZE_CLASSES, SLOT_SIZES, Point, Trends
from dally.report.time_text import brief


def trend_words(point: Point, found: Trends, tiers: Sequence[str]) -> dict[str, str]:
    """By topic, how things stand at a moment; counts are those of the whole time that the charts show."""
    value = point.values.get
    words = {
        "gpus": f"{_plain(value('gpus_used', 0.0))} of {_plain(value('gpus_up', 0.0))} GPUs in service are used, "
        f"{_plain(value('gpus_useful', 0.0))} of them usefully.",
        "waiting_jobs": _waiting(point, "waiting_jobs", "job waits", "jobs wait"),
        "waiting_gpus": _waiting(point, "waiting_gpus", "GPU is waited for", "GPUs are waited for"),
        "slots": _slots(point),
        "fragmentation": f"{_plain(value('fragmentation', 0.0))} % of the free GPUs cannot serve a whole machine.",
        "timers": _timers(point, tiers),
        "preemptions": _preemptions(found),
    }
    if "turn_ms" in point.values:
        mean_ms, most_ms = value("turn_ms", 0.0), value("longest_turn_ms", 0.0)
        words["turns"] = f"A turn takes {mean_ms:.1f} ms of CPU in the mean, the longest {most_ms:.1f} ms."
    return words


def _plain(number: float) -> str:
    return f"{number:,.1f}".removesuffix(".0") if abs(number) < 10.0 else f"{number:,.0f}"


def _waiting(point: Point, topic: str, one: str, many: str) -> str:
    parts = {label: point.values.get(f"{topic}_{name}", 0.0) for name, label in SIZE_CLASSES.items()}
    total = sum(parts.values())
    if total == 0.0:
        return "Nobody waits."
    by_size = ", ".join(f"{_plain(count)} ({label})" for label, count in parts.items() if count)
    return f"{_plain(total)} {one if total == 1.0 else many}: {by_size}."


def _slots(point: Point) -> str:
    parts = [
        f"{_plain(point.values[f'slots_{size}'])} of {size} GPUs"
        for size in SLOT_SIZES
        if f"slots_{size}" in point.values
    ]
    return (
        f"Gangs that could start, each size by itself: {', '.join(parts)}."
        if parts
        else "Nothing is known of slots."
    )


def _timers(point: Point, tiers: Sequence[str]) -> str:
    parts = [
        f"{gpus} GPUs: {brief(seconds)} for closer than one {tier}"
        for gpus, timers_s in sorted(point.timers_s.items())
        for tier, seconds in zip(tiers[1:], timers_s, strict=False)
        if seconds
    ]
    return f"{'; '.join(parts)}." if parts else "No demand holds out for closer."


def _preemptions(found: Trends) -> str:
    total = sum(value or 0.0 for one in found.of("preemptions") for value in one.values)
    return f"{_plain(total)} preemption{'s' if total != 1.0 else ''} in the time shown."
