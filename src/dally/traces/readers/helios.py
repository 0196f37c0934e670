"""Helios (SenseTime, 2020): csv with one row per job and local times without a zone.

Acme (Shanghai AI Lab, 2023) is like it with `type` and `gpu_time`, without `vc`; its dates carry their zone.
Sources: S-Lab-System-Group/HeliosData and InternLM/AcmeTrace on GitHub.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dally.errors import at
from dally.job_spec import JobSpec
from dally.traces.readers.csv_trace import header_names
from dally.traces.rows import NO_GPUS, Reading, TraceRow, empty
from dally.traces.table import csv_lines, rows_of
from dally.traces.times import written

COLUMNS: Final = (
    "job_id", "user", "vc", "gpu_num", "cpu_num", "node_num", "state", "submit_time", "start_time", "end_time",
    "duration", "queue",
)  # fmt: skip
NEEDED: Final = ("job_id", "gpu_num", "submit_time", "start_time", "end_time")
TIMES: Final = ("submit_time", "start_time", "end_time")


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the header has Helios' columns."""
    return {*NEEDED, "vc"} <= header_names(lines)


def looks_like_acme(lines: Sequence[str]) -> bool:
    """Whether the header has Acme's columns."""
    names = header_names(lines)
    return {*NEEDED} <= names and "vc" not in names


def rows(reading: Reading) -> Iterator[TraceRow]:
    """The jobs of the file; the virtual cluster stands for the user where no user is named."""
    table = rows_of(reading.path)
    _, header = next(table, (0, []))
    if not header:
        raise empty(reading.path, ", ".join(NEEDED))
    at_column = reading.header(header, NEEDED)
    submit_at, start_at, end_at = (at_column[name] for name in TIMES)
    id_at, gpus_at = at_column["job_id"], at_column["gpu_num"]
    user_at, vc_at, state_at, machines_at = (
        at_column.get(name, -1) for name in ("user", "vc", "state", "node_num")
    )
    for line, row in table:
        reading.whole(line, row, len(header))
        job_id = row[id_at].strip()
        if not job_id:
            raise at(reading.path, line, "job_id", "empty: every job needs a name")
        gpus = reading.gpus(line, "gpu_num", row[gpus_at])
        if gpus < 1:
            reading.skip(line, "gpu_num", row[gpus_at], NO_GPUS)
            continue
        ran = reading.ran(line, TIMES, (row[submit_at], row[start_at], row[end_at]))
        if ran is None:
            continue
        user = row[user_at].strip() if user_at >= 0 else ""
        queue = row[vc_at].strip() if vc_at >= 0 else ""
        yield TraceRow(
            line,
            job_id,
            ran.submit_s,
            JobSpec(gpus, user=user or queue, queue=queue),
            ran.duration_s,
            status=row[state_at].strip() if state_at >= 0 else "",
            wait_s=ran.wait_s,
            machines=reading.count(line, "node_num", row[machines_at]) if machines_at >= 0 else 0,
        )


def pieces(rows: Sequence[TraceRow], epoch_s: float) -> Iterator[str]:
    """The text of the csv, dates in UTC. A wait that is not known is written as none."""
    yield from csv_lines([COLUMNS])
    yield from csv_lines(_fields(row, epoch_s) for row in rows)


def _fields(row: TraceRow, epoch_s: float) -> list[object]:
    wait_s = max(row.wait_s, 0.0)
    submit_s = epoch_s + row.submit_s
    start_s = round(submit_s) + round(wait_s)
    return [
        row.job_id, row.spec.user, row.spec.queue, row.spec.gpus, "", row.machines or "", row.status,
        written(submit_s), written(start_s), written(start_s + round(row.stated)), round(row.stated), round(wait_s),
    ]  # fmt: skip
