"""How unevenly users and virtual clusters share a cluster: what `traces/generate/campaigns.py` has, measured.

usage: python -m benchmarks.user_load [--shared DIR]

Prints, for public traces, which percent of GPU-hours the busiest users hold, and the same of generated workloads.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dally.benchmark.tables_page import shared_folder
from dally.traces import read_history
from dally.traces.generate import WorkloadRequest, find_recipe, generate
from dally.traces.generate.campaigns import PERCENT

TRACES: Final = {  # the user of Philly's rows is the virtual cluster
    "Helios Venus, users": "helios_venus_window20d.csv.gz",
    "Philly, virtual clusters": "philly.csv.gz",
}
SEEDS: Final = (1, 2, 3)


def curve(loads: Iterable[tuple[str, float]]) -> tuple[int, list[float]]:
    """How many there are, and the percent of all load that the busiest PERCENT of them hold; between, straight."""
    total: dict[str, float] = {}
    for owner, load in loads:
        if owner:
            total[owner] = total.get(owner, 0.0) + load
    ordered = sorted(total.values(), reverse=True)
    whole = sum(ordered)
    held = []
    for percent in PERCENT:
        place = percent / 100 * len(ordered)
        count = int(place)
        part = sum(ordered[:count]) + (place - count) * (ordered[count] if count < len(ordered) else 0.0)
        held.append(round(100 * part / whole, 1))
    return len(ordered), held


def line(name: str, found: tuple[int, list[float]]) -> None:
    """Print one row."""
    print(f"{name:34} {found[0]:5} " + " ".join(f"{held:6.1f}" for held in found[1]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path)
    folder = (parser.parse_args().shared or shared_folder()) / "traces"
    print(f"{'percent of GPU-hours of the busiest':34} owners" + " ".join(f"{percent:4} %" for percent in PERCENT))
    for name, file in TRACES.items():
        rows = read_history(folder / file).rows
        line(name, curve((row.spec.user, row.spec.gpus * row.stated) for row in rows))
    for seed in SEEDS:
        jobs = generate(find_recipe("venus-like"), WorkloadRequest(seed, users=95, teams=15)).jobs
        line(f"venus-like, seed {seed}, users", curve((job.user, job.gpus * job.duration_s) for job in jobs))
        line(f"venus-like, seed {seed}, teams", curve((job.queue, job.gpus * job.duration_s) for job in jobs))


if __name__ == "__main__":
    main()
