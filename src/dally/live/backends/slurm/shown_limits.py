"""Reservations, licences and partitions, which every version of Slurm prints alike by `scontrol -o show`."""

from __future__ import annotations

import calendar
import math
import re
import time
from collections.abc import Iterable, Mapping
from typing import Final

from dally.cluster.formats.hostlist import expand_list
from dally.live.backends.base import ObservedJob, ObservedReservation
from dally.live.backends.slurm.background_reader import BackgroundReader
from dally.live.backends.slurm.tools import Tools

LEASE: Final = "dally_lease_"  # how our own reservations begin: see lease.py
SHOW: Final = ("scontrol", "-o", "show")
EVERY_S: Final = 10.0  # they are looked at
NEAR_S: Final = 300.0  # so far may the clocks differ
_FIELD = re.compile(r"(?<!\S)(\w+)=(\S*)")


class ShownLimits:
    """Looks at them now and then; the last known ones count while scontrol hangs."""

    def __init__(self) -> None:
        self._reader: BackgroundReader[tuple[str, str, str]] = BackgroundReader(EVERY_S)

    @property
    def _shown(self) -> tuple[str, str, str] | None:
        return self._reader.known

    def look(self, tools: Tools, problems: list[str]) -> None:
        """If it is time."""
        self._reader.latest(lambda: _read(tools))
        if self._reader.problem:
            problems.append(f"reservations, licences and limits of partitions: {self._reader.problem}")

    def look_soon(self) -> None:
        """With the next snapshot."""
        self._reader.due_s = 0.0

    def reservations(self, machines: frozenset[str]) -> tuple[ObservedReservation, ...]:
        """Of these machines, without our own."""
        return reservations_of(self._shown[0], machines) if self._shown is not None else ()

    def reserved_nodes(self) -> frozenset[str]:
        """Of reservations that are in force, or were or will be a moment ago or from now."""
        if self._shown is None:
            return frozenset()
        now_s = time.time()
        rows = lines_of(self._shown[0])
        near = (row for row in rows if _begins_s(row) - NEAR_S < now_s < _ends_s(row) + NEAR_S and row.get("Nodes"))
        return frozenset(name for row in near for name in expand_list(row["Nodes"]))

    def licences(self, jobs: Iterable[ObservedJob]) -> dict[str, float]:
        """What our jobs may have of each."""
        return licences_left(self._shown[1], jobs) if self._shown is not None else {}

    def partitions(self) -> str:
        """All that is shown of them."""
        return self._shown[2] if self._shown is not None else ""


def _read(tools: Tools) -> tuple[str, str, str]:
    """Reservations, licences and partitions, as they are shown."""
    return (
        tools.run(*SHOW, "reservation", utc=True),
        tools.run(*SHOW, "licenses"),
        tools.run(*SHOW, "partition"),
    )


def lines_of(text: str) -> list[dict[str, str]]:
    """The fields of each line; what is (null) is empty."""
    rows = (
        {name: "" if value == "(null)" else value for name, value in _FIELD.findall(line)}
        for line in text.splitlines()
    )
    return [row for row in rows if row]


def reservations_of(text: str, machines: frozenset[str]) -> tuple[ObservedReservation, ...]:
    """Of these machines, without our own; times are in UTC."""
    result = []
    for row in lines_of(text):
        name = row.get("ReservationName", "")
        members = machines.intersection(expand_list(row["Nodes"])) if row.get("Nodes") else frozenset()
        if not name or name.startswith(LEASE) or not members:
            continue
        result.append(
            ObservedReservation(
                name, members, _begins_s(row), _ends_s(row),
                _names(row.get("Users", "")), _names(row.get("Accounts", "")),
            )
        )  # fmt: skip
    return tuple(result)


def _begins_s(row: Mapping[str, str]) -> float:
    return moment_s(row.get("StartTime", ""))


def _ends_s(row: Mapping[str, str]) -> float:
    return moment_s(row.get("EndTime", ""), math.inf)


def licences_left(text: str, jobs: Iterable[ObservedJob]) -> dict[str, float]:
    """What our jobs may have of each licence: what is left, and what those of them have that run."""
    left = {
        row["LicenseName"]: float(row.get("Total", 0)) - float(row.get("Used", 0)) - float(row.get("Reserved", 0))
        for row in lines_of(text)
        if row.get("LicenseName")
    }
    for job in jobs:
        if job.managed and job.placement:
            for item in filter(None, job.spec.licences.split(",")):
                name, _, count = item.partition("=")
                if name in left:
                    left[name] += float(count)
    return left


def moment_s(text: str, otherwise: float = 0.0) -> float:
    """Seconds since 1970 of a date in UTC."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return otherwise


def _names(text: str) -> frozenset[str]:
    return frozenset(name for name in text.split(",") if name)
