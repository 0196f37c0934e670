"""How loaded each uplink is at any moment, for the replay: its changes as packed columns."""

from __future__ import annotations

from typing import Any

import polars as pl

from dally.metrics.record import Record

MOST_CHANGES = 200_000  # of loads: with more, those that come soon after another on the same link are left out
FULL = 1000  # a load of 1


def uplinks_of(run: Record, tick_s: float) -> tuple[dict[str, list[int]], dict[str, Any]]:
    """Columns for the page's script; `links` are [tier, domain, name], `load_step_s` is how exact the times are."""
    names = {
        f"{tier} {name}": [number, place, name]
        for number, tier in enumerate(run.tiers[:-1])
        for place, name in enumerate(run.topology.names[number])
    }
    changes = run.all_events.filter(pl.col("kind") == "link", pl.col("link").is_in(list(names)))
    kept, step_s = _thinned(changes.select("time_s", "link", "load"))
    links = kept["link"].unique(maintain_order=True).to_list()
    numbers = {link: number for number, link in enumerate(links)}
    columns = {
        "load_time": (kept["time_s"] / tick_s).floor().cast(pl.Int64).to_list(),
        "load_link": [numbers[link] for link in kept["link"]],
        "load_value": (kept["load"] * FULL).round().clip(0, 65535).cast(pl.Int64).to_list(),
    }
    return columns, {"links": [names[link] for link in links], "load_step_s": step_s}


def _thinned(changes: pl.DataFrame) -> tuple[pl.DataFrame, float]:
    """All changes, or of each link the last in every span of time; and how long such a span is."""
    if changes.height <= MOST_CHANGES:
        return changes, 0.0
    first_s, last_s = float(changes["time_s"][0]), float(changes["time_s"][-1])
    step_s = max((last_s - first_s) / MOST_CHANGES, 1e-6)
    while True:
        span = ((pl.col("time_s") - first_s) / step_s).floor()
        kept = changes.with_columns(span.alias("span")).unique(["span", "link"], keep="last", maintain_order=True)
        if kept.height <= MOST_CHANGES:
            return kept, step_s
        step_s *= 2
