"""Clusters as csv tables of hosts: Alibaba Lingjun's (host,ASW,PSW,DSW) and openb's (sn,gpu,model)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dally.cluster.formats.from_machines import Imported, ImportOptions, assemble
from dally.cluster.formats.slurm_lines import whole_number
from dally.cluster.topology import Machine
from dally.errors import at
from dally.input_file import read_text, shown

LINGJUN_GPUS = 8  # per host
LINGJUN_COLUMNS = ("host", "ASW", "PSW")  # DSW, the one on top, may be missing
TIERS = ("asw", "psw", "dsw")
OPENB_COLUMNS = ("sn", "gpu")


class Host(NamedTuple):
    """One row: the host, and its switches from the top down."""

    name: str
    switches: tuple[str, ...]


def read_lingjun(path: Path, text: str, options: ImportOptions) -> Imported:
    """The topology of the table; hosts have 8 GPUs unless the options say otherwise."""
    hosts = parse_hosts(path, text)
    gpus = LINGJUN_GPUS if options.gpus_per_node is None else options.gpus_per_node
    machines = [Machine(host.switches, host.name, gpus) for host in hosts]
    tiers = list(TIERS[: len(hosts[0].switches)]) if hosts else []
    return assemble(path, machines, {}, options, tiers)


def read_hosts(path: Path) -> list[Host]:
    """The rows of the file."""
    return parse_hosts(path, read_text(path))


def parse_hosts(path: Path, text: str) -> list[Host]:
    """The rows of the table, or an InputError that says which line is wrong."""
    hosts: list[Host] = []
    lines: dict[str, int] = {}
    for line, row in _rows(path, text, LINGJUN_COLUMNS):
        host = _host(path, line, row)
        if host.name in lines:
            raise at(path, line, "host", f"{host.name!r} is already in line {lines[host.name]}")
        lines[host.name] = line
        hosts.append(host)
    return hosts


def _host(path: Path, line: int, row: dict[str, str]) -> Host:
    for name in ("host", *(tier.upper() for tier in TIERS)):
        if row.get(name) == "":
            raise at(path, line, name, "is empty")
    above = [row[tier.upper()] for tier in reversed(TIERS) if tier.upper() in row]
    return Host(row["host"], tuple(above))


def read_openb(path: Path, text: str, options: ImportOptions) -> Imported:
    """The machines of the table, without racks: it says nothing of the network above them."""
    machines = [_machine(path, line, row) for line, row in _rows(path, text, OPENB_COLUMNS)]
    return assemble(path, machines, {}, options, [])


def _machine(path: Path, line: int, row: dict[str, str]) -> Machine:
    if not row["sn"]:
        raise at(path, line, "sn", "is empty")
    try:
        return Machine((), row["sn"], whole_number(row["gpu"]), row.get("model", ""))
    except ValueError as error:
        raise at(path, line, "gpu", f"{shown(row['gpu'])}: {error}") from None


def _rows(path: Path, text: str, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, fields by column) of every row that is not blank; InputError if a needed column is missing."""
    reader = csv.reader(io.StringIO(text, newline=""))
    header: list[str] = []
    try:
        for row in reader:
            if row and not header:
                header = [name.strip() for name in row]
                for name in needed:
                    if name not in header:
                        problem = f"no such column; the header has {', '.join(header)[:200]}"
                        raise at(path, reader.line_num, name, problem)
            elif row:
                if len(row) < len(header):
                    raise at(path, reader.line_num, None, f"{len(row)} fields where the header has {len(header)}")
                yield reader.line_num, {name: cell.strip() for name, cell in zip(header, row, strict=False)}
    except csv.Error as error:
        raise at(path, reader.line_num, None, str(error)) from None
