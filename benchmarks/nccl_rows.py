"""The measured NCCL runs: which of them are healthy, and which fabric each ran on."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "reference" / "nccl_measured.csv"
SMALLEST_BYTES = 1 << 20
FEWEST_ROWS = 3


@dataclass(frozen=True)
class Row:
    """One measurement, and the preset (fabric) that should predict it."""

    preset: str
    source: str
    nodes: int
    gpus: int
    nic_count: int
    nic_gbps: float
    algorithm: str
    collective: str
    nbytes: float
    time_s: float


# The GPU, words of intra_node, inter_node or algorithm → preset. The first that matches counts.
FABRICS = (
    ("MI300X", "", "mi300x-mesh"),
    ("RTX 6000D", "", "rtx6000d-pcie-8x400g"),
    ("DGX-2", "", "v100-nvswitch-8x100g"),
    ("V100", "EFA", "v100-nvlink-100g-efa"),
    ("V100", "", "v100-nvlink-100g"),
    ("A100", "4x200Gb,SHARP", "a100-nvswitch-4x200g-sharp"),
    ("A100", "SHARP", "a100-nvswitch-8x200g-sharp"),
    ("A100", "EFA", "a100-nvswitch-4x100g-efa"),
    ("A100 PCIe, 3 GPUs", "", "pcie-25g"),
    ("1 GPU per node, VF RoCE", "", "pcie-25g"),
    ("PCIe", "", "pcie-bridge"),
    ("A100", "", "a100-nvswitch-8x200g"),
    ("H100", "SHARP", "h100-nvswitch-8x400g-sharp"),
    ("H100", "NVLS,EFA", "h100-nvswitch-32x100g-efa"),
    ("H100", "EFA", "h100-nvswitch-32x100g-efa-no-nvls"),
    ("H100", "TCPXO", "h100-nvswitch-8x200g-tcpxo"),
    ("H100", "", "h100-nvswitch-8x400g"),
)


def read_rows(path: Path = REFERENCE) -> tuple[list[Row], dict[str, int]]:
    """The healthy rows of at least 1 MiB, and how many were left out for which reason."""
    with path.open(newline="") as file:
        records = [record for record in csv.DictReader(file) if float(record["bytes"]) >= SMALLEST_BYTES]
    rows: list[Row] = []
    left_out: dict[str, int] = {}
    for record in records:
        reason = _unhealthy(record)
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
        else:
            rows.append(_row(record))
    counts = {preset: sum(row.preset == preset for row in rows) for preset in {row.preset for row in rows}}
    few = [row for row in rows if counts[row.preset] < FEWEST_ROWS]
    if few:
        left_out[f"fabrics with fewer than {FEWEST_ROWS} rows: a fit would be per row"] = len(few)
    return [row for row in rows if counts[row.preset] >= FEWEST_ROWS], left_out


def _unhealthy(record: dict[str, str]) -> str:
    if "degraded" in record["note"]:
        return "note: degraded or misconfigured"
    if "instance type not stated" in record["note"]:
        return "note: hardware not stated, only inferred"
    if "only peak busbw" in record["note"]:
        return "note: only the peak of a run quoted, no time"
    if "P2P disabled" in record["gpu"]:
        return "peer-to-peer turned off (through host memory)"
    if "NVLink bridge" in record["intra_node"]:
        return "NVLink bridges between PCIe cards: three different bridges, one size each"
    return ""


def _row(record: dict[str, str]) -> Row:
    nodes, gpus = int(record["nodes"]), int(record["gpus_per_node"])
    nbytes = float(record["bytes"])
    count, gbps = _nics(record["inter_node"])
    words = record["intra_node"] + record["inter_node"] + record["algorithm"]
    preset = next(
        name
        for gpu, wanted, name in FABRICS
        if gpu in record["gpu"] and all(word in words for word in wanted.split(","))
    )
    if record["time_us"]:
        time_s = float(record["time_us"]) / 1e6
    else:
        ranks = nodes * gpus
        time_s = 2 * (ranks - 1) / ranks * nbytes / (float(record["busbw_GBps"]) * 1e9)
    collective = {"all_reduce": "all-reduce", "alltoall": "all-to-all"}[record["collective"]]
    return Row(preset, record["source"], nodes, gpus, count, gbps, _algorithm(record), collective, nbytes, time_s)


def _nics(text: str) -> tuple[int, float]:
    """NICs per machine and GB/s of each; (0, 0): not stated, the preset's."""
    match = re.search(r"(\d+)\s*x\s*(\d+)\s*G", text)
    return (int(match.group(1)), int(match.group(2)) / 8) if match else (0, 0.0)


def _algorithm(record: dict[str, str]) -> str:
    """The algorithm a row names; in-network reduction puts a tree's load on the links."""
    text = record["algorithm"]
    for word, name in (("SHARP", "tree"), ("Ring (", "ring"), ("NVLSTree/Ring", "auto"), ("NVLS", "nvls")):
        if word in text:
            return name
    return "tree" if text.startswith("default (Tree") else "auto"
