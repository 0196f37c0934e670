"""Alibaba's openb table of nodes: sn,cpu_milli,memory_mib,gpu,model. It says nothing of the network above them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from dally.cluster.formats.from_machines import Imported, ImportOptions, assemble
from dally.cluster.formats.slurm_lines import whole_number
from dally.cluster.topology import Machine
from dally.errors import at
from dally.input_file import shown

COLUMNS = ("sn", "gpu")


def read_openb(path: Path, text: str, options: ImportOptions) -> Imported:
    """The machines of the table, without racks."""
    reader = csv.reader(io.StringIO(text, newline=""))
    machines: list[Machine] = []
    header: list[str] = []
    try:
        for row in reader:
            if row and header:
                machines.append(_machine(path, reader.line_num, header, row))
            elif row:
                header = [name.strip() for name in row]
    except csv.Error as error:
        raise at(path, reader.line_num, None, str(error)) from None
    return assemble(path, machines, {}, options, [])


def _machine(path: Path, line: int, header: list[str], row: list[str]) -> Machine:
    for name in COLUMNS:
        if name not in header:
            raise at(path, 1, name, f"no such column; the header has {', '.join(header)[:200]}")
    if len(row) < len(header):
        raise at(path, line, None, f"{len(row)} fields where the header has {len(header)}")
    name, gpus = (row[header.index(column)].strip() for column in COLUMNS)
    if not name:
        raise at(path, line, "sn", "is empty")
    try:
        model = row[header.index("model")].strip() if "model" in header else ""
        return Machine((), name, whole_number(gpus), model)
    except ValueError as error:
        raise at(path, line, "gpu", f"{shown(gpus)}: {error}") from None
