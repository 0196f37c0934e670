"""What commands that make many runs share: where they run, one live display, and how failures are told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import typer

from dally.cli.commands import Command, shared_options
from dally.errors import InputError, Interrupted, unknown
from dally.parsed_text import whole_64
from dally.sweep.batch import Headway, Outcome, RowStore, bar_of_runs, carry_out
from dally.sweep.run import REPLICATIONS as REPLICATED
from dally.sweep.run import Run
from dally.sweep.workers import Workers

ENGINES = ("local", "ray")
JOBS = typer.Option(
    0, "--jobs", metavar="N", min=0, help="Runs at a time.  [default: one per core]", show_default=False
)
ENGINE = typer.Option("local", "--engine", help="Where runs are made: local (processes on this machine) or ray.")
ADDRESS = typer.Option(
    "", "--address", help="Of a Ray cluster.  [default: one on this machine, for the time it takes]"
)
PROGRESS = typer.Option(
    None, "--progress/--no-progress", help="Show how far it is.  [default: if stderr is a terminal]"
)
REPLICATIONS = typer.Option(
    REPLICATED, "--replications", metavar="N", min=1,
    help="Runs of each policy and seed, restarts up to 1 µs longer or shorter: how far these lie apart is noise. "
    "N times the CPU; 1: differences below 3 % are noise.",
)  # fmt: skip


def listed(usual: Iterable[str], flag: str, about: str) -> Any:
    """An option for names separated by commas; its default is shown with blanks, where lines can end."""
    usual = list(usual)
    shown = f"{about}  [default: {', '.join(usual)}]"
    return typer.Option(",".join(usual), flag, metavar="NAME,…", help=shown, show_default=False)


def workers_of(engine: str, address: str, jobs: int) -> Workers:
    """The engine that `--engine`, `--address` and `--jobs` ask for."""
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if engine == "ray":
        from dally.sweep.workers.ray import RayWorkers

        return RayWorkers(address, jobs)
    if address:
        raise InputError(f"--address {address}: is of a Ray cluster; give --engine ray too")
    from dally.sweep.workers.local import LocalWorkers

    return LocalWorkers(jobs)


class Batch(NamedTuple):
    """Where many runs are made, and whether a display shows how far they are."""

    workers: Workers
    progress: bool | None = None  # None: if stderr is a terminal
    lines: bool = False  # without a terminal, a line on stderr now and then

    def run(self, runs: list[Run], store: RowStore | None) -> Outcome:
        """The runs, made. Interrupted: says what is kept. InputError: it stopped them all."""
        with bar_of_runs(self.progress) as report:
            in_lines = self.lines and report is None and self.progress is None
            try:
                outcome = carry_out(runs, self.workers, store, line_by_line() if in_lines else report)
            except KeyboardInterrupt:
                if store is None:
                    raise Interrupted("nothing was written") from None
                finished = f"{sum(map(store.has, runs))} of {len(runs)} runs are stored in {store.folder}"
                raise Interrupted(f"{finished}: the same command goes on from there") from None
        if outcome.bad_input and not outcome.rows:
            raise InputError(outcome.bad_input)
        return outcome


LINE_S = 5.0  # between lines of progress


def line_by_line() -> Callable[[Headway], None]:
    """Progress as lines on stderr, for logs and pipes: at once, then at most every five seconds."""
    last = -LINE_S

    def show(now: Headway) -> None:
        nonlocal last
        if monotonic() - last >= LINE_S:
            last = monotonic()
            print(f"dally: {now.done} of {now.total} replays done", file=sys.stderr, flush=True)

    return show


def makes_runs(command: Command) -> Command:
    """Give a command the options of all that make many runs in place of `batch`."""
    options = {
        "jobs": (int, JOBS),
        "engine": (str, ENGINE),
        "address": (str, ADDRESS),
        "progress": (bool, PROGRESS),
    }
    return shared_options("batch", options, _use)(command)


def _use(command: Command, shared: dict[str, Any], own: dict[str, Any]) -> None:
    progress = shared.pop("progress")
    command(batch=Batch(workers_of(**shared), progress), **own)


def end(outcome: Outcome) -> None:
    """Say what went wrong, on stderr, and exit with 1 if anything did."""
    if not outcome.failures:
        return
    count = len(outcome.failures)
    print(f"dally: {count} run{'s' * (count > 1)} failed:", file=sys.stderr)
    for failure in outcome.failures:
        print(f"  {failure}", file=sys.stderr)
    raise typer.Exit(1)


@contextmanager
def open_store(out: Path | None) -> Iterator[RowStore | None]:
    """The store of `--out`, held until the end; None without one."""
    if out is None:
        yield None
        return
    with RowStore(out) as store:
        yield store


def whole_numbers(option: str, text: str) -> list[int]:
    """The numbers of 1,2,3 in their order, each once."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text}: must be whole numbers separated by commas") from None
    return list(dict.fromkeys(whole_64(option, number) for number in numbers))


def names(text: str) -> list[str]:
    """The names of a,b,c in their order, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
