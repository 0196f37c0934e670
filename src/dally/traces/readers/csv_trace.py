"""The plain trace: csv, csv.gz or a DataFrame with job_id, submit_s, gpus, duration_s and more if known.

The workload csv of the paper's simulator and Tiresias traces are this one with other column names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from dally.errors import InputError, at
from dally.job_spec import PREEMPT_CHOICES, JobSpec
from dally.sizes import read_sizes
from dally.traces.rows import NO_GPUS, NO_LENGTH, NO_SUBMIT, NOT_KNOWN, Reading, TraceRow, empty, no_jobs
from dally.traces.table import csv_lines, number, rows_of

NEEDED: Final = {
    "job_id": ("job_id",),
    "submit_s": ("submit_s", "submit_time"),
    "gpus": ("gpus", "num_gpu"),
}
# How long a job is: the first of these that the file has.
LENGTHS: Final = {
    "duration_s": ("duration_s", "duration"),  # at its closest placement, alone
    "compute_s": ("compute_s", "ideal_jct_s"),  # compute alone
    "iterations": ("iterations",),  # of its model's profile
}
# What else a job asks for; its group follows from its model.
SPEC_COLUMNS: Final = {
    each.name: each.default for each in fields(JobSpec) if each.name not in {"gpus", "group", "duration_s"}
}
ALSO_CALLED: Final = {"model": ("model_name",), "queue": ("vc",)}
RAN: Final = ("status", "wait_s", "machines", "placement", "nodes", "runs")
# The order of columns that not every trace has.
EXTRA: Final = tuple(dict.fromkeys((
    "model", "name", "priority", "placement", "account", "partition", "qos", "nodes", "queue", *SPEC_COLUMNS,
)))  # fmt: skip
MOST_SPECS: Final = 50_000  # kept at a time, so that jobs that ask for the same share one
USUAL: Final = "job_id, submit_s, gpus, duration_s"
WHOLE: Final = "must be a whole number, at least 1"


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the first line is a header with the needed columns, or one close to it."""
    names = header_names(lines)
    return "job_id" in names and not {"gpu_num", "jobid"} & names


def looks_like_paper(lines: Sequence[str]) -> bool:
    """Whether the header is that of the workloads published with the paper's simulator."""
    return {"job_id", "iterations", "time_per_iteration_s", "ideal_jct_s"} <= header_names(lines)


def header_names(lines: Sequence[str]) -> set[str]:
    """The column names of a csv."""
    return {name.strip().strip('"') for name in lines[0].split(",")} if lines else set()


def rows(reading: Reading) -> Iterator[TraceRow]:
    """The jobs of the file, in its order."""
    table = rows_of(reading.path)
    line, header = next(table, (0, []))
    if not header:
        raise empty(reading.path, USUAL)
    return rows_below(reading, line, header, table)


def rows_below(
    reading: Reading, header_line: int | None, header: list[str], table: Iterable[tuple[int, list[str]]]
) -> Iterator[TraceRow]:
    """The jobs of a table of texts, as `rows_of` gives it, in its order."""
    path = reading.path
    header = [name.strip() for name in header]
    _check_once(path, header_line, header)
    id_at, submit_at, gpus_at = _needed(path, header_line, header)
    reading.length, duration_at = _length(path, header_line, header)
    status_at, wait_at, machines_at, placement_at, nodes_at, runs_at = (_place(header, (name,)) for name in RAN)
    column_of = {name: _place(header, _spellings(name)) for name in SPEC_COLUMNS}
    stated = sorted((name for name, place in column_of.items() if place >= 0), key=_is_number)
    request = itemgetter(*(column_of[name] for name in stated), gpus_at, -1)  # never one alone: that is no tuple
    texts_in_all = len(stated) - sum(map(_is_number, stated))
    submit_name, gpus_name, duration_name = header[submit_at], header[gpus_at], header[duration_at]
    columns = len(header)
    token = _Interned()
    find_token = token.__getitem__
    gpus_in: dict[str, int] = {}  # by text: few differ
    specs: dict[tuple[str, ...], JobSpec] = {}  # by their texts: not all differ
    for line, row in table:
        if len(row) != columns:
            reading.whole(line, row, columns)
        row.append("")  # what a column that is not there reads as: its place is -1
        job_id = row[id_at].strip()
        if not job_id:
            raise at(path, line, "job_id", "empty: every job needs a name")
        submit_text, duration_text = row[submit_at], row[duration_at]
        texts = request(row)
        spec = specs.get(texts)
        if spec is None:
            if len(specs) == MOST_SPECS:
                specs.clear()
            facts: dict[str, Any] = dict(zip(stated, map(find_token, texts[:texts_in_all]), strict=False))
            for name, text in zip(stated[texts_in_all:], texts[texts_in_all:], strict=False):
                if text.strip():
                    facts[name] = _stated_number(path, line, name, text)
            gpus = gpus_in.get(texts[-2])
            if gpus is None:
                gpus = gpus_in[texts[-2]] = reading.gpus(line, gpus_name, texts[-2])
            _check_facts(path, line, facts, gpus)
            spec = specs[texts] = JobSpec(gpus, **facts)
        if not (spec.gpus and submit_text and duration_text):
            _skip(reading, line, (gpus_name, submit_name, duration_name), (texts[-2], submit_text, duration_text))
            continue
        wait, machines, runs = row[wait_at], row[machines_at], row[runs_at]
        yield TraceRow(
            line,
            job_id,
            number(path, line, submit_name, submit_text),
            spec,
            number(path, line, duration_name, duration_text),
            token[row[status_at]],
            number(path, line, "wait_s", wait) if wait.strip() else NOT_KNOWN,
            int(number(path, line, "machines", machines)) if machines.strip() else 0,
            token[row[placement_at]],
            token[row[nodes_at]],
            int(number(path, line, "runs", runs)) if runs.strip() else 1,
        )


def _check_facts(path: Path, line: int, facts: dict[str, Any], gpus: int) -> None:
    """InputError for texts of a job that say nothing we know."""
    if facts.get("preempt", "") not in ("", *PREEMPT_CHOICES):
        problem = f"{facts['preempt']!r}: must be one of {', '.join(PREEMPT_CHOICES)}"
        raise at(path, line, "preempt", problem)
    try:
        read_sizes(facts.get("sizes", "") if gpus else "", gpus)
    except InputError as error:
        raise at(path, line, None, str(error)) from None


def _stated_number(path: Path, line: int, name: str, text: str) -> float | int | bool:
    """The number in a column of JobSpec, of that field's kind."""
    value = number(path, line, name, text)
    kind = type(SPEC_COLUMNS[name])
    if kind is bool and value not in (0.0, 1.0):
        raise at(path, line, name, f"{text!r}: must be 0 or 1")
    if kind is int and value != int(value):
        raise at(path, line, name, f"{text!r}: must be a whole number")
    return kind(value) if kind in (bool, int) else value


def _is_number(name: str) -> bool:
    return not isinstance(SPEC_COLUMNS[name], str)


def _spellings(name: str) -> tuple[str, ...]:
    return (name, *ALSO_CALLED.get(name, ()))


class _Interned(dict[str, str]):
    """Texts without the space around them, each kept once however often it recurs."""

    def __missing__(self, text: str) -> str:
        token = self[text] = text.strip()
        return token


def pieces(rows: Sequence[TraceRow], length: str = "duration_s") -> Iterator[str]:
    """The text of the csv; columns that no job needs are left out, those of the shared form always stand."""
    always = ["job_id", "user", "submit_s", "gpus", length, "status", "wait_s", "machines", "gpu_type"]
    extra = [name for name in EXTRA if name not in always and any(_stated(row, name) for row in rows)]
    yield from csv_lines([[*always, *extra]])
    yield from csv_lines(
        [
            row.job_id, row.spec.user, plain(row.submit_s), row.spec.gpus, plain(row.stated), row.status,
            "" if row.wait_s == NOT_KNOWN else plain(row.wait_s), row.machines or "", row.spec.gpu_type,
            *(_extra(row, name) for name in extra),
        ]
        for row in rows
    )  # fmt: skip


def _stated(row: TraceRow, name: str) -> bool:
    """Whether the job has what would stand in a column that not every trace has."""
    return getattr(row.spec, name) != SPEC_COLUMNS[name] if name in SPEC_COLUMNS else bool(getattr(row, name))


def _extra(row: TraceRow, name: str) -> str:
    """What a column holds that not every trace has."""
    value = getattr(row.spec if name in SPEC_COLUMNS else row, name)
    if isinstance(value, str):
        return value
    return "" if value is None else plain(value)


def plain(value: float) -> str:
    """The shortest text that reads back as this number."""
    return str(int(value)) if value == int(value) else repr(value)


def _skip(reading: Reading, line: int, names: tuple[str, ...], texts: tuple[str, ...]) -> None:
    """Count a row by the first of GPUs, submission and length that it lacks."""
    for name, text, reason in zip(names, texts, (NO_GPUS, NO_SUBMIT, NO_LENGTH), strict=True):
        if not text.strip() or (reason == NO_GPUS and not float(text)):
            shown = repr(text) if text.strip() else "empty"
            problem = WHOLE if reason == NO_GPUS else "must be a number, not negative"
            return reading.skip(line, name, text, reason, f"{shown}: {problem}")
    raise AssertionError("called for a row that lacks something")


def _check_once(path: Path, line: int | None, header: list[str]) -> None:
    """InputError if a column that is read appears twice: which of them counts is not ours to guess."""
    known = {*RAN, *(name for spellings in (NEEDED | LENGTHS).values() for name in spellings)}
    known |= {name for request in SPEC_COLUMNS for name in _spellings(request)}
    for name in header:
        if name in known and header.count(name) > 1:
            raise at(path, line, name, "appears twice in the header")


def _needed(path: Path, line: int | None, header: list[str]) -> list[int]:
    """Where the needed columns stand."""
    result = []
    for spellings in NEEDED.values():
        place = _place(header, spellings)
        if place < 0:
            raise at(path, line, " or ".join(spellings), f"no such column; the header has {', '.join(header)}")
        result.append(place)
    return result


def _length(path: Path, line: int | None, header: list[str]) -> tuple[str, int]:
    """What says how long jobs are, and where it stands."""
    for name, spellings in LENGTHS.items():
        place = _place(header, spellings)
        if place >= 0:
            return name, place
    known = "duration_s, duration, compute_s or iterations"
    raise at(path, line, known, f"no such column; the header has {', '.join(header)}")


def _place(header: list[str], spellings: tuple[str, ...]) -> int:
    """Where the first spelling that the header has stands, or -1."""
    return next((header.index(spelling) for spelling in spellings if spelling in header), -1)


NAME = Path("DataFrame")  # what errors call it; behind it the row, counted from 0
MISSING = ("NAType", "NaTType")  # pandas' own ways to say that a value is missing


def is_frame(what: object) -> bool:
    """Whether it is a DataFrame, told without importing the library that it is of."""
    return type(what).__name__ == "DataFrame"


def frame_csv(frame: Any, strict: bool = False) -> str:
    """The text of the plain csv that holds the frame's jobs; an InputError names the column and the row."""
    header = [str(name) for name in frame.columns]
    if len({*header}) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise at(NAME, None, twice, "stands for several columns; names must differ")
    columns = [frame[name].to_list() for name in frame.columns]
    rows = [[_text(value) for value in row] for row in zip(*columns, strict=True)]
    _check(header, rows, strict)
    return "".join(csv_lines([header, *rows]))


def _text(value: Any) -> str:
    """A cell as the csv has it; empty if it is missing."""
    if value is None or type(value).__name__ in MISSING or value != value:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def _check(header: list[str], rows: Iterable[list[str]], strict: bool) -> None:
    """InputError if a column is missing, a value is none, or two jobs have one id."""
    seen: dict[str, int] = {}
    reading = Reading(NAME, strict)
    for job in rows_below(reading, None, header, _numbered(rows)):
        if job.job_id in seen:
            raise at(NAME, job.line, "job_id", f"{job.job_id!r} is already in row {seen[job.job_id]}")
        seen[job.job_id] = job.line
    if not seen:
        raise no_jobs(reading)


def _numbered(rows: Iterable[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Rows with their numbers; copies, as the reader adds to them."""
    for line, row in enumerate(rows):
        if any("\0" in text for text in row):
            raise at(NAME, line, None, "holds a NUL character")
        yield line, [*row]
