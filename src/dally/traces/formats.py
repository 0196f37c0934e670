"""The formats of traces: how each is told from the others, read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dally.entry_points import code_digest, installed, load_all, the_one
from dally.errors import at, unknown
from dally.traces.readers import csv_trace, helios, kube_jobs, lingjun, openb, pai, philly, sacct, swf, tiresias
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
    "kubernetes": Format(
        kube_jobs.looks_like, kube_jobs.rows, True, "Kubernetes: kubectl get jobs,workloads -o json"
    ),
    "helios": Format(helios.looks_like, helios.rows, True, "SenseTime Helios: csv"),
    "acme": Format(helios.looks_like_acme, helios.rows, True, "Shanghai AI Lab Acme: csv"),
    "pai": Format(pai.looks_like, pai.rows, True, "Alibaba PAI 2020: task table", pai.companions),
    "openb": Format(openb.looks_like, openb.rows, False, "Alibaba GPU 2023 (openb): csv of pods"),
    "tiresias": Format(tiresias.looks_like, tiresias.rows, False, "Tiresias: csv"),
    "paper": Format(csv_trace.looks_like_paper, csv_trace.rows, False, "workloads of the paper's simulator: csv"),
    "csv": Format(csv_trace.looks_like, csv_trace.rows, False, "plain csv"),
}


GROUP: Final = "dally.trace_formats"  # of entry points


def format_named(name: str) -> Format:
    """The format of that name: ours, or one that another distribution brings."""
    if name in FORMATS:
        return FORMATS[name]
    result = _installed(name)
    if result is None:
        raise unknown("trace format", name, ("auto", *FORMATS, *installed(GROUP)))
    return result


def _installed(name: str) -> Format | None:
    result = the_one(GROUP, name)
    if result is None:
        return None
    made = result.load()
    if not isinstance(made, Format):
        raise result.refused("must be a dally.traces.formats.Format")
    return made


def find_format(path: Path, name: str = "auto") -> str:
    """The name of the file's format, told by its content unless it is given."""
    if name != "auto":
        format_named(name)
        return name
    lines = [line for line in first_lines(path) if line.strip()]
    if not lines:
        return "csv"  # whose reader says what is expected
    for name, candidate in FORMATS.items():
        if candidate.looks_like(lines):
            return name
    others, problems = load_all(GROUP, FORMATS, _installed)
    for name, candidate in others.items():
        if candidate.looks_like(lines):
            return name
    known = ", ".join([*FORMATS, *others])
    own = f"a csv of your own has columns {csv_trace.USUAL}, with commas between them"
    why = f"begins with {lines[0][:60]!r}, which no known format does; --format can be one of {known}"
    raise at(path, 1, None, "; ".join([why, *(problems or [own])]))


def companions(path: Path, name: str = "auto") -> list[Path]:
    """The files beside the trace that are read with it."""
    return format_named(find_format(path, name)).companions(path)


def installed_code(path: Path, name: str = "auto") -> str:
    """The digest of the code that reads the file if another distribution brings it; else empty."""
    result = find_format(path, name)
    return "" if result in FORMATS else code_digest(GROUP, result)
