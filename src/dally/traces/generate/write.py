"""Writing a workload as a plain trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dally.traces.generate.workload import GeneratedJob, Workload
from dally.whole_file import write_pieces


def write_workload(path: Path, workload: Workload) -> None:
    """Write csv, or csv.gz by the name; the file appears only when it is complete."""
    write_pieces(path, _lines(workload))


def _lines(workload: Workload) -> Iterator[str]:
    columns = len(GeneratedJob._fields) - (not workload.jobs[0].queue)  # the last is the queue
    yield ",".join(GeneratedJob._fields[:columns]) + "\n"
    for job in workload.jobs:
        yield ",".join(map(str, job[:columns])) + "\n"
