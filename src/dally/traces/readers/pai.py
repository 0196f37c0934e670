"""Alibaba PAI 2020 (cluster-trace-gpu-v2020): the task table, and the job table if it lies beside it.

The tables have no header. A job is the sum of its tasks. `plan_gpu` is in percent of one GPU and per
instance; Dally gives whole GPUs, so the sum over a job's instances is rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Final

from dally.errors import at
from dally.job_spec import JobSpec
from dally.traces.rows import BACKWARDS, FRACTIONS, MOST_GPUS, NO_END, NO_GPUS, NO_START, Reading, TraceRow
from dally.traces.table import number, rows_of

COLUMNS: Final = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
)  # fmt: skip
JOB_COLUMNS: Final = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
STATUSES: Final = frozenset({"Terminated", "Failed", "Running", "Waiting", "Interrupted"})
WORST_FIRST: Final = ("Failed", "Interrupted", "Running", "Waiting")


class _Job:
    """What the tasks of one job add up to."""

    __slots__ = ("end_s", "gpu_type", "line", "machines", "percent", "start_s", "statuses", "trouble")

    def __init__(self, line: int) -> None:
        self.line = line
        self.percent = 0.0
        self.machines = 0
        self.start_s = float("inf")
        self.end_s = 0.0
        self.gpu_type = ""
        self.statuses: set[str] = set()
        self.trouble = ""


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the first row has the ten fields of a task, or their names."""
    fields = [field.strip() for field in lines[0].split(",")] if lines else []
    return len(fields) == len(COLUMNS) and (fields[3] in STATUSES or tuple(fields) == COLUMNS)


def companions(path: Path) -> list[Path]:
    """The job table that belongs to a task table, if it is there."""
    beside = path.with_name(path.name.replace("task", "job"))
    return [beside] if beside != path and beside.is_file() else []


def rows(reading: Reading) -> Iterator[TraceRow]:
    """The jobs of the table, in order of their first task."""
    submitted = _submitted(companions(reading.path))
    for name, job in _jobs(reading).items():
        if job.percent <= 0.0:
            reading.skip(job.line, "plan_gpu", "", NO_GPUS)
        elif job.trouble:
            reading.skip(job.line, "end_time", name, job.trouble)
        else:
            gpus = ceil(job.percent / 100.0 - 1e-9)
            if gpus > MOST_GPUS:
                raise at(reading.path, job.line, "plan_gpu", f"{gpus} GPUs: too many to be true")
            if job.percent % 100.0:
                reading.note(FRACTIONS)
            user, submit_s = submitted.get(name, ("", job.start_s))
            yield TraceRow(
                job.line,
                name,
                submit_s,
                JobSpec(gpus, job.gpu_type, user=user),
                job.end_s - job.start_s,
                status=next((token for token in WORST_FIRST if token in job.statuses), "Terminated"),
                wait_s=reading.wait(submit_s, job.start_s),
            )


def _jobs(reading: Reading) -> dict[str, _Job]:
    """The tasks with GPUs added up by job; a job without such tasks has 0 percent."""
    path = reading.path
    result: dict[str, _Job] = {}
    for line, row in rows_of(path):
        if line == 1 and tuple(field.strip() for field in row) == COLUMNS:
            continue
        if len(row) != len(COLUMNS):
            raise at(path, line, None, f"{len(row)} fields where the task table has {len(COLUMNS)}")
        name, _, instances, status, start, end, _, _, percent, gpu_type = (field.strip() for field in row)
        if not name:
            raise at(path, line, "job_name", "empty: every job needs a name")
        job = result.get(name) or result.setdefault(name, _Job(line))
        job.statuses.add(status)
        if not percent:
            continue
        count = number(path, line, "inst_num", instances) if instances else 1.0
        job.percent += count * number(path, line, "plan_gpu", percent)
        job.gpu_type = job.gpu_type or gpu_type
        start_s = number(path, line, "start_time", start) if start else 0.0
        end_s = number(path, line, "end_time", end) if end else 0.0
        if not (start_s and end_s):
            job.trouble = job.trouble or (NO_END if start_s else NO_START)
        elif end_s < start_s:
            job.trouble = job.trouble or BACKWARDS
        job.start_s = min(job.start_s, start_s)
        job.end_s = max(job.end_s, end_s)
    return result


def _submitted(tables: list[Path]) -> dict[str, tuple[str, float]]:
    """User and time of submission by job, from the job table; jobs without a time are left to their tasks."""
    result: dict[str, tuple[str, float]] = {}
    for path in tables:
        for line, row in rows_of(path):
            fields = [field.strip() for field in row]
            if line == 1 and tuple(fields) == JOB_COLUMNS:
                continue
            if len(fields) != len(JOB_COLUMNS):
                raise at(path, line, None, f"{len(row)} fields where the job table has {len(JOB_COLUMNS)}")
            if fields[4]:
                result[fields[0]] = (fields[2], number(path, line, "start_time", fields[4]))
    return result
