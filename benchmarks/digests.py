"""Digests of jobs.csv under every policy: three workloads, three networks, with and without queues.

A change that should change no decision leaves them as they were: keep them before, compare after.

    python -m benchmarks.digests before.txt
    python -m benchmarks.digests after.txt --against before.txt
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
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
TEAMS = "--users 24 --teams 4"
# A guarantee to reclaim, a weight, and a queue that comes into being with its first job.
QUEUES = """
[queues.team0]
guarantee = 48
min_runtime = "5m"

[queues.team1]
weight = 2

[accounts]
make = "queue"
"""


def dally(*words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "dally", *words], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def digest(folder: Path, workload: str, options: str, policy: str, network: str, queues: bool) -> str:
    name = f"{workload} {network or 'none'} {'queues' if queues else 'alone'} {policy}"
    out = folder / name.replace(" ", "-")
    chosen = ["--network", network] if network else []
    chosen += ["--queues", str(folder / "queues.toml")] if queues else []
    dally(
        "simulate", "--trace", str(folder / f"{workload}.csv"), *options.split(), "--policy", policy, *chosen,
        "--out", str(out), "--no-report",
    )  # fmt: skip
    return f"{name} {hashlib.sha256((out / 'jobs.csv').read_bytes()).hexdigest()[:24]}"


def digests(workers: int) -> Iterator[str]:
    policies = [row["name"] for row in json.loads(dally("policies", "--json"))]
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(workers) as pool:
        folder = Path(name)
        (folder / "queues.toml").write_text(QUEUES)
        for workload, recipe, _ in WORKLOADS:
            like, *rest = f"{recipe} {TEAMS}".split()
            dally("trace", "generate", like, *rest, "--seed", "1", "--out", str(folder / f"{workload}.csv"))
        runs = [
            pool.submit(digest, folder, workload, options, policy, network, queues)
            for (workload, _, options), network, queues, policy in product(
                WORKLOADS, NETWORKS, (False, True), policies
            )
        ]
        for run in runs:
            yield run.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    lines = []
    for line in digests(options.workers):
        print(line, flush=True)
        lines.append(line)
    options.out.write_text("\n".join(lines) + "\n")
    if options.against:
        before = options.against.read_text().splitlines()
        changed = sorted(set(lines) ^ set(before))
        print(f"{len(lines)} runs, {len(set(lines) - set(before))} differ from {options.against}")
        print("\n".join(changed))
        sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
