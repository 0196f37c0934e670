"""Alibaba Lingjun's table of hosts and the switches above them: host,ASW,PSW,DSW."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import NamedTuple

from dally.cluster.formats.from_machines import Imported, ImportOptions, assemble
from dally.cluster.topology import Machine
from dally.errors import at
from dally.input_file import read_text

GPUS = 8  # per host
COLUMNS = ("host", "ASW", "PSW")  # DSW, the one on top, may be missing
TIERS = ("asw", "psw", "dsw")


class Host(NamedTuple):
    """One row: the host, and its switches from the top down."""

    name: str
    switches: tuple[str, ...]


def read_lingjun(path: Path, text: str, options: ImportOptions) -> Imported:
    """The topology of the table; hosts have 8 GPUs unless the options say otherwise."""
    hosts = parse_hosts(path, text)
    gpus = GPUS if options.gpus_per_node is None else options.gpus_per_node
    machines = [Machine(host.switches, host.name, gpus) for host in hosts]
    tiers = list(TIERS[: len(hosts[0].switches)]) if hosts else []
    return assemble(path, machines, {}, options, tiers)


def read_hosts(path: Path) -> list[Host]:
    """The rows of the file."""
    return parse_hosts(path, read_text(path))


def parse_hosts(path: Path, text: str) -> list[Host]:
    """The rows of the table, or an InputError that says which line is wrong."""
    reader = csv.reader(io.StringIO(text, newline=""))
    found: list[Host] = []
    lines: dict[str, int] = {}
    header: list[str] = []
    try:
        for row in reader:
            if not row:
                continue
            if not header:
                header = _header(path, reader.line_num, row)
                continue
            if len(row) < len(header):
                problem = f"{len(row)} fields where the header has {len(header)}"
                raise at(path, reader.line_num, None, problem)
            host = _host(path, reader.line_num, dict(zip(header, row, strict=False)))
            if host.name in lines:
                raise at(path, reader.line_num, "host", f"{host.name!r} stands already in line {lines[host.name]}")
            lines[host.name] = reader.line_num
            found.append(host)
    except csv.Error as error:
        raise at(path, reader.line_num, None, str(error)) from None
    return found


def _header(path: Path, line: int, row: list[str]) -> list[str]:
    header = [name.strip() for name in row]
    for name in COLUMNS:
        if name not in header:
            raise at(path, line, name, f"no such column; the header has {', '.join(header)[:200]}")
    return header


def _host(path: Path, line: int, row: dict[str, str]) -> Host:
    for name in ("host", *(tier.upper() for tier in TIERS)):
        if name in row and not row[name].strip():
            raise at(path, line, name, "is empty")
    above = [row[tier.upper()].strip() for tier in reversed(TIERS) if tier.upper() in row]
    return Host(row["host"].strip(), tuple(above))
