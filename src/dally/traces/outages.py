"""Machine failures from a file: csv with machine, fail_s, repair_s, or a JSON list of faults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dally.errors import InputError, at
from dally.traces.fault_trace import looks_like, read_faults
from dally.traces.table import first_lines, number, rows_of

COLUMNS = ["machine", "fail_s", "repair_s"]


def read_outages(path: Path, machines: Mapping[str, int]) -> list[tuple[int, float, float]]:
    """(machine number, fail_s, repair_s) rows of a file of either format, told by its content."""
    return (read_faults if looks_like(first_lines(path)) else _read_csv)(path, machines)


def _read_csv(path: Path, machines: Mapping[str, int]) -> list[tuple[int, float, float]]:
    """An empty repair_s means that the machine never comes back."""
    found: list[tuple[int, float, float]] = []
    rows = rows_of(path)
    _, header = next(rows, (0, []))
    header = [name.strip() for name in header]
    if not header:
        raise InputError(f"{path}: is empty; expected a csv with columns {', '.join(COLUMNS)}")
    for name in COLUMNS:
        if name not in header:
            raise at(path, 1, name, f"no such column; the header has {', '.join(header)}")
    places = [header.index(name) for name in COLUMNS]
    for line, row in rows:
        if len(row) < len(header):
            raise at(path, line, None, f"{len(row)} fields where the header has {len(header)}")
        name, fail, repair = (row[place].strip() for place in places)
        if name not in machines:
            raise at(path, line, "machine", f"{name!r}: the cluster has no such machine")
        fail_s = number(path, line, "fail_s", fail)
        repair_s = number(path, line, "repair_s", repair) if repair else float("inf")
        if repair_s <= fail_s:
            raise at(path, line, "repair_s", f"{repair!r}: must come after fail_s, {fail!r}")
        found.append((machines[name], fail_s, repair_s))
    return found
