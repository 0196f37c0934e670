"""Reservations and licences as `scontrol -o show` prints them, which every version of Slurm does alike."""

from __future__ import annotations

import calendar
import math
import re
import time
from collections.abc import Iterable
from typing import Final

from dally.cluster.formats.hostlist import expand_list
from dally.live.backends.base import ObservedJob, ObservedReservation

LEASE: Final = "dally_lease_"  # how our own reservations begin: see lease.py
_FIELD = re.compile(r"(?<!\S)(\w+)=(\S*)")


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
                name, members, moment_s(row.get("StartTime", "")), moment_s(row.get("EndTime", ""), math.inf),
                _names(row.get("Users", "")), _names(row.get("Accounts", "")),
            )
        )  # fmt: skip
    return tuple(result)


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
