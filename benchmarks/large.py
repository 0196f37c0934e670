"""What the flagship costs: CPU of two cells, of single passes on a large cluster, and of a million jobs.

usage: python -m benchmarks.large [--parts cells,pass,million] [--policy dally] [--network slow] [--racks 125]
                                  [--waiting 10000] [--passes 2000] [--million 1000000]

Compiled only (`make install` first, and no PYTHONPATH to src/). Racks hold 100 machines of 8 GPUs: 125 of them are
100,000 GPUs. Passes are timed one by one while so many jobs wait (standing_queue.py says who runs, waits and
comes): CPU time of the process for all that one event brings about; no garbage is collected, as in every run. A
million jobs are generated (`venus-like` at 90 % load: mostly there is room, in busy hours a queue forms).
Exits with 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import Final

from benchmarks.standing_queue import RAMP_S, write_trace
from dally import is_compiled
from dally.benchmark.cells import Cell, prepare
from dally.benchmark.tables_page import shared_folder
from dally.cluster.spec import read_topology
from dally.engine.simulate import Simulation
from dally.metrics.summary import quantile
from dally.runs.assemble import assemble
from dally.runs.execute import execute
from dally.runs.scenario import Scenario
from dally.traces.generate import WorkloadRequest, find_recipe, generate, write_workload

CELL_LIMITS_S: Final = {"venus80": 3.0, "philly200": 10.0}
PASS_LIMIT_MS: Final = 20.0
MILLION_LIMIT_S: Final = 120.0
PARTS: Final = ("cells", "pass", "million")


def verdict(name: str, value: float, limit: float, unit: str) -> bool:
    """Print a figure beside its limit; whether it keeps it."""
    fine = value <= limit
    print(f"{name:<60} {value:10.2f} {unit:<3} (at most {limit:g}) {'fine' if fine else 'MISSED'}", flush=True)
    return fine


def filled(cluster: str, waiting: int, passes: int, policy: str, network: str) -> Simulation:
    """The cluster when its queue has formed: every GPU held, about so many jobs waiting."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "standing.csv"
        write_trace(trace, read_topology(cluster).total_gpus(), waiting, passes)
        simulation, _ = assemble(Scenario(str(trace), cluster, policy, network=network))
    simulation.go_on(RAMP_S)
    return simulation


def pass_times_ms(simulation: Simulation, passes: int) -> list[float]:
    """CPU of each of the next passes, lowest first."""
    found = []
    for _ in range(passes):
        began_s = process_time()
        simulation.step()
        found.append(1000.0 * (process_time() - began_s))
    return sorted(found)


def passes_part(given: argparse.Namespace, cluster: str) -> bool:
    """Passes while many wait."""
    gc.disable()  # as in every run
    began_s = process_time()
    simulation = filled(cluster, given.waiting, given.passes, given.policy, given.network)
    gpus = simulation.state.cluster.topology.total_gpus()
    running = len(simulation.state.cluster.running)
    print(
        f"{gpus - simulation.state.cluster.free_gpus:,} of {gpus:,} GPUs held by {running:,} jobs "
        f"after {simulation.cycles:,} passes and {process_time() - began_s:.1f} s CPU; "
        f"{len(simulation.state.queue):,} wait"
    )
    times_ms = pass_times_ms(simulation, given.passes)
    print(
        f"{len(times_ms):,} passes: median {quantile(times_ms, 0.5):.2f} ms, most {times_ms[-1]:.2f} ms; "
        f"{len(simulation.state.queue):,} wait at the end"
    )
    gc.enable()
    return verdict(f"a pass with {given.waiting:,} waiting, p99", quantile(times_ms, 0.99), PASS_LIMIT_MS, "ms")


def million_part(given: argparse.Namespace, cluster: str) -> bool:
    """A whole run of a generated trace, in a process of its own."""
    gpus = int(read_topology(cluster).total_gpus())
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "million.csv"
        write_workload(
            trace, generate(find_recipe("venus-like"), WorkloadRequest(1, given.million, None, 0.9, gpus))
        )
        network = ["--network", given.network] if given.network else []
        command = ["simulate", "--trace", str(trace), "--cluster", cluster, "--policy", given.policy, "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "dally", *command, *network, "--out", f"{folder}/run", "--no-report"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    summary = json.loads(done.stdout)
    print(
        f"{summary['jobs']:,} jobs, {summary['finished']:,} finished, peak memory {summary['peak_rss_mb']:,.0f} MB"
    )
    return verdict(f"{given.million:,} jobs on {gpus:,} GPUs", summary["cpu_s"], MILLION_LIMIT_S, "s")


def cells_part(given: argparse.Namespace, _: str) -> bool:
    """Cells of the benchmark, on clusters of their own."""
    shared, fine = shared_folder(), True
    if not (shared / "traces").exists():
        print(f"{shared} is not here: no cells")
        return fine
    with tempfile.TemporaryDirectory() as folder:
        for name, limit_s in CELL_LIMITS_S.items():
            cell = Cell(name, given.network or "slow", 1)
            made = prepare(name, 1, shared, Path(folder))
            summary = execute(cell.scenario(made, given.policy, {})).summary
            fine &= verdict(f"{name}, {cell.network}, seed 1", summary["cpu_s"], limit_s, "s")
    return fine


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--policy", default="dally")
    parser.add_argument("--network", default="slow", help="'' for none")
    parser.add_argument("--racks", type=int, default=125, help="of 100 machines of 8 GPUs")
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--passes", type=int, default=2_000)
    parser.add_argument("--million", type=int, default=1_000_000, help="jobs")
    return parser.parse_args()


def main() -> None:
    """Measure the parts and exit with 1 if one missed its limit."""
    given = arguments()
    if not is_compiled():
        sys.exit("not compiled; run `make install` first and unset PYTHONPATH")
    cluster = f"{given.racks}x100x8"
    parts = {"cells": cells_part, "pass": passes_part, "million": million_part}
    kept = [part(given, cluster) for name, part in parts.items() if name in given.parts.split(",")]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
