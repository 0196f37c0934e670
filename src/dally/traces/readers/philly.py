"""Philly (Microsoft, 2017): cluster_job_log, a JSON list of jobs with their attempts.

Source: msr-fiddle/philly-traces on GitHub. The file is large, so it is read job by job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from dally.errors import at
from dally.job_spec import JobSpec
from dally.traces.readers.json_objects import list_in, objects_of, text_in
from dally.traces.rows import BACKWARDS, MOST_GPUS, NO_END, NO_GPUS, NO_START, NO_SUBMIT, Reading, TraceRow
from dally.traces.times import written

ENTRY: Final = "an object with jobid, submitted_time, attempts"
SEVERAL: Final = "had several attempts: their running times are added up"
GPUS_PER_MACHINE: Final = 8  # where a trace to be written does not say how gangs were placed


def looks_like(lines: Sequence[str]) -> bool:
    """Whether it begins as a JSON list does."""
    return next((line.lstrip() for line in lines if line.strip()), "").startswith("[")


def rows(reading: Reading) -> Iterator[TraceRow]:
    """The jobs of the list. A job's GPUs are those of its largest attempt."""
    for line, job in objects_of(reading.path, ENTRY):
        row = _row(reading, line, job)
        if row is not None:
            yield row


def _row(reading: Reading, line: int, job: dict[str, Any]) -> TraceRow | None:
    """The job as a row; None if it cannot be used, which is counted."""
    job_id = text_in(reading.path, line, job, "jobid")
    if not job_id:
        raise at(reading.path, line, "jobid", "empty: every job needs a name")
    submit_s = _date(reading, line, job, "submitted_time")
    runs, gpus = _attempts(reading, line, job)
    if submit_s is None:
        reading.skip(line, "submitted_time", job.get("submitted_time"), NO_SUBMIT)
    elif not runs:
        reading.skip(line, "attempts", job_id, NO_START)
    elif not gpus:
        reading.skip(line, "attempts", job_id, NO_GPUS)
    elif any(end is not None and end < start for start, end in runs):
        reading.skip(line, "end_time", job_id, BACKWARDS)
    elif all(end is None for _, end in runs):
        reading.skip(line, "end_time", job_id, NO_END)
    else:
        if len(runs) > 1:
            reading.note(SEVERAL)
        queue = text_in(reading.path, line, job, "vc")
        return TraceRow(
            line,
            job_id,
            submit_s,
            JobSpec(sum(gpus), user=text_in(reading.path, line, job, "user") or queue, queue=queue),
            sum(end - start for start, end in runs if end is not None),
            status=text_in(reading.path, line, job, "status"),
            wait_s=reading.wait(submit_s, min(start for start, _ in runs)),
            machines=len(gpus),
            placement="+".join(map(str, gpus)) if len(gpus) > 1 else "",
        )
    return None


def _attempts(
    reading: Reading, line: int, job: dict[str, Any]
) -> tuple[list[tuple[float, float | None]], list[int]]:
    """(start, end) of every attempt that started, and the GPUs per machine of the largest."""
    runs: list[tuple[float, float | None]] = []
    largest: list[int] = []
    for attempt in list_in(reading.path, line, job, "attempts"):
        start_s = _date(reading, line, attempt, "start_time")
        if start_s is not None:
            runs.append((start_s, _date(reading, line, attempt, "end_time")))
        gpus = [
            len(list_in(reading.path, line, machine, "gpus", str))
            for machine in list_in(reading.path, line, attempt, "detail")
        ]
        gpus = [count for count in gpus if count]
        if sum(gpus) > sum(largest):
            largest = gpus
    if sum(largest) > MOST_GPUS:
        raise at(reading.path, line, "gpus", f"{sum(largest)} GPUs: too many to be true")
    return runs, largest


def _date(reading: Reading, line: int, entry: dict[str, Any], field: str) -> float | None:
    text = text_in(reading.path, line, entry, field)
    return reading.date(line, field, text) if text else None


def pieces(rows: Sequence[TraceRow], epoch_s: float) -> Iterator[str]:
    """The text of the list, one job a line, dates in UTC; a wait that is not known is written as none."""
    for place, row in enumerate(rows):
        start_s = round(epoch_s + row.submit_s) + round(max(row.wait_s, 0.0))
        attempt = {
            "start_time": written(start_s),
            "end_time": written(start_s + round(row.stated)),
            "detail": [
                {"ip": f"m{machine}", "gpus": [f"gpu{gpu}" for gpu in range(count)]}
                for machine, count in enumerate(_spread(row))
            ],
        }
        entry = {
            "status": row.status, "vc": row.spec.queue, "jobid": row.job_id, "attempts": [attempt],
            "submitted_time": written(epoch_s + row.submit_s), "user": row.spec.user,
        }  # fmt: skip
        yield f"{',' if place else '['}\n{json.dumps(entry, ensure_ascii=False)}"
    yield "\n]\n" if rows else "[]\n"


def _spread(row: TraceRow) -> list[int]:
    """GPUs per machine: as placed, or evenly over the machines known, or eight to a machine."""
    if row.placement:
        try:
            placed = [int(count) for count in row.placement.split("+")]
        except ValueError:
            placed = []
        if sum(placed) == row.spec.gpus and min(placed) > 0:
            return placed
    machines = min(row.machines, row.spec.gpus) or -(-row.spec.gpus // GPUS_PER_MACHINE)
    each, rest = divmod(row.spec.gpus, machines)
    return [each + (machine < rest) for machine in range(machines)]
