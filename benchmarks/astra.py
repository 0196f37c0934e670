"""ASTRA-sim's single collectives on multi-tier topologies, as clusters with ideal links."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from dally import Cluster, collective_time
from dally.cluster.links import Links, connect
from dally.cluster.topology import grid

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "reference"
REFERENCE = FOLDER / "astra_allreduce_isolated.csv"
EXCHANGES = FOLDER / "astra_alltoall_sample.csv"  # packet by packet, on shared links
# Per dimension ASTRA runs its own algorithm; over several dimensions that is our hierarchical one.
ALGORITHMS = {
    "ring": "hierarchical", "halvingDoubling": "halving-doubling", "doubleBinaryTree": "tree",
    "direct1": "hierarchical", "direct": "auto",
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One simulated collective."""

    collective: str
    algorithm: str
    chunks: int
    tiers: int
    cluster: Cluster
    placement: dict[int, int]
    nbytes: float
    time_s: float

    def error(self) -> float:
        """|predicted - simulated| / simulated."""
        found = collective_time(
            self.cluster, self.collective, self.nbytes, self.placement, ALGORITHMS[self.algorithm], self.chunks
        )
        return abs(found / self.time_s - 1.0)


def read_runs(path: Path = REFERENCE) -> list[Run]:
    with path.open(newline="") as file:
        return [_run(record) for record in csv.DictReader(file)]


def read_exchanges(path: Path = EXCHANGES) -> list[Run]:
    """The all-to-alls: bandwidths are those of links, as ours."""
    with path.open(newline="") as file:
        return [_exchange(record) for record in csv.DictReader(file)]


def _exchange(record: dict[str, str]) -> Run:
    gpus, machines, racks = (int(text) for text in record["npus_per_dim"].split("x"))
    gbps = [float(text) for text in record["bw_GBps_per_dim"].split("/")]
    latency_s = [float(text) * 1e-9 for text in record["latency_ns_per_hop_per_dim"].split("/")]
    return _on_grid(record, [gpus, machines, racks], gbps, latency_s, "nvswitch", 3)


def _run(record: dict[str, str]) -> Run:
    counts = [int(text) for text in record["npus_per_dim"].split("x")]
    gbps = [float(text) for text in record["bw_GBps_per_dim"].split("/")]
    latency_s = [float(text) * 1e-9 for text in record["latency_ns_per_hop_per_dim"].split("/")]
    tiers = len(counts)
    where = record["topology"].split(",")[0]
    if "scattered" in where or " on " in where or "x1" in where:  # one GPU per machine
        counts, gbps, latency_s = [1, *counts], [gbps[0], *gbps], [latency_s[0], *latency_s]
    while len(counts) < 3:
        counts, gbps, latency_s = [*counts, 1], [*gbps, gbps[-1]], [*latency_s, latency_s[-1]]
    gpus, machines, _ = counts
    gbps = [gbps[0], gbps[1] * gpus, gbps[2] * gpus * machines]  # theirs are per GPU, ours per machine and per rack
    fabric = "nvlink-mesh" if record["dim_types"] == "Ring" else "nvswitch"
    return _on_grid(record, counts, gbps, latency_s, fabric, tiers)


def _on_grid(
    record: dict[str, str], counts: list[int], gbps: list[float], latency_s: list[float], fabric: str, tiers: int
) -> Run:
    """The run on GPUs x machines x racks; GB/s per GPU, machine and rack."""
    gpus, machines, racks = counts
    links = Links(
        "astra",
        fabric=fabric,
        fabric_gbps=gbps[0],
        fabric_latency_s=latency_s[0],
        nic_gbps=gbps[1],
        nic_latency_s=latency_s[1],
        uplink_gbps=gbps[2],
        uplink_latency_s=latency_s[2],
        ideal=True,
    )
    topology = grid(racks, machines, gpus)
    return Run(
        record["collective"].replace("_", "-"),
        record["algorithm"].split("/")[0],
        int(record["chunks(splits)"]),
        tiers,
        Cluster(topology, connect(topology, links)),
        dict.fromkeys(range(racks * machines), gpus),
        float(record["bytes"]),
        float(record["time_us"]) / 1e6,
    )
