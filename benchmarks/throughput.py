"""How much faster `dally compare` is on two cores than on one.

usage: python -m benchmarks.throughput

The same comparison with --jobs 1 and --jobs 2 in turn, a few times; throughput is runs per second. Where others
use the machine meanwhile, seconds on the wall say little: then it is what two free cores would give, from the CPU
that both ways took and from that of the part that does not spread: the same command when all its runs are kept.
Exits with 1 below 1.8 times.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from dally.cli.runs.compare import RECIPE, WORKLOAD
from dally.traces.generate import find_recipe, generate, write_workload

ROUNDS = 2
LEAST = 1.8
POLICIES = "fifo-backfill,las,srsf,dally"
SEEDS = ",".join(str(seed) for seed in range(1, 26))
RUNS = 4 * 25
QUIET = 0.05  # share of the cores that others may use before the wall's clock is not believed
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Measured:
    wall_s: float
    cpu_s: float  # of the command and its workers
    others: float  # share of the cores that went to other processes


def busy_s() -> float:
    """CPU seconds that the machine has spent on anything since it was started."""
    fields = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / TICKS_PER_S  # without idle and waiting for disks


def own_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def compare(trace: Path, jobs: int, out: Path) -> Measured:
    """One comparison."""
    command = ["compare", "--trace", str(trace), "--cluster", "3x6x8", "--network", "slow", "--policies", POLICIES]
    began_s, busy_began_s, own_began_s = monotonic(), busy_s(), own_s()
    subprocess.run(
        [sys.executable, "-m", "dally", *command, "--seeds", SEEDS, "--jobs", str(jobs), "--out", str(out)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    wall_s, cpu_s = monotonic() - began_s, own_s() - own_began_s
    others_s = max(0.0, busy_s() - busy_began_s - cpu_s)
    return Measured(wall_s, cpu_s, others_s / (wall_s * (os.cpu_count() or 1)))


def main() -> None:
    """Measure, print, judge."""
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("this takes two cores")
    print(f"{RUNS} runs  {'jobs':>5} {'wall s':>8} {'runs/s':>8} {'CPU s':>8} {'others':>8}")
    rounds: dict[int, list[Measured]] = {1: [], 2: []}
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "demo.csv"
        write_workload(trace, generate(find_recipe(RECIPE), WORKLOAD))
        for number in range(ROUNDS):
            for jobs, found in rounds.items():
                one = compare(trace, jobs, Path(folder) / f"{number}-{jobs}")
                found.append(one)
                figures = f"{one.wall_s:8.2f} {RUNS / one.wall_s:8.2f} {one.cpu_s:8.2f} {one.others:8.0%}"
                print(f"         {jobs:>5} {figures}", flush=True)
        alone = compare(trace, 1, Path(folder) / "0-1")  # nothing is left to run
    everyone = [one for found in rounds.values() for one in found]
    wall, cpu = (
        [min(getattr(one, name) for one in rounds[jobs]) for jobs in (1, 2)] for name in ("wall_s", "cpu_s")
    )
    by_wall, by_cpu = wall[0] / wall[1], cpu[0] / (alone.cpu_s + (cpu[1] - alone.cpu_s) / 2)
    quiet = max(one.others for one in everyone) <= QUIET
    ratio = by_wall if quiet else by_cpu
    print(f"--jobs 2 against --jobs 1: {by_wall:.2f} times by the wall, {by_cpu:.2f} by CPU")
    print(f"judged by {'the wall' if quiet else 'CPU, because others use this machine'}: at least {LEAST} wanted")
    if ratio < LEAST:
        sys.exit(f"too slow: {ratio:.2f} times")


if __name__ == "__main__":
    main()
