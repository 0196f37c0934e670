"""Topology files in TOML: tiers with their links, machines by where they hang, exceptions by domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dally.cluster.formats.from_machines import MOST_TIERS
from dally.cluster.formats.hostlist import MOST_NAMES, expand
from dally.cluster.links import FABRICS, ROUTINGS
from dally.cluster.partitions import Partition
from dally.cluster.topology import UNSTATED, Capacity, Link, Machine, Topology, machine_name
from dally.cluster.torus import JOINED, read_shape
from dally.errors import at, warn_input
from dally.model import INFINITY
from dally.toml import TomlFile, TomlTable

FABRIC_KEYS = ("fabric", "fabric_gbps", "fabric_latency_s")  # of machines, and of what joins those of a domain
UPLINK_KEYS = ("rails", "uplinks", "routing", "planes")  # of domains above machines
TORUS_KEYS = ("torus", "torus_gbps")  # of tiers, not of single domains
# One capacity by three names: GB/s, the same in Gb/s, and the first name that it had, whose unit readers mistake.
CAPACITIES = {"capacity_gb_s": 1.0, "capacity_gbit_s": 0.125, "capacity_gbps": 1.0}
COUNTS = ("rails", "uplinks", "planes")
LINK_KEYS = ("capacity_gbps", "latency_s", "efficiency", "oversubscription", "background")  # as `Link` has them
ALL_KEYS = (*LINK_KEYS, *FABRIC_KEYS, *UPLINK_KEYS, *TORUS_KEYS)
NIC_GBIT_S = (100.0, 200.0, 400.0, 800.0)  # as cards are sold; uplinks of racks may have as many GB/s
CHOICES = {"fabric": FABRICS, "routing": ROUTINGS}
MOST_CABLES = 100_000
MOST_GPUS_PER_MACHINE = 1024
TABLES = ("tiers", "machines", "domains", "partitions")
CAPACITY_KEYS = {"cpus", "memory_mb", "resources", "features"}
PARTITION_KEYS = ("name", "machines", "max_gpus", "time_limit_s", "users", "accounts")


def parse_toml(path: Path, text: str) -> Topology:
    """The topology that the file of this text describes."""
    return _TopologyReader(TomlFile(path, text)).topology()


class _TopologyReader:
    """Walks the tables of one file and says where it stumbles."""

    def __init__(self, file: TomlFile) -> None:
        self._file = file
        self._path = file.path
        self._tables = file.tables

    def topology(self) -> Topology:
        self._file.only(TABLES)
        tiers = self._rows("tiers")
        if len(tiers) > MOST_TIERS:
            raise at(self._path, None, "tiers", f"{len(tiers):,} of them, at most {MOST_TIERS}")
        names = [row.text("name", blank=True) for row in tiers]
        if len(names) < 2 or len(set(names)) < len(names):
            raise at(self._path, None, "tiers", f"{names!r}: at least two different names, closest first")
        for index, row in enumerate(tiers):
            row.only(("name", *CAPACITIES, *LINK_KEYS[1:], *_keys_of(index, len(tiers)), *TORUS_KEYS))
            if index == 1 and "fabric_gbps" in row.row and "fabric" not in row.row:
                row.fail(
                    "fabric_gbps",
                    row.row["fabric_gbps"],
                    'say which fabric joins the machines: fabric = "nvswitch"',
                )
        defaults = [self._link(row, Link()) for row in tiers]
        machines = self._machines(len(names))
        paths = {(*machine.path, machine.name) for machine in machines}
        paths |= {path[:length] for path in paths for length in range(1, len(path))}
        links = {path: defaults[len(names) - 1 - len(path)] for path in paths}
        if defaults[-1].torus:  # the network has no uplink
            links[()] = Link(torus=defaults[-1].torus, torus_gbps=defaults[-1].torus_gbps)
        self._exceptions(links, len(names))
        topology = Topology(names, machines, links)
        topology.partitions = self._partitions(topology)
        return topology

    def _partitions(self, topology: Topology) -> list[Partition]:
        """Named sets of machines with their limits."""
        numbers = {name: number for number, name in enumerate(topology.names[0])}
        result: list[Partition] = []
        for row in self._rows("partitions") if "partitions" in self._tables else []:
            row.only(PARTITION_KEYS)
            name = row.text("name", blank=True)
            if any(other.name == name for other in result):
                row.fail("name", name, "two partitions have this name")
            machines = self._names(row, "machines")
            for machine in machines:
                if machine not in numbers:
                    row.fail("machines", machine, "no such machine")
            most = row.count("max_gpus", most=MOST_NAMES) if "max_gpus" in row.row else 0
            limit_s = self._number(row, "time_limit_s") if "time_limit_s" in row.row else INFINITY
            users = tuple(self._names(row, "users")) if "users" in row.row else ()
            accounts = tuple(self._names(row, "accounts")) if "accounts" in row.row else ()
            inside = frozenset(numbers[machine] for machine in machines)
            result.append(Partition(name, inside, most, limit_s, users, accounts))
        return result

    def _names(self, row: TomlTable, key: str) -> list[str]:
        """A name or a list of them, with patterns as n[01-16]."""
        options = row.row.get(key)
        patterns = options if isinstance(options, list) else [options]
        return [name for pattern in patterns for name in self._expanded(row, key, pattern)]

    def _machines(self, depth: int) -> list[Machine]:
        result: list[Machine] = []
        seen: set[str] = set()
        for row in self._rows("machines"):
            row.only(("path", "count", "names", "gpus", "gpu_type", *sorted(CAPACITY_KEYS)))
            paths = self._paths(row, depth)
            gpus = row.count("gpus", most=MOST_GPUS_PER_MACHINE)
            gpu_type = row.text("gpu_type", blank=True) if "gpu_type" in row.row else ""
            capacity = self._capacity(row)
            for path, name in self._named(row, paths):
                if name in seen:
                    row.fail("names", name, "two machines have this name")
                seen.add(name)
                result.append(Machine(path, name, gpus, gpu_type, capacity))
            if len(result) > MOST_NAMES:
                row.fail("gpus", gpus, f"over {MOST_NAMES} machines up to here")
        if not result:
            raise at(self._path, None, "machines", "none given")
        return result

    def _capacity(self, row: TomlTable) -> Capacity:
        """What the machines have for jobs beside their GPUs, as far as the file states it."""
        cpus = self._number(row, "cpus") if "cpus" in row.row else None
        memory_mb = self._number(row, "memory_mb") if "memory_mb" in row.row else None
        resources: dict[str, float] | None = None
        if "resources" in row.row:
            stated = row.row["resources"]
            if not isinstance(stated, dict) or not all(_is_amount(count) for count in stated.values()):
                row.fail("resources", stated, "must be names and amounts, as {nic = 2}")
            resources = {name: float(count) for name, count in stated.items()}
        features = frozenset(self._names(row, "features") if "features" in row.row else ())
        return Capacity(cpus, memory_mb, resources, features) if CAPACITY_KEYS & row.row.keys() else UNSTATED

    def _paths(self, row: TomlTable, depth: int) -> list[tuple[str, ...]]:
        """The domains this row's machines hang in, from the top down."""
        text = row.row.get("path", "")
        if not isinstance(text, str):
            row.fail("path", text, "must be text")
        parts = text.split("/") if text else []
        if len(parts) != depth - 2:
            row.fail("path", text, f"must name {depth - 2} domain(s) separated by /")
        paths: list[tuple[str, ...]] = [()]
        for part in parts:
            names = self._expanded(row, "path", part)
            if len(paths) * len(names) > MOST_NAMES:
                row.fail("path", text, f"stands for more than {MOST_NAMES} domains")
            paths = [(*path, name) for path in paths for name in names]
        return paths

    def _named(self, row: TomlTable, paths: list[tuple[str, ...]]) -> list[tuple[tuple[str, ...], str]]:
        if ("count" in row.row) == ("names" in row.row):
            row.fail("count", row.row.get("count"), "give either count or names")
        if "count" in row.row:
            count = row.count("count", most=MOST_NAMES)
            if count * len(paths) > MOST_NAMES:
                row.fail("count", count, f"in {len(paths)} domains: over {MOST_NAMES} machines")
            return [(path, machine_name(path, number)) for path in paths for number in range(count)]
        if len(paths) > 1:
            row.fail("names", row.row["names"], "a path that is a pattern needs count instead")
        patterns = row.row["names"] if isinstance(row.row["names"], list) else [row.row["names"]]
        return [(paths[0], name) for pattern in patterns for name in self._expanded(row, "names", pattern)]

    def _exceptions(self, links: dict[tuple[str, ...], Link], depth: int) -> None:
        """Links of single domains that differ from their tier's."""
        for row in self._rows("domains") if "domains" in self._tables else []:
            text = row.text("path", blank=True)
            path = tuple(text.split("/"))
            row.only(("path", *CAPACITIES, *LINK_KEYS[1:], *_keys_of(depth - 1 - len(path), depth)))
            if path not in links:
                row.fail("path", text, "no such domain")
            links[path] = self._link(row, links[path])

    def _link(self, row: TomlTable, default: Link) -> Link:
        values: dict[str, Any] = {key: getattr(default, key) for key in ALL_KEYS}
        stated = [key for key in CAPACITIES if key in row.row]
        if len(stated) > 1:
            row.fail(stated[1], row.row[stated[1]], f"{stated[0]} says it already; give one of them")
        for key in stated:
            values["capacity_gbps"] = self._number(row, key) * CAPACITIES[key]
            self._doubt(row, key)
        for key in row.row:
            if key in CAPACITIES or key not in values:
                continue
            if key in CHOICES:
                values[key] = row.choice(key, CHOICES[key])
            elif key == "torus":
                values[key] = self._shape(row)
            elif key in COUNTS:
                values[key] = float(row.count(key, most=MOST_CABLES))
            else:
                values[key] = self._number(row, key)
        return Link(**values)

    def _shape(self, row: TomlTable) -> str:
        """A slice's sides, or that blocks are joined."""
        text = row.text("torus", blank=True)
        try:
            if text != JOINED:
                read_shape(text)
        except ValueError as error:
            row.fail("torus", text, str(error))
        return text

    def _doubt(self, row: TomlTable, key: str) -> None:
        """A warning where the value looks like one of the other unit."""
        value, line = row.row[key], self._file.line(*row.keys, key)
        if key == "capacity_gbps" and value in NIC_GBIT_S and row.keys == ("tiers", 0):
            warn_input(
                self._path, line, key,
                f"{value:g} is read as gigabytes per second, {8 * value:g} Gb/s. For a card of {value:g} Gb/s, say "
                f"capacity_gbit_s = {value:g}; if it is meant so, capacity_gb_s = {value:g}",
            )  # fmt: skip
        elif key == "capacity_gbit_s" and 0 < value < 1:
            warn_input(self._path, line, key, f"{value:g} Gb/s is {value / 8:g} GB/s; is capacity_gb_s meant?")

    def _number(self, row: TomlTable, key: str) -> float:
        value = row.number(key, or_zero=True)
        if (key == "efficiency" and not 0 < value <= 1) or (key == "background" and value >= 1):
            row.fail(key, value, "must be a share: efficiency above 0, background below 1")
        return value

    def _rows(self, table: str) -> list[TomlTable]:
        rows = self._tables.get(table)
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise at(self._path, self._file.line(table), table, f"give one or more [[{table}]] tables")
        return [TomlTable(self._file, (table, place), row, f"{table}[{place}].") for place, row in enumerate(rows)]

    def _expanded(self, row: TomlTable, key: str, value: object) -> list[str]:
        try:
            if not isinstance(value, str):
                raise ValueError("must be text")
            return expand(value)
        except ValueError as error:
            row.fail(key, value, str(error))


def _keys_of(tier: int, depth: int) -> tuple[str, ...]:
    """What a tier's links may state beside capacity and load. A fabric joins GPUs of a machine or a rack."""
    return (*(FABRIC_KEYS if tier < min(2, depth - 1) else ()), *(UPLINK_KEYS if tier > 0 else ()))


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e12
