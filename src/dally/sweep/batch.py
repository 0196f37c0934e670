"""Carrying out many runs, each on its own, with a progress bar; finished rows go to a journal, then to a table."""

from __future__ import annotations

import fcntl
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from dally.errors import InputError
from dally.input_file import read_bytes
from dally.metrics.summary import Row
from dally.runs.folder import SUMS, prepare_folder, sums_text
from dally.sweep.run import Run, make_row
from dally.sweep.workers import Failure, Workers
from dally.whole_file import write_whole

if TYPE_CHECKING:
    import polars as pl

    from dally.engine.simulate import Simulation


JOURNAL = "runs.jsonl"
RESULTS = "results.parquet"
LOCK = ".lock"
MEASURED = ("cpu_s",)  # differ when a run is repeated: they stay in the journal


class RowStore:
    """Finished rows by key. One process at a time may hold a folder; a killed one lets go of it."""

    def __init__(self, folder: Path) -> None:
        self._new = not os.path.lexists(folder)
        prepare_folder(folder)
        self.folder = folder
        file = (self.folder / LOCK).open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InputError(
                f"{self.folder}: another dally is at work in it; wait, or name another --out"
            ) from None
        self._lock = file
        self.rows: dict[str, Row] = {}
        self._owners: dict[str, str] = {}  # whose outputs lie in a run's folder: the key of the last one there
        try:
            self._read()
        except InputError:
            self._lock.close()
            raise
        self._journal: IO[bytes] = (folder / JOURNAL).open("ab")

    def __enter__(self) -> RowStore:
        return self

    def __exit__(self, problem: object, *_: object) -> None:
        self._journal.close()
        if problem is InputError and self._new and not self.rows:
            self._leave_nothing()
        self._lock.close()

    def has(self, run: Run) -> bool:
        """Whether the run is finished, its own folder included."""
        if run.folder is None or run.key not in self.rows:
            return run.key in self.rows
        return self._owners.get(run.folder.name) == run.key and (run.folder / "summary.json").exists()

    def add(self, run: Run, row: Row) -> None:
        """Keep the row, on the disk before this returns."""
        entry = {"key": run.key, "labels": run.labels, "folder": run.folder.name if run.folder else "", "row": row}
        self._take(entry)
        try:
            self._journal.write(json.dumps(entry).encode() + b"\n")
            self._journal.flush()
            os.fsync(self._journal.fileno())
        except OSError as error:
            raise InputError(f"{self.folder / JOURNAL}: cannot be written: {error.strerror}") from None

    def write_results(self, rows: Iterable[Row]) -> None:
        """Write results.parquet: these rows in their order, without what was measured."""
        remaining = [{name: value for name, value in row.items() if name not in MEASURED} for row in rows]
        buffer = io.BytesIO()
        frame_of(remaining).write_parquet(buffer)
        path = self.folder / RESULTS
        write_whole(path, buffer.getvalue())
        write_whole(self.folder / SUMS, sums_text({RESULTS: path}).encode())

    def _leave_nothing(self) -> None:
        """Take the folder away again if nothing but our own empty files is in it."""
        if {path.name for path in self.folder.iterdir()} <= {JOURNAL, LOCK}:
            (self.folder / JOURNAL).unlink()
            (self.folder / LOCK).unlink()
            self.folder.rmdir()

    def _read(self) -> None:
        """Take in the journal; a last line that was cut short is taken off it."""
        path = self.folder / JOURNAL
        text = read_bytes(path) if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, RecursionError):
                raise InputError(f"{path}:{number}: is not a row of a sweep; name another --out") from None
        if whole != text:
            os.truncate(path, len(whole))

    def _take(self, entry: dict[str, Any]) -> None:
        self.rows[str(entry["key"])] = dict(entry["row"])
        self._owners[str(entry["folder"])] = str(entry["key"])


def frame_of(rows: list[Row]) -> pl.DataFrame:
    """The rows as a table: columns as they first appear, empty where a row lacks one."""
    import polars as pl

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pl.DataFrame([pl.Series(name, *_typed(values)) for name, values in columns.items()])


def _typed(values: list[Any]) -> tuple[list[Any], Any]:
    """The values and their type: numbers as numbers, anything mixed as text."""
    import polars as pl

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return values, pl.Boolean
    if kinds == {int}:
        return values, pl.Int64
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values], pl.Float64
    return [None if value is None else str(value) for value in values], pl.String


class Headway(NamedTuple):
    """How far it is."""

    done: int  # failures included
    total: int
    failed: int
    resumed: int  # finished by an earlier call


class Outcome(NamedTuple):
    """The rows of finished runs in the order of the runs, and why the others have none."""

    rows: list[Row]
    failures: list[str]
    bad_input: str = ""  # what is wrong with it, where that and nothing else is why


def carry_out(
    runs: list[Run], engine: Workers, store: RowStore | None, report: Callable[[Headway], None] | None = None
) -> Outcome:
    """Every run's row, made now or kept by the store; runs that are the same are made once."""
    unique: dict[str, Run] = {}
    for run in runs:
        unique.setdefault(run.key, run)
    runs = list(unique.values())
    rows: dict[str, Row] = {}
    if store:
        rows = {run.key: store.rows[run.key] for run in runs if store.has(run)}
    todo = [run for run in runs if run.key not in rows]
    reasons: dict[str, str] = {}
    problems: set[str] = set()
    match = len(rows)
    if report:
        report(Headway(match, len(runs), 0, match))
    for run, result in engine.map(make_row, todo) if todo else ():
        if isinstance(result, Failure):
            reasons[run.key] = f"{run.name()}: {result.reason}"
            problems.add(result.bad_input)
        else:
            rows[run.key] = result
            if store:
                store.add(run, result)
        if report:
            report(Headway(len(rows) + len(reasons), len(runs), len(reasons), match))
    finished = [_labelled(run, rows[run.key]) for run in runs if run.key in rows]
    if store and finished:
        store.write_results(finished)
    # Replications that fail alike are told of once.
    failures = list(dict.fromkeys(reasons[run.key] for run in runs if run.key in reasons))
    return Outcome(finished, failures, problems.pop() if len(problems) == 1 else "")


def _labelled(run: Run, row: Row) -> Row:
    """The row as the table has it: what it is called first, and where it lies, then what came of it."""
    labels = {"policy": run.scenario.policy, **run.labels}
    labels.setdefault("seed", run.scenario.seed)
    if run.folder:
        labels["folder"] = f"{run.folder.parent.name}/{run.folder.name}"
    return labels | {name: value for name, value in row.items() if name not in labels}


def with_folders(runs: list[Run], parent: Path, report: bool = False) -> list[Run]:
    """The same runs, each with a folder of its own there, named by its labels, and maybe a report in it."""
    taken: dict[str, int] = {}
    result: list[Run] = []
    for run in runs:
        name = "-".join(_plain(str(value)) for value in run.labels.values() if value != "") or "run"
        name = name[:120]
        taken[name] = taken.get(name, 0) + 1
        folder = parent / (name if taken[name] == 1 else f"{name}~{taken[name]}")
        result.append(replace(run, folder=folder, report=report))
    return result


def _plain(text: str) -> str:
    """The text with what file systems and shells dislike replaced."""
    return "".join(one if one.isalnum() or one in "._=+-" else "_" for one in text)


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
            notes += [f"{now.resumed} from an earlier call"] if now.resumed else []
            bar.update(tasks[0], completed=now.done, notes=", ".join(notes))

        yield show
