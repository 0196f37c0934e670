"""Draws the delay timers of a run over time, one panel per tier above the machine, as an SVG file.

usage: python scripts/timers_figure.py RUN_DIR OUT.svg

RUN_DIR is what `dally simulate --policy dally --out RUN_DIR` left. The same run gives the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from json import loads
from math import ceil, floor, inf, log10
from pathlib import Path
from typing import NamedTuple

import polars as pl

WIDTH, PANEL, LEFT, RIGHT, TOP, GAP, BOTTOM = 880, 190, 72, 190, 40, 66, 52
UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
LIGHT = ("#57606a", "#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989")
DARK = ("#9ea7b3", "#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#ff7bc5")
DASHES = ("none", "none", "none", "7 3", "3 3", "9 3 3 3")

Steps = list[tuple[float, float]]  # (time, timer) in seconds, each until the next


class Line(NamedTuple):
    """One line of a panel: the demands whose timers were the same all along."""

    gpus: list[int]
    steps: Steps

    def still(self) -> bool:
        """Whether the timer never moved."""
        return len(self.steps) == 1


class Axis(NamedTuple):
    """A scale from 0 to some round number of a unit."""

    unit: str
    unit_s: float
    step: float
    top: float

    def ticks(self) -> list[float]:
        """Where the numbers stand, in the unit."""
        return [place * self.step for place in range(floor(self.top / self.step + 1e-9) + 1)]


def axis(largest_s: float, wanted: int) -> Axis:
    """An axis that holds that many seconds, with about so many ticks."""
    unit, unit_s = next((pair for pair in UNITS if largest_s >= 2 * pair[1]), UNITS[-1])
    rough = max(largest_s / unit_s, 1e-9) / wanted
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough)
    return Axis(unit, unit_s, step, largest_s / unit_s)


def lines_of(offers: pl.DataFrame, tier: int) -> list[Line]:
    """The timers of that tier by demand; not of demands that take it at once, or never."""
    found: dict[tuple[float, ...], Line] = {}
    for gpus in sorted(set(offers["gpus"].to_list())):
        steps: Steps = []
        for time_s, timers_s in offers.filter(pl.col("gpus") == gpus).select("time_s", "timers_s").iter_rows():
            timer_s = timers_s[tier - 1]
            if 0.0 < timer_s < inf and (not steps or steps[-1][1] != timer_s):
                steps.append((time_s, timer_s))
        if not steps:
            continue
        same = (steps[0][1],) if len(steps) == 1 else tuple(value for step in steps for value in step)
        line = found.setdefault(same, Line([], steps))
        line.gpus.append(gpus)
        if steps[0][0] < line.steps[0][0]:
            found[same] = Line(line.gpus, steps)
    return list(found.values())


def drawing(offers: pl.DataFrame, tiers: list[str], end_s: float) -> Iterator[str]:
    """The lines of the SVG file."""
    panels = [(tier, lines_of(offers, tier)) for tier in range(1, len(tiers))]
    panels = [(tier, lines) for tier, lines in panels if lines]
    moving = sorted({tuple(line.gpus) for _, lines in panels for line in lines if not line.still()})
    styles = {gpus: 1 + place % (len(LIGHT) - 1) for place, gpus in enumerate(moving)}
    height = TOP + len(panels) * PANEL + (len(panels) - 1) * GAP + BOTTOM
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title desc" '
        "font-family=\"ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\">"
    )
    yield '  <title id="title">Delay timers over time</title>'
    yield (
        '  <desc id="desc">One panel per tier above the machine. Step lines show how long gangs of each size wait '
        "before they take that tier.</desc>"
    )
    yield from style()
    across = axis(end_s, 8)
    for place, (tier, lines) in enumerate(panels):
        yield from panel(tiers, tier, lines, styles, across, end_s, TOP + place * (PANEL + GAP))
    yield text("axis", (LEFT + WIDTH - RIGHT) / 2, height - 12, f"time on the clock of the trace ({across.unit})")
    yield "</svg>"


def style() -> Iterator[str]:
    """Colours for light and dark pages."""
    yield "  <style>"
    yield "    .name { fill: #1f2328; font-size: 15px; font-weight: 600 }"
    yield "    .tick, .axis, .key { fill: #57606a; font-size: 12px }"
    yield "    .axis { text-anchor: middle }"
    yield "    .right { text-anchor: end }"
    yield "    .middle { text-anchor: middle }"
    yield "    .grid { stroke: #d0d7de; stroke-width: 1 }"
    yield "    .base { stroke: #57606a; stroke-width: 1 }"
    yield "    .line { fill: none; stroke-width: 2 }"
    for place, (colour, dashes) in enumerate(zip(LIGHT, DASHES, strict=True)):
        yield f"    .s{place} {{ stroke: {colour}; stroke-dasharray: {dashes} }}"
    yield "    @media (prefers-color-scheme: dark) {"
    yield "      .name { fill: #e6edf3 }"
    yield "      .tick, .axis, .key { fill: #9ea7b3 }"
    yield "      .grid { stroke: #30363d }"
    yield "      .base { stroke: #8b949e }"
    for place, colour in enumerate(DARK):
        yield f"      .s{place} {{ stroke: {colour} }}"
    yield "    }"
    yield "  </style>"


def panel(
    tiers: list[str],
    tier: int,
    lines: list[Line],
    styles: dict[tuple[int, ...], int],
    across: Axis,
    end_s: float,
    top: float,
) -> Iterator[str]:
    """One tier: grid, numbers, axis titles, lines, legend."""
    right, bottom = WIDTH - RIGHT, top + PANEL
    largest_s = max(timer_s for line in lines for _, timer_s in line.steps)
    up = axis(largest_s, 5)
    up = up._replace(top=ceil(largest_s * 1.05 / up.unit_s / up.step) * up.step)

    def x(time_s: float) -> float:
        return LEFT + (right - LEFT) * time_s / end_s

    def y(timer_s: float) -> float:
        return bottom - PANEL * timer_s / (up.top * up.unit_s)

    where = f"the {tiers[tier]}" if tier == len(tiers) - 1 else f"one {tiers[tier]}"
    yield text("name", LEFT, top - 14, f"How long a gang waits before it spreads over {where}")
    for tick in up.ticks():
        kind = "grid" if tick > 0 else "base"
        height = y(tick * up.unit_s)
        yield f'  <path class="{kind}" d="M{LEFT} {height:.1f}H{right}"/>'
        yield text("tick right", LEFT - 8, height + 4, f"{tick:g}")
    for tick in across.ticks():
        yield f'  <path class="base" d="M{x(tick * across.unit_s):.1f} {bottom}v5"/>'
        yield text("tick middle", x(tick * across.unit_s), bottom + 19, f"{tick:g}")
    yield (
        f'  <text class="axis" transform="translate({LEFT - 44} {top + PANEL / 2:g}) rotate(-90)">'
        f"timer ({up.unit})</text>"
    )
    yield text("key", right + 24, top + 8, "gang size")
    for place, line in enumerate(sorted(lines, key=lambda one: (not one.still(), one.gpus))):
        chosen = f"line s{0 if line.still() else styles[tuple(line.gpus)]}"
        path = f"M{x(line.steps[0][0]):.1f} {y(line.steps[0][1]):.1f}"
        for _, (time_s, timer_s) in pairwise(line.steps):
            path += f"H{x(time_s):.1f}V{y(timer_s):.1f}"
        yield f'  <path class="{chosen}" d="{path}H{x(end_s):.1f}"/>'
        level = top + 28 + 20 * place
        yield f'  <path class="{chosen}" d="M{right + 24} {level}h30"/>'
        yield text("key", right + 62, level + 4, label(line.gpus))


def text(kind: str, x: float, y: float, words: str) -> str:
    """A text element."""
    return f'  <text class="{kind}" x="{x:.1f}" y="{y:.1f}">{words}</text>'


def label(gpus: list[int]) -> str:
    """What the legend calls gangs of these sizes; it has room for five."""
    if len(gpus) > 5:
        return f"other sizes up to {gpus[-1]}"
    return f"{listed(gpus)} GPU{'s' if gpus != [1] else ''}"


def listed(numbers: list[int]) -> str:
    """1, 2 and 4."""
    words = [str(number) for number in numbers]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def main() -> None:
    """Read the run, write the figure."""
    if len(sys.argv) != 3:
        sys.exit((__doc__ or "").split("\n\n")[1])
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    decisions = pl.read_parquet(folder / "decisions.parquet")
    offers = decisions.filter(pl.col("kind").cast(pl.String) == "offer")
    if not any(0.0 < timer_s < inf for timers_s in offers["timers_s"].to_list() for timer_s in timers_s):
        sys.exit(f"{folder}: no timers to draw; run `dally simulate --policy dally` with jobs that wait")
    tiers = list(loads((folder / "summary.json").read_text(encoding="utf-8"))["tier_starts"])
    end_s: float = decisions["time_s"][-1]
    out.write_text("\n".join(drawing(offers, tiers, end_s)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
