"""How commands print: tables, durations, and a progress bar for long runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dally.engine.simulate import Simulation

REDRAW_S = 0.1


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int = 99, bars: Sequence[int] = ()
) -> None:
    """Print a table; columns from `numbers_from` on are aligned right, but for `bars`."""
    if not any(columns):
        _print_plain(rows)
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE, pad_edge=False)
    for place, name in enumerate(columns):
        justify: Literal["left", "right"] = "right" if place >= numbers_from and place not in bars else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=place == 0)
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 160  # a file or a pipe has no width of its own
    Console(width=width, highlight=False, markup=False).print(table)


def _print_plain(rows: Sequence[Sequence[str]]) -> None:
    """Print rows without a heading in columns. Without rich: importing it takes as long as many a run."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)] if rows else []
    for row in rows:
        print("  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]]).rstrip())


def clock(seconds: float) -> str:
    """A simulated date: day 3 04:05."""
    minutes = int(seconds // 60)
    return f"day {minutes // 1440} {minutes // 60 % 24:02d}:{minutes % 60:02d}"


@contextmanager
def progress_of(wanted: bool | None) -> Iterator[Callable[[Simulation], None] | None]:
    """A bar on stderr with jobs finished, simulated date, events/s and time left; None: not wanted.

    By default there is one when stderr is a terminal.
    """
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    started = monotonic()
    drawn = 0.0
    bar = Progress(
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} jobs"),
        BarColumn(),
        TextColumn("{task.fields[date]}"),
        TextColumn("{task.fields[rate]:,.0f} events/s"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        auto_refresh=False,
    )
    with bar:
        task = bar.add_task("", total=0, date=clock(0), rate=0.0)

        def show(simulation: Simulation) -> None:
            nonlocal drawn
            now = monotonic()
            finished, jobs = int(simulation.state.finished), len(simulation.jobs)
            if now - drawn < REDRAW_S and finished < jobs:
                return
            drawn = now
            rate = len(simulation.state.log) / max(now - started, 1e-9)
            bar.update(task, completed=finished, total=jobs, date=clock(simulation.now), rate=rate, refresh=True)

        yield show
