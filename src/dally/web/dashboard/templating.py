"""Jinja's environment: templates, the words that filters make, and what every page knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dally import __version__
from dally.cluster.formats.hostlist import fold
from dally.report.explanation.waiting import REASONS
from dally.report.time_text import duration
from dally.web.auth.tokens import OPERATOR, USER, Caller
from dally.web.dashboard.scene import Scene

EVENT_LABELS: Final = {  # where the kind of an event does not say it in plain words
    "act": "by an operator", "adopt": "taken over", "cancel": "cancelled", "evict": "put back by a failure",
    "fail": "machine failed", "finish": "finished", "hold": "held", "lease": "lease ended", "migrate": "moved",
    "preempt": "preempted", "release": "released", "renew": "lease renewed", "repair": "machine repaired",
    "resize": "resized", "start": "started", "submit": "submitted", "would": "dry run",
}  # fmt: skip


@cache
def environment() -> Environment:
    """One for all."""
    made = Environment(
        loader=PackageLoader("dally.web.dashboard"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip
    made.filters.update(
        inside=inside, often=often, places=places, duration=duration, when=when,
        path=lambda text: quote(str(text), safe=""),
    )  # fmt: skip
    made.globals.update(
        version=__version__, asset=asset_url, more_pages=more_pages, reasons=REASONS, event_labels=EVENT_LABELS
    )
    return made


def more_pages(scene: Scene, caller: Caller) -> list[tuple[str, str]]:
    """Addresses and names of the pages besides the map and the jobs."""
    whatif = [("/whatif", "What if")] if scene.is_live and caller.name and caller.role != USER else []
    teams = [("/teams", "Teams")] if scene.is_live and caller.role != USER and scene.status(None).teams else []
    log = [("/log", "Log")] if scene.is_live else []
    return [*teams, ("/trends", "Trends"), *whatif, *log]


def page(request: Request, caller: Caller, template: str, cycle: int | None = None, **values: Any) -> HTMLResponse:
    """A page, or a piece of one, as the caller may see it; it shows nothing that is older than that cycle."""
    result, at_s = scene_of(request), moment_of(request)
    cycle = result.status(at_s).cycle if cycle is None else cycle
    text = environment().get_template(template).render(
        scene=result, caller=caller, may_act=result.is_live and caller.role == OPERATOR, at=at_s,
        path=request.url.path, cycle=cycle, signed_in=getattr(request.state, "by_cookie", False),
        alerts=result.alerts(caller),
        **values,
    )  # fmt: skip
    return HTMLResponse(text)


def scene_of(request: Request) -> Scene:
    """What pages are made from."""
    result: Scene = request.app.state.scene
    return result


def moment_of(request: Request) -> float | None:
    """The moment that the address names; a live cluster has but one."""
    text = request.query_params.get("at", "")
    scene = scene_of(request)
    if scene.is_live or not text:
        return None
    try:
        first_s, last_s = scene.span()
        return min(max(float(text), first_s), last_s)  # nan comes out as the last
    except ValueError:
        return None


def when(scene: Scene, wall_s: float | None) -> Markup:
    """A time that the browser puts into its own zone, where it is one of a calendar."""
    if wall_s is None:
        return Markup("–")
    if not scene.is_live:
        return Markup("<time>{}</time>").format(scene.moment(wall_s))
    stamp = datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}">{}</time>').format(stamp, scene.moment(wall_s))


def inside(tier: str, scene: Scene) -> str:
    """Where a gang sits, by the closest tier whose one domain holds all of it."""
    last = scene.topology.tiers[-1]
    return f"across the {tier}" if tier == last else f"inside one {tier}"


def places(placement: Mapping[str, int]) -> str:
    """The machines of a gang as Slurm writes lists, with the GPUs on each: `rack2-m[0-3] (8 each)`."""
    by_count: dict[int, list[str]] = {}
    for machine, gpus in placement.items():
        by_count.setdefault(gpus, []).append(machine)
    return ", ".join(
        f"{','.join(fold(sorted(names, key=_numbered)))} ({gpus}{' each' if len(names) > 1 else ''})"
        for gpus, names in by_count.items()
    )


def _numbered(name: str) -> list[tuple[int, str]]:
    """By which names with numbers are sorted: m2 before m10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def often(count: int) -> str:
    """How many times."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


@cache
def asset(name: str) -> bytes | None:
    """A file that pages ask for; None if there is no such one."""
    return _asset_files().get(name)


@cache
def _asset_files() -> dict[str, bytes]:
    root = files("dally") / "web" / "dashboard" / "assets"
    reports = files("dally") / "report" / "html" / "assets"
    result = {"colours.css": (reports / "colours.css").read_bytes()}
    result |= {one.name: one.read_bytes() for one in root.iterdir() if one.is_file()}
    result.update({f"vendor/{one.name}": one.read_bytes() for one in (root / "vendor").iterdir() if one.is_file()})
    return result


def asset_url(name: str) -> str:
    """Its address, another one whenever the files are others, so that browsers may keep it for ever."""
    return f"/assets/{assets_version()}/{name}"


@cache
def assets_version() -> str:
    """Of all files together, as scripts name each other."""
    result = sha256()
    for name, content in sorted(_asset_files().items()):
        result.update(name.encode() + content)
    return result.hexdigest()[:12]
