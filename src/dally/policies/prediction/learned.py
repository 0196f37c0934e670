"""A hazard table as a file: what a cluster's history says of how long jobs run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from dally.errors import InputError, at
from dally.input_file import read_text
from dally.model import Job
from dally.parsed_text import parse_json
from dally.policies.prediction.hazard import HazardTable
from dally.traces.reading import History, start_s

FORMAT: Final = "dally hazard table 1"
HINT: Final = "`dally learn` writes such files"


def ended_jobs(history: History) -> list[Job]:
    """The jobs of a trace, as they ended."""
    rows = sorted(history.rows, key=lambda row: (start_s(row) + row.stated, row.line))
    return [
        Job(index, row.job_id, row.submit_s, row.spec.gpus, row.stated, spec=row.spec)
        for index, row in enumerate(rows)
    ]


def learn(table: HazardTable, jobs: Iterable[Job]) -> None:
    """Let the table meet these jobs, whose durations are known, in the order in which they are given."""
    for job in jobs:
        leaf = table.class_of(job)
        last = table.bin_of(job.duration_s)
        for age_bin in range(last):
            table.outlived(leaf, age_bin)
        table.ended(leaf, last)


def table_text(table: HazardTable) -> str:
    """What was learnt, as the text of a file, a class a line."""
    saved = table.saved()
    rows = ",\n  ".join(json.dumps(row) for row in saved["classes"])
    edges = json.dumps(list(table.edges_s))
    head = f'"format": {json.dumps(FORMAT)},\n "edges_s": {edges},\n "finishes": {saved["finishes"]}'
    return f'{{{head},\n "classes": [\n  {rows}\n]}}\n'


def read_table(path: Path, table: HazardTable) -> dict[str, Any]:
    """What such a file holds, as `table.restore` takes it; an InputError that says what is wrong with it."""
    try:
        saved = parse_json(path, read_text(path))
    except InputError as error:
        raise InputError(f"{error}; {HINT}") from None
    if saved.get("format") != FORMAT:
        raise at(path, None, "format", f"must be {FORMAT!r}; {HINT}")
    if saved.get("edges_s") != list(table.edges_s):
        raise at(path, None, "edges_s", f"are other age bins than this version has; learn it again: {HINT}")
    finishes, classes = saved.get("finishes"), saved.get("classes")
    if type(finishes) is not int or finishes < 0:
        raise at(path, None, "finishes", f"{finishes!r}: must be a whole number, not negative")
    if not isinstance(classes, list):
        raise at(path, None, "classes", "must be a list")
    for place, row in enumerate(classes):
        problem = _problem(row, place, int(table.bins))
        if problem:
            raise at(path, None, f"classes[{place}]", problem)
    return {"finishes": finishes, "classes": classes}


def _problem(row: Any, place: int, bins: int) -> str:
    """What is wrong with a row of the table; empty if nothing is."""
    if not isinstance(row, list) or len(row) != 4:
        return "must be [name, number of the wider class, met, ended]"
    name, parent, met, ended = row
    if not isinstance(name, str) or type(parent) is not int or not -1 <= parent < place:
        return f"{name!r}, {parent!r}: must be a name, and the number of an earlier row or -1"
    for numbers in (met, ended):
        if not isinstance(numbers, list) or len(numbers) != bins:
            return f"must hold {bins} numbers of jobs met, and as many of jobs ended"
        if not all(type(number) in (int, float) and 0.0 <= number < float("inf") for number in numbers):
            return "numbers of jobs must not be negative"
    if any(ends > seen for seen, ends in zip(met, ended, strict=True)):
        return "more jobs ended than were met"
    return ""
