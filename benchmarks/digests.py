"""Digests of jobs.csv under every policy, on three workloads and networks none, slow and congested.

A change that should change no decision leaves them as they were: keep them before, compare after.

    python -m benchmarks.digests before.txt
    python -m benchmarks.digests after.txt --against before.txt
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NETWORKS = ("", "slow", "congested")
# Name, recipe and its options, options of the run: two tiers above the machine, three, and machines that fail.
WORKLOADS = (
    ("steady", "venus-like --jobs 900 --load 0.9 --gpus 144", "--cluster 3x6x8"),
    (
        "deep",
        "philly-like --jobs 600 --load 1.1 --gpus 128",
        "--cluster 2x2x4x8 --restart-s 62 --restart-per-gpu-s 0",
    ),
    (
        "failing",
        "itp-like --jobs 500 --load 0.8 --gpus 96",
        "--cluster 3x4x8 --failure-rate 0.05 --checkpoint-every 1800",
    ),
)
POLICIES = (
    "fifo", "fifo-backfill", "easy-backfill", "sjf", "srtf", "srsf", "las", "tiresias", "tiresias-gittins",
    "gandiva", "themis", "gavel", "slurm-switches", "kueue-preferred", "kueue-required", "lwf", "ada-srsf",
    "a-srpt", "dally-paper", "dally-paper-manual", "dally-paper-nowait", "dally-paper-consolidated",
)  # fmt: skip


def dally(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "dally", *words], check=True, stdout=subprocess.DEVNULL)


def digest(folder: Path, workload: str, options: str, policy: str, network: str) -> str:
    out = folder / f"{workload}-{policy}-{network or 'none'}"
    chosen = ["--network", network] if network else []
    dally(
        "simulate", "--trace", str(folder / f"{workload}.csv"), *options.split(), "--policy", policy, *chosen,
        "--out", str(out), "--no-report",
    )  # fmt: skip
    found = hashlib.sha256((out / "jobs.csv").read_bytes()).hexdigest()[:24]
    return f"{workload} {network or 'none'} {policy} {found}"


def digests(workers: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(workers) as pool:
        folder = Path(name)
        for workload, recipe, _ in WORKLOADS:
            like, *rest = recipe.split()
            dally("trace", "generate", like, *rest, "--seed", "1", "--out", str(folder / f"{workload}.csv"))
        runs = [
            pool.submit(digest, folder, workload, options, policy, network)
            for workload, _, options in WORKLOADS
            for network in NETWORKS
            for policy in POLICIES
        ]
        for run in runs:
            yield run.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    lines = []
    for line in digests(given.workers):
        print(line, flush=True)
        lines.append(line)
    given.out.write_text("\n".join(lines) + "\n")
    if given.against:
        before = given.against.read_text().splitlines()
        changed = sorted(set(lines) ^ set(before))
        print(f"{len(lines)} runs, {len(set(lines) - set(before))} differ from {given.against}")
        print("\n".join(changed))
        sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
