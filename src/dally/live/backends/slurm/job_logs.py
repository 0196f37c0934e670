"""Where a job of Slurm's prints: the path of its StdOut, with the patterns that sbatch takes filled in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dally.live.backends.base import RUNNING, ObservedJob, ProgressSource
from dally.live.backends.slurm.job_record import JobRecord, number, text_of

REPORT_SUFFIX: Final = ".progress"  # of the file of `dally.report`, beside what the job prints
_PATTERN = re.compile(r"%(\d*)([%AabjJNnstuUx])")


def sources_of(jobs: Iterable[ObservedJob], records: Mapping[str, JobRecord]) -> tuple[ProgressSource, ...]:
    """Of running jobs that are ours."""
    running = [(records[job.job_id], job.spec) for job in jobs if job.managed and job.state == RUNNING]
    return tuple(_source(record, spec.pattern) for record, spec in running if record.row.get("batch_flag"))


def _source(record: JobRecord, pattern: str) -> ProgressSource:
    path = log_path(record.row)
    report = f"{path}{REPORT_SUFFIX}" if path else ""
    return ProgressSource(
        record.job_id, path, report, number(record.row.get("user_id")), pattern, own_id=str(record.row["job_id"])
    )


def log_path(row: dict[str, Any]) -> str:
    """The path; empty: it has none that one file holds."""
    expanded = text_of(row, "stdout_expanded")
    if expanded.startswith("/"):
        return expanded
    path = text_of(row, "standard_output")
    array = number(row.get("array_job_id"))
    folder = text_of(row, "current_working_directory")
    if not path:
        path = "slurm-%A_%a.out" if array else "slurm-%j.out"
    if not path.startswith("/"):
        path = f"{folder}/{path}"
    path = path if "\\" in path else _PATTERN.sub(lambda match: _filled(row, match), path)
    return path if folder.startswith("/") and path != "/dev/null" else ""


def _filled(row: dict[str, Any], match: re.Match[str]) -> str:
    """What stands for one pattern; of several nodes and tasks the first, where a batch script runs."""
    width, letter = match.groups()
    own, array = str(row.get("job_id")), number(row.get("array_job_id"))
    task = number(row.get("array_task_id"))
    nodes = text_of(row, "batch_host")
    value = {
        "%": "%", "A": str(array) if array else own, "a": str(task), "b": str(task % 10), "j": own, "J": own,
        "N": nodes.split(".")[0], "n": "0", "s": "batch", "t": "0", "u": text_of(row, "user_name"),
        "U": str(number(row.get("user_id"))), "x": text_of(row, "name"),
    }[letter]  # fmt: skip
    return value.zfill(int(width)) if width and value.isdigit() else value
