"""Progress bars: one for the jobs of a long run, one for many runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dally.engine.simulate import Simulation
    from dally.sweep.batch import Headway

REDRAW_S = 0.1


def _clock(seconds: float) -> str:
    """A simulated date: day 3 04:05."""
    minutes = int(seconds // 60)
    return f"day {minutes // 1440} {minutes // 60 % 24:02d}:{minutes % 60:02d}"


@contextmanager
def bar_of_run(desired: bool | None) -> Iterator[Callable[[Simulation], None] | None]:
    """A bar on stderr with jobs finished, simulated date, events/s and time left; None: not wanted.

    By default there is one when stderr is a terminal.
    """
    if not (sys.stderr.isatty() if desired is None else desired):
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
        task = bar.add_task("", total=0, date=_clock(0), rate=0.0)

        def show(simulation: Simulation) -> None:
            nonlocal drawn
            now = monotonic()
            finished, jobs = int(simulation.state.finished), len(simulation.jobs)
            if now - drawn < REDRAW_S and finished < jobs:
                return
            drawn = now
            rate = len(simulation.state.log) / max(now - started, 1e-9)
            bar.update(task, completed=finished, total=jobs, date=_clock(simulation.now), rate=rate, refresh=True)

        yield show


@contextmanager
def bar_of_runs(desired: bool | None) -> Iterator[Callable[[Headway], None] | None]:
    """A bar on stderr with runs done, failures and time left; by default if stderr is a terminal."""
    if not (sys.stderr.isatty() if desired is None else desired):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} runs"),
        BarColumn(),
        TextColumn("{task.fields[notes]}"),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
    )
    with bar:
        tasks: list[TaskID] = []

        def show(now: Headway) -> None:
            if not tasks:  # what an earlier call finished says nothing about how fast this one is
                tasks.append(bar.add_task("", total=now.total, completed=now.resumed, notes=""))
            notes = [f"{now.failed} failed"] if now.failed else []
            notes += [f"{now.resumed} kept from before"] if now.resumed else []
            bar.update(tasks[0], completed=now.done, notes=", ".join(notes))

        yield show
