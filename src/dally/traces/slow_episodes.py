"""Machines and links that are slow for a time, from a csv with kind, name, factor, from_s, until_s."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dally.errors import at, unknown
from dally.traces.rows import Reading
from dally.traces.table import number

COLUMNS: Final = ("kind", "name", "factor", "from_s", "until_s")
KINDS: Final = ("machine", "link")

Episode = tuple[int, float, float, float]  # component, factor, from, until


def read_degradations(path: Path, machines: Mapping[str, int], links: Mapping[str, int]) -> list[Episode]:
    """Episodes of components by number: machines first, then links. No until_s: it lasts for ever."""
    count = len(set(machines.values()))
    episodes: list[Episode] = []
    for line, field in Reading(path).table(COLUMNS):
        kind, name, factor, begin, end = (field[column] for column in COLUMNS)
        if kind not in KINDS:
            raise at(path, line, "kind", str(unknown("kind", kind, KINDS)))
        known = machines if kind == "machine" else links
        if name not in known:
            why = f"the cluster has no such {kind}"
            if kind == "link":
                why += (
                    "; a link is named by tier and domain, as 'machine rack0-m0'" if links else "s: give --network"
                )
            raise at(path, line, "name", f"{name!r}: {why}")
        times = number(path, line, "factor", factor)
        if times < 1.0:
            raise at(path, line, "factor", f"{factor!r}: must be at least 1: how many times as long it takes")
        from_s = number(path, line, "from_s", begin)
        until_s = number(path, line, "until_s", end) if end else float("inf")
        if until_s <= from_s:
            raise at(path, line, "until_s", f"{end!r}: must come after from_s, {begin!r}")
        episodes.append((known[name] + (0 if kind == "machine" else count), times, from_s, until_s))
    return episodes
