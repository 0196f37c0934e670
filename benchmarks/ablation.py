"""What each part of `dally` is worth: mean JCT with one part off at a time, a row each, as a table in Markdown.

usage: python -m benchmarks.ablation [--cells WORKLOAD:NETWORK,…] [--seeds N,…] [--parts NAME,…]

One core. A cell takes from a second (batch32) to half a minute (philly200), compiled, per row and seed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import mean

from dally.benchmark.cells import Cell, prepare
from dally.runs.execute import execute

SHARED = Path(__file__).resolve().parents[2] / "shared"
CELLS = "batch32:slow,batch32:congested,lingjun:slow,lingjun:congested,venus80:congested,itp72:congested"
PARTS: dict[str, dict[str, str]] = {
    "full": {},
    "no migration": {"migration": "off"},
    "no compaction": {"compaction": "off", "mixing": "off"},
    "no mixing": {"mixing": "off"},
    "no moves": {"migration": "off", "compaction": "off", "mixing": "off"},
    "no scatter": {"scatter": "off"},
    "no inflicted": {"inflicted": "off"},
    "no stickiness": {"stick": "1"},
    "no hold": {"hold": "0", "least_hold_s": "0"},
    "order las": {"order": "las"},
    "no users": {"by_user": "off"},
    "no forgetting": {"forget": "0"},
    "no patience": {"patience_s": "inf"},
    "no preemption": {"preemption": "off", "mixing": "off"},
    "objective makespan": {"objective": "makespan"},
}


def jct_h(workload: str, network: str, seeds: list[int], settings: dict[str, str], folder: Path) -> float:
    """Mean JCT in hours, over seeds."""
    found: list[float] = []
    for seed in seeds:
        prepared = prepare(workload, seed, SHARED, folder)
        summary = execute(Cell(workload, network, seed).scenario(prepared, "dally", settings)).summary
        found.append(summary["jct_mean_s"] / 3600.0)
    return mean(found)


def table(cells: list[tuple[str, str]], seeds: list[int], parts: list[str]) -> None:
    """Print the table row by row, as the runs are done."""
    print(f"| part | {' | '.join(f'{workload} {network}' for workload, network in cells)} | mean |")
    print("|---" * (len(cells) + 2) + "|")
    full: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            row = [jct_h(*cell, seeds, PARTS[part], Path(folder)) for cell in cells]
            full = full or row
            changes = [value / usual - 1.0 for value, usual in zip(row, full, strict=True)]
            texts = [f"{value:.2f} ({change:+.0%})" for value, change in zip(row, changes, strict=True)]
            print(f"| {part} | {' | '.join(texts)} | {mean(changes):+.1%} |", flush=True)


def main() -> None:
    """Read the command line, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", default=CELLS)
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--parts", default=",".join(PARTS), help="the first one is what the others stand against")
    given = parser.parse_args()
    cells = [(workload, network) for workload, network in (text.split(":") for text in given.cells.split(","))]
    table(cells, [int(seed) for seed in given.seeds.split(",")], given.parts.split(","))


if __name__ == "__main__":
    main()
