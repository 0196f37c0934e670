"""A measured fabric: its topology, its jobs' periodic traffic, and what stays below its leaves.

`python -m benchmarks.measured_fabric` reads `shared/fabric` (Zhejiang Lab: one hour of every leaf port of 253
servers with 2,024 A100). It draws the topology, predicts the traffic of the gangs whose model can be told, and the
shares of traffic that stay below each leaf.

Gangs are inferred from equal traffic, so what the hour does not say is said: models of other gangs, the order of
ranks, the map of leaves to spines.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from librt.vecs import vec
from mypy_extensions import i64

from dally.benchmark.tables_page import shared_folder
from dally.cluster.formats.toml_file import parse_toml
from dally.cluster.links import Network, connect
from dally.cluster.outline import draw
from dally.cluster.presets import find_preset
from dally.cluster.topology import Topology
from dally.perf.gang import gang_on
from dally.perf.llm.accelerators import gpu_types
from dally.perf.llm.layout import Layout
from dally.perf.llm.placed import Groups
from dally.perf.llm.step import LayoutModel
from dally.perf.llm.transformer import Transformer

SPAN_S: Final = 3340.0  # of the hour that is covered without gaps
RAILS: Final = 4  # NICs of a server, each on a leaf of its own
GPUS: Final = 8  # of a server
SURE: Final = 0.7  # autocorrelation from which a period is taken for the iteration's
LLAMA_7B: Final = Transformer(layers=32, hidden=4096, heads=32, kv_heads=32, ffn=11008, vocab=32000)
ACCUMULATION: Final = 32  # of the 32-GPU job whose log is there
SEQUENCES: Final = (2048, 4096)  # Llama 2's own context, and half of it
GIGA: Final = 1e9


class FabricPort(NamedTuple):
    """A leaf's port, and GB through it in the hour, seen from the leaf."""

    leaf: int
    server: int  # 0: an uplink, or a server that is not named
    uplink: bool
    gbit_s: float
    gb_in: float
    gb_out: float


class InferredGang(NamedTuple):
    """Servers of equal traffic."""

    name: str
    servers: tuple[int, ...]
    nics: float
    gb_per_nic: float
    period_s: float
    autocorrelation: float
    leaves: tuple[int, ...]

    def step_gb(self) -> float:
        """GB of one NIC and direction in a period."""
        return self.gb_per_nic / SPAN_S * self.period_s


def read_ports(folder: Path) -> list[FabricPort]:
    """All leaf ports."""
    with (folder / "zhejiang_topology.csv").open(encoding="utf-8", newline="") as file:
        return [
            FabricPort(
                int(row["leaf"]), int(row["server"] or 0), row["kind"] == "uplink", float(row["gbps"]),
                float(row["gb_in"]), float(row["gb_out"]),
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def read_gangs(folder: Path) -> list[InferredGang]:
    """The inferred gangs."""
    with (folder / "zhejiang_inferred_jobs.csv").open(encoding="utf-8", newline="") as file:
        return [
            InferredGang(
                row["group"], tuple(map(int, row["servers"].split())), float(row["active_nics_per_server"]),
                float(row["gb_per_nic"]), float(row["period_s"] or 0), float(row["period_autocorr"] or 0),
                tuple(map(int, row["leaves"].split())),
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def read_step_s(folder: Path) -> float:
    """The median step of the job whose log is there."""
    with gzip.open(folder / "zhejiang_llama2_steps.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return median(float(row["step_s"]) for row in csv.DictReader(file) if row["step_s"])


# Topology.


def server_units(ports: Sequence[FabricPort]) -> dict[int, int]:
    """The unit of each server: servers on the same leaves, numbered by their first leaf."""
    leaves: dict[int, set[int]] = {}
    for port in ports:
        if port.server:
            leaves.setdefault(port.server, set()).add(port.leaf)
    return {server: (min(mine) - 1) // RAILS for server, mine in sorted(leaves.items())}


def topology_text(ports: Sequence[FabricPort]) -> str:
    """A topology file: servers on rails, units of leaves, and their uplinks."""
    units = server_units(ports)
    lines = [
        "[[tiers]]", 'name = "server"', f"capacity_gbit_s = {RAILS * 200}", "[[tiers]]", 'name = "unit"',
        f"rails = {RAILS}", "[[tiers]]", 'name = "spines"',
    ]  # fmt: skip
    for unit in sorted(set(units.values())):
        names = ", ".join(f'"s{server}"' for server, mine in units.items() if mine == unit)
        lines += ["[[machines]]", f'path = "unit{unit + 1}"', f"names = [{names}]", f"gpus = {GPUS}"]
    for unit in sorted(set(units.values())):
        mine = [port for port in ports if port.uplink and (port.leaf - 1) // RAILS == unit]
        gbit_s = sum(port.gbit_s for port in mine)
        lines += [
            "[[domains]]",
            f'path = "unit{unit + 1}"',
            f"capacity_gbit_s = {gbit_s:g}",
            f"uplinks = {len(mine)}",
        ]
    return "\n".join(lines) + "\n"


def fabric_network(topology: Topology) -> Network:
    """The fabric with A100 machines; its adaptive routing spreads packets evenly, as its uplinks show."""
    return connect(topology, find_preset("a100-nvswitch-8x200g")._replace(nic_count=RAILS))


# Periods and bytes of steps.


def llama_step(network: Network, gang: InferredGang, seq: int) -> dict[str, float]:
    """Predicted seconds of a step of Llama-2-7B on the gang's servers, and GB of one NIC in it."""
    numbers = network.topology.machine_numbers()
    machines = sorted(numbers[f"s{server}"] for server in gang.servers)
    placement = gang_on(network, vec[i64](machines), vec[i64]([GPUS] * len(machines)))
    gpus = GPUS * len(machines)
    layout = Layout(gpus, seq, gpus * ACCUMULATION, zero=1, recompute="full", eager=True)
    model = LayoutModel(LLAMA_7B, gpu_types()["A100"].at("bf16"), "bf16")
    placed = Groups(model, layout).placed(network, placement)
    ring_bytes = model.traffic(layout, placed.ranks.rates)["data"]
    return {"period_s": placed.parts.total_s, "step_gb": ring_bytes / RAILS / GIGA}


def periodic_rows(network: Network, gangs: Sequence[InferredGang], log_step_s: float) -> list[dict[str, Any]]:
    """Gangs with a sure period: what was measured, and what the model predicts where it can be told."""
    rows: list[dict[str, Any]] = []
    for gang in gangs:
        if gang.autocorrelation < SURE or gang.period_s <= 0.0:
            continue
        row: dict[str, Any] = {
            "gang": gang.name, "servers": len(gang.servers), "nics": gang.nics,
            "period_s": gang.period_s, "step_gb": gang.step_gb(),
        }  # fmt: skip
        if len(gang.servers) * GPUS == 32 and gang.nics == RAILS:
            row |= nearest(network, gang, gang.period_s)
        else:
            row["unknown"] = "its model: bytes and period fit many"
        rows.append(row)
    logged = next(gang for gang in gangs if len(gang.servers) * GPUS == 32 and gang.nics == RAILS)
    rows.append(
        {"gang": "log", "servers": 4, "nics": RAILS, "period_s": log_step_s, **nearest(network, logged, log_step_s)}
    )
    return rows


def nearest(network: Network, gang: InferredGang, period_s: float) -> dict[str, Any]:
    """The prediction at the context length that comes nearest to the period."""
    options = {seq: llama_step(network, gang, seq) for seq in SEQUENCES}
    seq = min(options, key=lambda each: abs(options[each]["period_s"] / period_s - 1.0))
    best = options[seq]
    return {
        "seq": seq,
        "predicted_period_s": best["period_s"],
        "predicted_step_gb": best["step_gb"],
        "period_error": best["period_s"] / period_s - 1.0,
    }


# Shares that stay below a leaf.


class LeafTraffic(NamedTuple):
    """GB that a leaf's servers send, and GB that leave it upwards."""

    sent_gb: float
    up_gb: float

    def stays(self) -> float:
        """The share that stays below the leaf."""
        return 1.0 - self.up_gb / self.sent_gb


def leaf_traffic(ports: Sequence[FabricPort]) -> dict[int, LeafTraffic]:
    """What was measured, by leaf."""
    leaves = sorted({port.leaf for port in ports})
    return {
        leaf: LeafTraffic(
            sum(port.gb_in for port in ports if port.leaf == leaf and not port.uplink),
            sum(port.gb_out for port in ports if port.leaf == leaf and port.uplink),
        )
        for leaf in leaves
    }


def leaving(
    gangs: Sequence[InferredGang], units: Mapping[int, int], unit: int, leaf: int
) -> list[tuple[int, float]]:
    """Of each gang with servers in the unit, on that leaf, and elsewhere: its servers there, and GB of a NIC."""
    rows = []
    for gang in gangs:
        inside = sum(units[server] == unit for server in gang.servers)
        if inside and inside < len(gang.servers) and leaf in gang.leaves:
            rows.append((inside, gang.gb_per_nic))
    return rows


def alone_gb(gangs: Sequence[InferredGang], units: Mapping[int, int], unit: int, leaf: int) -> float:
    """GB of gangs of one server on that leaf: whoever they send to is not on it."""
    return sum(
        gang.gb_per_nic
        for gang in gangs
        if len(gang.servers) == 1 and units[gang.servers[0]] == unit and leaf in gang.leaves
    )


def crossings(rows: Sequence[tuple[int, float]], target_gb: float) -> list[int]:
    """How many of each gang's servers send to another unit, so that the sum comes nearest to what was measured.

    All whole numbers from 1 to its servers are tried, the largest senders first; each of the others is set to what
    is left.
    """
    best: list[int] = []
    least = float("inf")

    def extend(chosen: list[int], left_gb: float) -> None:
        nonlocal best, least
        if len(chosen) == len(rows):
            if abs(left_gb) < least:
                best, least = chosen, abs(left_gb)
            return
        servers, nbytes = rows[len(chosen)]
        for count in range(servers + 1):
            extend([*chosen, count], left_gb - count * nbytes)

    extend([], target_gb)
    return best


def share_rows(ports: Sequence[FabricPort], gangs: Sequence[InferredGang]) -> list[dict[str, Any]]:
    """By leaf: the measured share, that of rings which visit each unit once, that of ranks in random order, and

    the one that follows from the crossings which the unit's other leaves show.
    """
    units = server_units(ports)
    measured = leaf_traffic(ports)
    rows: list[dict[str, Any]] = []
    for leaf, traffic in measured.items():
        unit = (leaf - 1) // RAILS
        here = leaving(gangs, units, unit, leaf)
        own_gb = alone_gb(gangs, units, unit, leaf)
        sizes = {gang.gb_per_nic: len(gang.servers) for gang in gangs}
        random_gb = sum(count * nbytes * (sizes[nbytes] - count) / (sizes[nbytes] - 1) for count, nbytes in here)
        rows.append(
            {
                "leaf": leaf,
                "stays": traffic.stays(),
                "once": 1.0 - (own_gb + sum(nbytes for _, nbytes in here)) / traffic.sent_gb,
                "random": 1.0 - (own_gb + random_gb) / traffic.sent_gb,
                "inferred": 1.0 - (own_gb + inferred_gb(gangs, units, measured, leaf)) / traffic.sent_gb,
            }
        )
    return rows


def inferred_gb(
    gangs: Sequence[InferredGang], units: Mapping[int, int], measured: Mapping[int, LeafTraffic], leaf: int
) -> float:
    """GB that leave the leaf if as many servers send to other units as on the unit's other leaf of its kind.

    Leaves of a unit whose gangs use all their NICs differ in nothing else: one is fitted, another predicted.
    """
    unit = (leaf - 1) // RAILS
    here = sorted(leaving(gangs, units, unit, leaf), key=lambda row: -row[1])
    others = [other for other in measured if other != leaf and (other - 1) // RAILS == unit]
    alike = [
        other for other in others if sorted(leaving(gangs, units, unit, other), key=lambda row: -row[1]) == here
    ]
    other = (alike or others)[0]
    left = measured[other].up_gb - alone_gb(gangs, units, unit, other)
    known = sorted(leaving(gangs, units, unit, other), key=lambda row: -row[1])
    counts = dict(zip([nbytes for _, nbytes in known], crossings(known, left), strict=True))
    return sum(counts.get(nbytes, 1) * nbytes for _, nbytes in here)


def report(folder: Path) -> dict[str, Any]:
    """Everything, as plain values."""
    ports, gangs = read_ports(folder), read_gangs(folder)
    topology = parse_toml(folder / "zhejiang.toml", topology_text(ports))
    network = fabric_network(topology)
    leaves = leaf_traffic(ports)
    total = LeafTraffic(sum(each.sent_gb for each in leaves.values()), sum(each.up_gb for each in leaves.values()))
    return {
        "topology": draw(topology),
        "periodic": periodic_rows(network, gangs, read_step_s(folder)),
        "shares": share_rows(ports, gangs),
        "stays": total.stays(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measured_fabric", description=__doc__)
    parser.add_argument("--folder", type=Path, default=shared_folder() / "fabric")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    result = report(options.folder)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(result["topology"])
    print(f"\n{'gang':<6}{'servers':>8}{'period, s':>11}{'predicted':>11}{'GB a NIC':>10}{'predicted':>11}")
    for row in result["periodic"]:
        numbers = [row.get(key) for key in ("period_s", "predicted_period_s", "step_gb", "predicted_step_gb")]
        texts = ["" if value is None else f"{value:.1f}" for value in numbers]
        what = row.get("unknown") or f"Llama-2-7B, {row['seq']} tokens"
        print(
            f"{row['gang']:<6}{row['servers']:>8}{texts[0]:>11}{texts[1]:>11}{texts[2]:>10}{texts[3]:>11}  {what}"
        )
    print(f"\n{'leaf':<6}{'stays':>8}{'once':>8}{'random':>8}{'inferred':>10}")
    for row in result["shares"]:
        print(
            f"{row['leaf']:<6}{row['stays']:>8.1%}{row['once']:>8.1%}{row['random']:>8.1%}{row['inferred']:>10.1%}"
        )
    print(f"all   {result['stays']:>8.1%}")


if __name__ == "__main__":
    main()
