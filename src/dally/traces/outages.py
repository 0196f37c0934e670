"""Machine failures from a file: csv with machine, fail_s, repair_s; or InfiniteHBD's fault trace, a JSON list.

The 400 servers of that trace (SIGCOMM 2025) are not ours: which machine breaks like which server is drawn once for
all, from the servers' names, so that the share of machines that ever break is the cluster's own. Where all names
are machines', they are those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from dally.errors import at
from dally.input_file import shown
from dally.traces.readers.json_objects import Entry, objects_of, text_in
from dally.traces.rows import Reading
from dally.traces.table import first_lines, number

COLUMNS: Final = ("machine", "fail_s", "repair_s")
SERVERS: Final = 400  # those that never broke are not in the file
DAY_S: Final = 86400.0
ENTRY: Final = "an object with node_id, event_time, event_type"
START, END = "fault_start", "fault_end"

Outage = tuple[float, float]  # from, until


def read_outages(path: Path, machines: Mapping[str, int]) -> list[tuple[int, float, float]]:
    """(machine number, fail_s, repair_s) rows of a file of either format, by its content."""
    return (_read_faults if _is_list(first_lines(path)) else _read_csv)(path, machines)


def _read_csv(path: Path, machines: Mapping[str, int]) -> list[tuple[int, float, float]]:
    """An empty repair_s means that the machine never comes back."""
    outages: list[tuple[int, float, float]] = []
    for line, field in Reading(path).table(COLUMNS):
        name, fail, repair = (field[column] for column in COLUMNS)
        if name not in machines:
            raise at(path, line, "machine", f"{name!r}: the cluster has no such machine")
        fail_s = number(path, line, "fail_s", fail)
        repair_s = number(path, line, "repair_s", repair) if repair else float("inf")
        if repair_s <= fail_s:
            raise at(path, line, "repair_s", f"{repair!r}: must come after fail_s, {fail!r}")
        outages.append((machines[name], fail_s, repair_s))
    return outages


def _is_list(lines: Sequence[str]) -> bool:
    """Whether it begins as a JSON list does."""
    return next((line.lstrip() for line in lines if line.strip()), "").startswith("[")


def _read_faults(path: Path, machines: Mapping[str, int]) -> list[tuple[int, float, float]]:
    """(machine number, fail_s, repair_s): days become seconds; a fault without an end lasts for ever."""
    result = _outages(path)
    if result and all(name in machines for name in result):
        return [(machines[name], *outage) for name, outages in result.items() for outage in outages]
    servers = [*result, *(f"server {number}" for number in range(len(result), SERVERS))]
    count = len(set(machines.values()))
    if count > len(servers):
        problem = f"lists {len(servers)} servers and the cluster has {count} machines"
        raise at(path, None, None, f"{problem}; --failure-rate is for any number")
    servers.sort(key=lambda name: sha256(name.encode()).digest())
    drawn = enumerate(servers[:count])
    return [(machine, *outage) for machine, name in drawn for outage in result.get(name, [])]


def _outages(path: Path) -> dict[str, list[Outage]]:
    """When each server was down; faults that overlap are one outage."""
    open_since: dict[str, list[float]] = {}  # one entry for each fault that lasts
    result: dict[str, list[Outage]] = {}
    for line, event in objects_of(path, ENTRY):
        name, kind, time_s = _event(path, line, event)
        lasting = open_since.setdefault(name, [])
        if kind == START:
            lasting.append(time_s)
            result.setdefault(name, [])
            continue
        if not lasting or time_s < lasting[-1]:
            raise at(path, line, "event_type", f"{END!r}: no fault of {shown(name)} began before")
        since_s = lasting.pop()
        if not lasting and time_s > since_s:
            result[name].append((since_s, time_s))
    for name, lasting in open_since.items():
        if lasting:
            result[name].append((lasting[0], float("inf")))
    return result


def _event(path: Path, line: int, event: Entry) -> tuple[str, str, float]:
    name, kind = text_in(path, line, event, "node_id"), text_in(path, line, event, "event_type")
    if not name:
        raise at(path, line, "node_id", "missing: every event has one")
    if kind not in (START, END):
        raise at(path, line, "event_type", f"{shown(kind)}: must be {START} or {END}")
    return name, kind, number(path, line, "event_time", str(event.get("event_time", ""))) * DAY_S
