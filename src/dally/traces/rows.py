"""What traces say of a job, and how a reader keeps account of what it cannot use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dally.errors import InputError, at
from dally.job_spec import JobSpec
from dally.traces.table import number, rows_of
from dally.traces.times import Clock

NOT_KNOWN: Final = -1.0  # of wait_s
MOST_GPUS: Final = 1_000_000  # of one job

# Why a row cannot be used, as in `12 rows without GPUs`.
NO_GPUS: Final = "without GPUs"
NO_SUBMIT: Final = "without a submit time"
NO_START: Final = "that never started"
NO_END: Final = "without an end"
BACKWARDS: Final = "with end before start"
NO_LENGTH: Final = "without a duration"

PART: Final = "that are parts of a job"

# What had to be assumed of a job.
EARLY: Final = "started before they were submitted: no wait assumed"
FRACTIONS: Final = "asked for fractions of GPUs: rounded up"
REPEATED: Final = "are in the file twice: counted once"


class TraceRow(NamedTuple):
    """One job of a trace: what it asked for, and what became of it. Text that is not known is empty."""

    line: int
    job_id: str
    submit_s: float
    spec: JobSpec
    stated: float  # how long it is, in what `Reading.length` says: running time, compute time or iterations
    status: str = ""  # in the trace's own words
    wait_s: float = NOT_KNOWN  # from submission to the first start
    machines: int = 0  # 0: not known
    placement: str = ""  # GPUs per machine: 2+2+2+2
    nodes: str = ""  # machines it ran on, as the trace writes them: n[01-03],n07
    runs: int = 1  # how often it was started; its running times are added up


class Ran(NamedTuple):
    """When a job ran, in seconds since 1970."""

    submit_s: float
    wait_s: float
    duration_s: float


class Reading:
    """One file being read: how strictly, by which clock, and what could not be used so far."""

    def __init__(self, path: Path, strict: bool = False, clock: Clock | None = None) -> None:
        self.path = path
        self.strict = strict
        self.clock = clock or Clock()
        self.unused: dict[str, int] = {}  # rows by reason
        self.notes: dict[str, int] = {}  # jobs by what was assumed of them
        self.unended: list[TraceRow] = []  # jobs that run or wait at the end of the file; `unused` counts them, too
        self.length = "duration_s"  # or compute_s, or iterations
        self.epoch_s: float | None = None  # when the trace's second 0 was; None: not known

    def skip(self, line: int, field: str, value: object, reason: str, problem: str = "") -> None:
        """Count a row that cannot be used, or refuse it when strict."""
        if self.strict:
            raise at(self.path, line, field, problem or f"{value!r}: a row {reason}")
        self.unused[reason] = self.unused.get(reason, 0) + 1

    def note(self, what: str) -> None:
        """Count a job of which something had to be assumed."""
        self.notes[what] = self.notes.get(what, 0) + 1

    def table(self, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
        """(line, fields by column) of every row of a csv that has these columns and maybe others."""
        rows = rows_of(self.path)
        _, header = next(rows, (0, []))
        if not header:
            raise empty(self.path, ", ".join(needed))
        columns = self.header(header, needed)
        for line, row in rows:
            self.whole(line, row, len(header))
            yield line, {name: row[place].strip() for name, place in columns.items()}

    def gpus(self, line: int, field: str, text: str) -> int:
        """A whole number of GPUs; 0 where none are stated."""
        if not text.strip():
            return 0
        value = number(self.path, line, field, text)
        if value != int(value) or value > MOST_GPUS:
            limit = f" and at most {MOST_GPUS:,}" if value > MOST_GPUS else ""
            raise at(self.path, line, field, f"{text!r}: must be a whole number, at least 1{limit}")
        return int(value)

    def count(self, line: int, field: str, text: str) -> int:
        """A whole number that may be missing, such as machines: then 0."""
        text = text.strip()
        return int(number(self.path, line, field, text)) if text else 0

    def date(self, line: int, field: str, text: str, fold: int = 0) -> float | None:
        """Seconds since 1970; None where the time is not known."""
        try:
            return self.clock.seconds(text, fold)
        except ValueError:
            problem = f"{text!r} is not a date; expected one like 2023-05-01 12:00:00"
            raise at(self.path, line, field, problem) from None

    def ran(self, line: int, fields: tuple[str, str, str], texts: tuple[str, str, str]) -> Ran | None:
        """When the job ran, from submit, start and end; None if that cannot be used, which is counted."""
        submit, start, end = texts
        submit_s = self.date(line, fields[0], submit)
        start_s = self.date(line, fields[1], start)
        end_s = self.date(line, fields[2], end)
        if submit_s is None:
            self.skip(line, fields[0], submit, NO_SUBMIT)
        elif start_s is None:
            self.skip(line, fields[1], start, NO_START)
        elif end_s is None:
            self.skip(line, fields[2], end, NO_END)
        else:
            if end_s < start_s:  # unless the clocks were set back in between
                end_s = self.date(line, fields[2], end, fold=1) or end_s
            if end_s >= start_s:
                return Ran(submit_s, self.wait(submit_s, start_s), end_s - start_s)
            self.skip(line, fields[2], end, BACKWARDS)
        return None

    def wait(self, submit_s: float, start_s: float) -> float:
        """Seconds from submission to start, never negative."""
        if start_s < submit_s:
            self.note(EARLY)
            return 0.0
        return start_s - submit_s

    def header(self, row: list[str], needed: Iterable[str]) -> dict[str, int]:
        """Where each column stands, after checking that the needed ones are there."""
        names = [name.strip() for name in row]
        for name in needed:
            if name not in names:
                raise at(self.path, 1, name, f"no such column; the header has {', '.join(names)}")
        return {name: place for place, name in reversed(list(enumerate(names)))}

    def whole(self, line: int, row: list[str], columns: int) -> None:
        """Refuse a row that is cut short, or has more than blanks behind the last column."""
        if len(row) < columns or any(map(str.strip, row[columns:])):
            hint = "" if len(row) < columns else "; a text with a comma needs quotes"
            raise at(self.path, line, None, f"{len(row)} fields where the header has {columns}{hint}")


def counts_text(counts: Mapping[str, int], what: str = "row") -> str:
    """Counts as a sentence: 12 rows without GPUs, 3 with end before start."""
    parts = [f"{count:,} {reason}" for reason, count in counts.items()]
    if parts:
        first = next(iter(counts.values()))
        size, _, reason = parts[0].partition(" ")
        parts[0] = f"{size} {what if first == 1 else what + 's'} {reason}"
    return ", ".join(parts)


def empty(path: Path, columns: str) -> InputError:
    """An InputError for a file without even a header."""
    return InputError(f"{path}: is empty; expected a csv with columns {columns}")


def no_jobs(reading: Reading, skipped: int = 0) -> InputError:
    """What to say of a trace of which nothing is left, and why."""
    why = [f"; {skipped} jobs were larger than the cluster"] if skipped else []
    why += [f"; {counts_text(reading.unused)}"] if reading.unused else []
    return InputError(f"{reading.path}: holds no jobs{''.join(why)}")
