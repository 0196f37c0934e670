"""How fast the engine is: CPU seconds and peak memory of whole processes, beside other simulators.

usage: python -m benchmarks.engine [--quick]     (make bench)

Exits with 1 when a limit is passed. Limits are CPU seconds on a 2-core machine; ratios compare runs of
this same call. `--quick` leaves out the run of a million jobs.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
MAKER = SHARED / "tools" / "common_workload.py"


@dataclass
class Measured:
    cpu_s: float
    rss_mb: float
    jct_mean_s: float
    preemptions: int


failures: list[str] = []


def simulate(trace: Path, cluster: str, policy: str, *options: str, compiled: bool = True) -> Measured:
    """One run of the command line with all its tables, in a process of its own."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if not compiled:
        env["PYTHONPATH"] = str(ROOT / "src")
    with tempfile.TemporaryDirectory() as out:
        command = ["simulate", "--trace", str(trace), "--cluster", cluster, "--policy", policy, "--json"]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "dally", *command, "--out", out, "--no-report", *options],
            env=env,
            cwd="/",
            check=True,
            capture_output=True,
            text=True,
        )
    summary = json.loads(done.stdout)
    if summary["compiled"] != compiled:
        sys.exit(f"expected compiled={compiled}; run `make install` first")
    return Measured(summary["cpu_s"], summary["peak_rss_mb"], summary["jct_mean_s"], summary["preemptions"])


def limit(name: str, value: float, most: float, unit: str) -> None:
    """Print a figure beside its limit, and remember when it is passed."""
    verdict = "ok" if value <= most else "TOO MUCH"
    if value > most:
        failures.append(name)
    print(f"  {name:<58} {value:9.2f} {unit:<3} (at most {most:g}) {verdict}")


def workload(folder: Path, jobs: int, load: float, gpus: int) -> Path:
    """The workload that every simulator in peers.csv was run on."""
    path = folder / f"w{jobs}-{gpus}.csv"
    subprocess.run(
        [sys.executable, str(MAKER), str(jobs), str(path), str(load), "1", str(gpus)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return path


def common_workload(folder: Path) -> None:
    """10,000 jobs on 512 GPUs: ours beside the peers."""
    print("Common workload, 512 GPUs, free preemption, outputs written (CPU s of the whole process)")
    print(f"  {'simulator':<12} {'policy':<34} {'N=500':>8} {'N=2000':>8} {'N=10000':>8} {'JCT 10000':>10}")
    traces = {jobs: workload(folder, jobs, 1.1, 512) for jobs in (500, 2000, 10000)}
    ours: dict[str, Measured] = {}
    for policy in ("fifo", "fifo-backfill", "easy-backfill", "sjf", "srtf", "srsf", "las"):
        runs = [simulate(trace, "4x16x8", policy, "--restart-per-gpu-s", "0") for trace in traces.values()]
        ours[policy] = runs[-1]
        cells = " ".join(f"{run.cpu_s:8.2f}" for run in runs)
        print(f"  {'Dally':<12} {policy:<34} {cells} {runs[-1].jct_mean_s:10.1f}")
    with (SHARED / "reference" / "peers.csv").open() as file:
        for row in csv.DictReader(file):
            cells = " ".join(f"{float(row[f'cpu_s_{jobs}']):8.2f}" for jobs in traces)
            print(f"  {row['simulator']:<12} {row['policy']:<34} {cells} {float(row['jct_mean_10000']):10.1f}")
    for policy in ("fifo-backfill", "las"):
        limit(f"{policy}, 10,000 jobs", ours[policy].cpu_s, 0.8, "s")
    for policy in ("fifo-backfill", "las", "srsf"):
        plain = simulate(traces[10000], "4x16x8", policy, "--restart-per-gpu-s", "0", compiled=False)
        limit(f"{policy}, uncompiled ÷ compiled", plain.cpu_s / ours[policy].cpu_s, 25, "x")


def philly() -> None:
    """111,549 jobs on 2,496 GPUs."""
    print("Philly, 111,549 jobs, 39x8x8")
    for policy in ("fifo-backfill", "easy-backfill", "srsf", "las"):
        run = simulate(SHARED / "traces" / "philly.csv.gz", "39x8x8", policy)
        limit(f"{policy}", run.cpu_s, 4.0, "s")


def networks() -> None:
    """The same engine with the network model: every start and stop re-rates those who share links."""
    print("With contention")
    for network in ("normal", "congested"):
        run = simulate(
            SHARED / "traces" / "helios_venus_window20d.csv.gz", "11x11x8", "fifo-backfill", "--network", network
        )
        limit(f"Venus, 10,796 jobs on 968 GPUs, {network}", run.cpu_s, 2.0, "s")
        run = simulate(SHARED / "traces" / "philly.csv.gz", "39x8x8", "fifo-backfill", "--network", network)
        limit(f"Philly, 111,549 jobs on 2,496 GPUs, {network}", run.cpu_s, 15.0, "s")
        run = simulate(
            SHARED / "traces" / "helios_venus_window20d.csv.gz", "11x11x8", "dally", "--network", network
        )
        limit(f"Venus under dally, {network}", run.cpu_s, 5.0, "s")
        run = simulate(SHARED / "traces" / "philly.csv.gz", "39x8x8", "dally", "--network", network)
        limit(f"Philly under dally, {network}", run.cpu_s, 40.0, "s")


def million(folder: Path) -> None:
    """A million jobs on 100,000 GPUs, and half of them."""
    print("Synthetic, 125x100x8 (100,000 GPUs) at 90 % load")
    for policy in ("fifo-backfill", "las"):
        half = simulate(workload(folder, 500_000, 0.9, 100_000), "125x100x8", policy)
        whole = simulate(workload(folder, 1_000_000, 0.9, 100_000), "125x100x8", policy)
        limit(f"{policy}, 1,000,000 jobs", whole.cpu_s, 45, "s")
        limit(f"{policy}, 1,000,000 jobs, peak memory", whole.rss_mb, 1500, "MB")
        limit(f"{policy}, time of 1,000,000 ÷ time of 500,000", whole.cpu_s / half.cpu_s, 2.3, "x")


def queue_length(folder: Path) -> None:
    """Cost per event with ever longer queues: all jobs come at once."""
    print("Cost per event against queue length (all jobs waiting at t = 0, 512 GPUs)")
    for policy in ("fifo-backfill", "easy-backfill", "srsf", "las"):
        per_job: list[float] = []
        for jobs in (10_000, 100_000):
            trace = folder / f"batch{jobs}.csv"
            rows = (f"{i},0,{1 << i % 6},{600 + i * 7919 % 7200}\n" for i in range(jobs))
            trace.write_text("job_id,submit_s,gpus,duration_s\n" + "".join(rows))
            per_job.append(simulate(trace, "4x16x8", policy).cpu_s / jobs)
        limit(f"{policy}, CPU per job: queue of 100,000 ÷ queue of 10,000", per_job[1] / per_job[0], 1.5, "x")


def main() -> None:
    """Run all benchmarks."""
    if not SHARED.exists():
        sys.exit(f"{SHARED} is not here: nothing to compare with")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        common_workload(folder)
        philly()
        queue_length(folder)
        networks()
        if "--quick" not in sys.argv:
            million(folder)
    if failures:
        sys.exit(f"past the limit: {', '.join(failures)}")


if __name__ == "__main__":
    main()
