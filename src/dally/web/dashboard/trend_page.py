"""How the cluster fares over time: charts, a sentence and a table each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse

from dally.live.store.database import StoreError
from dally.metrics.trends import SIZE_CLASSES, SLOT_SIZES, TOPICS, Point, Trends
from dally.report.time_text import duration
from dally.web.dashboard.scene import Scene
from dally.web.dashboard.templating import moment_of, page, scene_of
from dally.web.routes.dependencies import AnyCaller

MOST_POINTS: Final = 600
SPANS: Final = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0, "month": 30 * 86400.0}  # of the wall clock
ALL: Final = "all"  # of a run
OWN: Final = re.compile("([1-9][0-9]{0,2})([hd])", re.ASCII)  # any other: 36h, 10d
UNITS_S: Final = {"h": 3600.0, "d": 86400.0}

router = APIRouter(include_in_schema=False)


@router.get("/trends")
async def trend_page(request: Request, caller: AnyCaller, span: str = "") -> HTMLResponse:
    """The page; its figures come as JSON."""
    scene = scene_of(request)
    chosen = _chosen(scene, span)
    result, point = await run_in_threadpool(_rows_of, scene, chosen, moment_of(request))
    parts = trend_labels(point, result, scene.topology.tiers)
    spans = list(SPANS) if scene.is_live else [*SPANS, ALL]
    return page(request, caller, "trends.html", topics=_topics(result), words=parts, spans=spans, span=chosen)


@router.get("/trends/series.json")
async def series(request: Request, caller: AnyCaller, span: str = "") -> JSONResponse:
    """All series of a span that ends now, or at the moment of a replay."""
    scene, at_s = scene_of(request), moment_of(request)
    chosen = _chosen(scene, span)
    result, point = await run_in_threadpool(_rows_of, scene, chosen, at_s)
    status = scene.status(at_s)
    return JSONResponse(
        {
            "boot": scene.boot,
            "every_s": result.every_s,
            "span_s": _seconds(chosen),
            "wall_s": result.wall_s,
            "now": {"wall_s": status.wall_s, **_now(point, result, scene)},
            "topics": [
                {
                    "name": topic.name,
                    "unit": topic.unit,
                    "series": [
                        {"name": one.name, "label": one.label, "values": [_short(value) for value in one.values]}
                        for one in result.of(topic.name)
                    ],
                }
                for topic in TOPICS
            ],
        }
    )


@router.get("/trends/now.json")
async def now(request: Request, caller: AnyCaller) -> JSONResponse:
    """The newest point alone."""
    scene, at_s = scene_of(request), moment_of(request)
    point, status = await run_in_threadpool(scene.point, at_s), scene.status(at_s)
    return JSONResponse({"wall_s": status.wall_s, **_now(point, Trends([], [], 60.0), scene)})


def _now(point: Point, result: Trends, scene: Scene) -> dict[str, Any]:
    tiers = scene.topology.tiers
    timers = {
        f"timer_{gpus}_{tier}": None if seconds is None else _short(seconds / 60.0)
        for gpus, timers_s in point.timers_s.items()
        for tier, seconds in zip(tiers[1:], timers_s, strict=False)
    }
    parts = trend_labels(point, result, tiers)
    if not result.series:
        del parts["preemptions"]
    return {"values": {name: _short(value) for name, value in point.values.items()} | timers, "words": parts}


def _chosen(scene: Scene, span: str) -> str:
    usual = "day" if scene.is_live else ALL
    return span if _seconds(span) or (span == ALL and not scene.is_live) else usual


def _seconds(span: str) -> float | None:
    """How long a span is; None of a whole run, and of what is none."""
    own = OWN.fullmatch(span)
    return SPANS.get(span) if own is None else int(own.group(1)) * UNITS_S[own.group(2)]


def _rows_of(scene: Scene, span: str, at_s: float | None) -> tuple[Trends, Point]:
    first_s, last_s = scene.span()
    to_s = last_s if at_s is None or span == ALL else at_s
    back_s = _seconds(span)
    from_s = first_s if back_s is None else to_s - back_s * scene.speed
    if not scene.is_live:
        from_s = max(from_s, first_s)
        to_s = max(to_s, min(last_s, from_s + 60.0))
    try:
        return scene.trends(from_s, to_s, MOST_POINTS), scene.point(at_s)
    except StoreError:
        raise HTTPException(503, "the store cannot be read just now; ask again") from None


def _topics(result: Trends) -> list[dict[str, Any]]:
    """Those of which anything is known, and those which may come yet."""
    return [
        {"name": topic.name, "title": topic.title, "unit": topic.unit}
        for topic in TOPICS
        if result.of(topic.name) or topic.name != "cycles"
    ]


def _short(value: float | None) -> float | None:
    """With as many digits as a chart can show."""
    return None if value is None else float(f"{value:.5g}")


def trend_labels(point: Point, result: Trends, tiers: Sequence[str]) -> dict[str, str]:
    """By topic, how things stand at a moment; counts are those of the whole time that the charts show."""
    value = point.values.get
    parts = {
        "gpus": f"{_plain(value('gpus_used', 0.0))} of {_plain(value('gpus_up', 0.0))} GPUs in service are used, "
        f"{_plain(value('gpus_useful', 0.0))} of them usefully.",
        "waiting_jobs": _waiting(point, "waiting_jobs", "job waits", "jobs wait"),
        "waiting_gpus": _waiting(point, "waiting_gpus", "GPU is waited for", "GPUs are waited for"),
        "slots": _slots(point),
        "fragmentation": f"{_plain(value('fragmentation', 0.0))} % of the free GPUs cannot serve a whole machine.",
        "timers": _timers(point, tiers),
        "preemptions": _preemptions(result),
    }
    if "cycle_ms" in point.values:
        mean_ms, most_ms = value("cycle_ms", 0.0), value("longest_cycle_ms", 0.0)
        takes = f"A cycle takes {mean_ms:.1f} ms of CPU in the mean, the longest {most_ms:.1f} ms."
        parts["cycles"] = takes if most_ms > 0.0 else "No cycle since the latest point."
    return parts


def _plain(number: float) -> str:
    return f"{number:,.1f}".removesuffix(".0") if abs(number) < 10.0 else f"{number:,.0f}"


def _waiting(point: Point, topic: str, one: str, many: str) -> str:
    parts = {label: point.values.get(f"{topic}_{name}", 0.0) for name, label in SIZE_CLASSES.items()}
    total = sum(parts.values())
    if total == 0.0:
        return "No job waits."
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
        f"{gpus} GPUs: {duration(seconds)} for closer than one {tier}"
        for gpus, timers_s in sorted(point.timers_s.items())
        for tier, seconds in zip(tiers[1:], timers_s, strict=False)
        if seconds
    ]
    return f"{'; '.join(parts)}." if parts else "No demand delays for a closer place."


def _preemptions(result: Trends) -> str:
    total = sum(value or 0.0 for one in result.of("preemptions") for value in one.values)
    return f"{_plain(total)} preemption{'s' if total != 1.0 else ''} in the time shown."
