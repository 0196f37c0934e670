"""The formats of traces: how each is told from the others, read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dally.errors import at, unknown
from dally.traces import acme, csv_trace, helios, lingjun, pai, paper, philly, sacct, swf, tiresias
from dally.traces.rows import Reading, TraceRow
from dally.traces.table import first_lines


def _none(path: Path) -> list[Path]:
    return []


class Format(NamedTuple):
    """One format. Times of a dated one are dates; they become seconds from the first job that is used."""

    looks_like: Callable[[Sequence[str]], bool]  # given the first lines
    rows: Callable[[Reading], Iterator[TraceRow]]
    dated: bool
    about: str
    companions: Callable[[Path], list[Path]] = _none  # files beside it that are read too


# In the order in which they are tried.
FORMATS: Final[dict[str, Format]] = {
    "philly": Format(philly.looks_like, philly.rows, True, "Microsoft Philly: JSON list"),
    "swf": Format(swf.looks_like, swf.rows, False, "Standard Workload Format 2.2"),
    "sacct": Format(sacct.looks_like, sacct.rows, True, "Slurm: sacct --parsable2"),
    "lingjun": Format(
        lingjun.looks_like, lingjun.rows, True, "Alibaba Lingjun: job.csv, worker.csv", lingjun.companions
    ),
    "helios": Format(helios.looks_like, helios.rows, True, "SenseTime Helios: csv"),
    "acme": Format(acme.looks_like, acme.rows, True, "Shanghai AI Lab Acme: csv"),
    "pai": Format(pai.looks_like, pai.rows, True, "Alibaba PAI 2020: task table", pai.companions),
    "tiresias": Format(tiresias.looks_like, tiresias.rows, False, "Tiresias: csv"),
    "paper": Format(paper.looks_like, paper.rows, False, "workloads of the paper's simulator: csv"),
    "csv": Format(csv_trace.looks_like, csv_trace.rows, False, "plain csv"),
}


def find_format(path: Path, name: str = "auto") -> str:
    """The name of the file's format, told by its content unless it is given."""
    if name != "auto":
        if name not in FORMATS:
            raise unknown("trace format", name, ("auto", *FORMATS))
        return name
    lines = [line for line in first_lines(path) if line.strip()]
    if not lines:
        return "csv"  # whose reader says what is expected
    for name, candidate in FORMATS.items():
        if candidate.looks_like(lines):
            return name
    problem = f"begins with {lines[0][:60]!r}, which no known format does"
    raise at(path, 1, None, f"{problem}; --format can be one of {', '.join(FORMATS)}")


def companions(path: Path, name: str = "auto") -> list[Path]:
    """The files beside the trace that are read with it."""
    return FORMATS[find_format(path, name)].companions(path)
