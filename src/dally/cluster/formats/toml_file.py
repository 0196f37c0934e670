"""Topology files in TOML: tiers with their links, machines by where they hang, exceptions by domain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NoReturn

from dally.cluster.formats.from_machines import MOST_TIERS
from dally.cluster.formats.hostlist import MOST_NAMES, expand
from dally.cluster.links import FABRICS
from dally.cluster.partitions import Partition
from dally.cluster.topology import Link, Machine, Topology, machine_name
from dally.errors import at
from dally.input_file import read_text
from dally.model import INFINITY
from dally.parsed_text import parse_toml as toml_tables

LINK_KEYS = ("capacity_gbps", "latency_s", "efficiency", "oversubscription", "background")
FABRIC_KEYS = ("fabric", "fabric_gbps", "fabric_latency_s")  # of machines only
MOST_GPUS_PER_MACHINE = 1024
TABLES = ("tiers", "machines", "domains", "partitions")
PARTITION_KEYS = ("name", "machines", "max_gpus", "time_limit_s", "users", "accounts")


def read_toml(path: Path) -> Topology:
    """The topology that the file describes, or an InputError that names file, line, field and value."""
    return parse_toml(path, read_text(path))


def parse_toml(path: Path, text: str) -> Topology:
    """The topology that the file of this text describes."""
    return _Reader(path, text, toml_tables(path, text)).topology()


class _Reader:
    """Walks the tables of one file and says where it stumbles."""

    def __init__(self, path: Path, text: str, tables: dict[str, Any]) -> None:
        self._path = path
        self._lines = text.splitlines()
        self._tables = tables

    def topology(self) -> Topology:
        for key in self._tables:
            if key not in TABLES:
                raise at(self._path, self._line_starting(key), key, f"unknown; known: {', '.join(TABLES)}")
        tiers = self._rows("tiers")
        if len(tiers) > MOST_TIERS:
            raise at(self._path, None, "tiers", f"{len(tiers):,} of them, at most {MOST_TIERS}")
        names = [self._text("tiers", index, row, "name") for index, row in enumerate(tiers)]
        if len(names) < 2 or len(set(names)) < len(names):
            raise at(self._path, None, "tiers", f"{names!r}: at least two different names, closest first")
        for index, row in enumerate(tiers):
            self._known("tiers", index, row, ("name", *LINK_KEYS, *(FABRIC_KEYS if index == 0 else ())))
        defaults = [self._link("tiers", index, row, Link()) for index, row in enumerate(tiers)]
        machines = self._machines(len(names))
        paths = {(*machine.path, machine.name) for machine in machines}
        paths |= {path[:length] for path in paths for length in range(1, len(path))}
        links = {path: defaults[len(names) - 1 - len(path)] for path in paths}
        self._exceptions(links, len(names))
        topology = Topology(names, machines, links)
        topology.partitions = self._partitions(topology)
        return topology

    def _partitions(self, topology: Topology) -> list[Partition]:
        """Named sets of machines with their limits."""
        numbers = {name: number for number, name in enumerate(topology.names[0])}
        found: list[Partition] = []
        for index, row in enumerate(self._rows("partitions") if "partitions" in self._tables else []):
            self._known("partitions", index, row, PARTITION_KEYS)
            name = self._text("partitions", index, row, "name")
            if any(other.name == name for other in found):
                self._fail("partitions", index, "name", name, "two partitions have this name")
            machines = self._names("partitions", index, row, "machines")
            for machine in machines:
                if machine not in numbers:
                    self._fail("partitions", index, "machines", machine, "no such machine")
            most = self._count("partitions", index, row, "max_gpus", MOST_NAMES) if "max_gpus" in row else 0
            limit_s = self._number("partitions", index, row, "time_limit_s") if "time_limit_s" in row else INFINITY
            users = tuple(self._names("partitions", index, row, "users")) if "users" in row else ()
            accounts = tuple(self._names("partitions", index, row, "accounts")) if "accounts" in row else ()
            inside = frozenset(numbers[machine] for machine in machines)
            found.append(Partition(name, inside, most, limit_s, users, accounts))
        return found

    def _names(self, table: str, index: int, row: dict[str, Any], key: str) -> list[str]:
        """A name or a list of them, with patterns as n[01-16]."""
        given = row.get(key)
        patterns = given if isinstance(given, list) else [given]
        return [name for pattern in patterns for name in self._expanded(table, index, key, pattern)]

    def _machines(self, depth: int) -> list[Machine]:
        found: list[Machine] = []
        seen: set[str] = set()
        for index, row in enumerate(self._rows("machines")):
            self._known("machines", index, row, ("path", "count", "names", "gpus", "gpu_type"))
            paths = self._paths(index, row, depth)
            gpus = self._count("machines", index, row, "gpus", MOST_GPUS_PER_MACHINE)
            gpu_type = self._text("machines", index, row, "gpu_type") if "gpu_type" in row else ""
            for path, name in self._named(index, row, paths):
                if name in seen:
                    self._fail("machines", index, "names", name, "two machines have this name")
                seen.add(name)
                found.append(Machine(path, name, gpus, gpu_type))
            if len(found) > MOST_NAMES:
                self._fail("machines", index, "gpus", gpus, f"over {MOST_NAMES} machines up to here")
        if not found:
            raise at(self._path, None, "machines", "none given")
        return found

    def _paths(self, index: int, row: dict[str, Any], depth: int) -> list[tuple[str, ...]]:
        """The domains this row's machines hang in, from the top down."""
        text = row.get("path", "")
        if not isinstance(text, str):
            self._fail("machines", index, "path", text, "must be text")
        parts = text.split("/") if text else []
        if len(parts) != depth - 2:
            self._fail("machines", index, "path", text, f"must name {depth - 2} domain(s) separated by /")
        paths: list[tuple[str, ...]] = [()]
        for part in parts:
            names = self._expanded("machines", index, "path", part)
            if len(paths) * len(names) > MOST_NAMES:
                self._fail("machines", index, "path", text, f"stands for more than {MOST_NAMES} domains")
            paths = [(*path, name) for path in paths for name in names]
        return paths

    def _named(
        self, index: int, row: dict[str, Any], paths: list[tuple[str, ...]]
    ) -> list[tuple[tuple[str, ...], str]]:
        if ("count" in row) == ("names" in row):
            self._fail("machines", index, "count", row.get("count"), "give either count or names")
        if "count" in row:
            count = self._count("machines", index, row, "count", MOST_NAMES)
            if count * len(paths) > MOST_NAMES:
                self._fail(
                    "machines", index, "count", count, f"in {len(paths)} domains: over {MOST_NAMES} machines"
                )
            return [(path, machine_name(path, number)) for path in paths for number in range(count)]
        if len(paths) > 1:
            self._fail("machines", index, "names", row["names"], "a path that is a pattern needs count instead")
        patterns = row["names"] if isinstance(row["names"], list) else [row["names"]]
        return [
            (paths[0], name) for pattern in patterns for name in self._expanded("machines", index, "names", pattern)
        ]

    def _exceptions(self, links: dict[tuple[str, ...], Link], depth: int) -> None:
        """Links of single domains that differ from their tier's."""
        for index, row in enumerate(self._rows("domains") if "domains" in self._tables else []):
            text = self._text("domains", index, row, "path")
            path = tuple(text.split("/"))
            keys = FABRIC_KEYS if len(path) == depth - 1 else ()
            self._known("domains", index, row, ("path", *LINK_KEYS, *keys))
            if path not in links:
                self._fail("domains", index, "path", text, "no such domain")
            links[path] = self._link("domains", index, row, links[path])

    def _link(self, table: str, index: int, row: dict[str, Any], default: Link) -> Link:
        values: dict[str, Any] = {key: getattr(default, key) for key in (*LINK_KEYS, *FABRIC_KEYS)}
        for key in row:
            if key not in values:
                continue
            values[key] = (
                self._fabric(table, index, row) if key == "fabric" else self._number(table, index, row, key)
            )
        return Link(**values)

    def _fabric(self, table: str, index: int, row: dict[str, Any]) -> str:
        value = self._text(table, index, row, "fabric")
        if value not in FABRICS:
            self._fail(table, index, "fabric", value, f"must be one of {', '.join(FABRICS)}")
        return value

    def _number(self, table: str, index: int, row: dict[str, Any], key: str) -> float:
        value = row[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            self._fail(table, index, key, value, "must be a number, not negative")
        if (key == "efficiency" and not 0 < value <= 1) or (key == "background" and value >= 1):
            self._fail(table, index, key, value, "must be a share: efficiency above 0, background below 1")
        return float(value)

    def _rows(self, table: str) -> list[dict[str, Any]]:
        rows = self._tables.get(table)
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise at(self._path, self._line_starting(table), table, f"give one or more [[{table}]] tables")
        return rows

    def _known(self, table: str, index: int, row: dict[str, Any], keys: tuple[str, ...]) -> None:
        for key in row:
            if key not in keys:
                self._fail(table, index, key, row[key], f"unknown; known: {', '.join(keys)}")

    def _text(self, table: str, index: int, row: dict[str, Any], key: str) -> str:
        value = row.get(key)
        if not isinstance(value, str) or not value:
            self._fail(table, index, key, value, "must be text")
        return value

    def _count(self, table: str, index: int, row: dict[str, Any], key: str, most: int) -> int:
        value = row.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            self._fail(table, index, key, value, f"must be a whole number from 1 to {most}")
        return value

    def _expanded(self, table: str, index: int, key: str, value: object) -> list[str]:
        try:
            if not isinstance(value, str):
                raise ValueError("must be text")
            return expand(value)
        except ValueError as error:
            self._fail(table, index, key, value, str(error))

    def _fail(self, table: str, index: int, key: str, value: object, problem: str) -> NoReturn:
        shown = "missing" if value is None else repr(value)
        raise at(self._path, self._line_of(table, index, key), f"{table}[{index}].{key}", f"{shown}: {problem}")

    def _line_of(self, table: str, index: int, key: str) -> int | None:
        """The line of a key of the index-th [[table]], or of its header when the key is missing."""
        header = re.compile(rf"\s*\[\[\s*{re.escape(table)}\s*\]\]")
        starts = [number for number, line in enumerate(self._lines) if header.match(line)]
        if index >= len(starts):
            return None
        for number in range(starts[index] + 1, len(self._lines)):
            if self._lines[number].lstrip().startswith("["):
                break
            if re.match(rf"\s*{re.escape(key)}\s*=", self._lines[number]):
                return number + 1
        return starts[index] + 1

    def _line_starting(self, key: str) -> int | None:
        pattern = re.compile(rf"\s*\[*\s*{re.escape(key)}\b")
        for number, line in enumerate(self._lines):
            if pattern.match(line):
                return number + 1
        return None
