"""What tenants cost: CPU of a run with sixteen beside the same run without: `python -m benchmarks.tenants`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CLUSTER = "16x8x8"
POLICIES = ("fifo-backfill", "las", "tiresias", "dally")
TENANTS = 16


def dally(*words: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "dally", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def cpu_s(trace: Path, policy: str, queues: Path | None) -> float:
    """Of one run, from reading the trace to the summary."""
    words = ["simulate", "--trace", str(trace), "--cluster", CLUSTER, "--policy", policy, "--json"]
    words += ["--queues", str(queues)] if queues is not None else []
    return float(json.loads(dally(*words))["cpu_s"])


def least_cpu_s(trace: Path, policy: str, queues: Path, runs: int) -> tuple[float, float]:
    """Without queues and with them, in turn: what disturbs the machine disturbs both."""
    pairs = [(cpu_s(trace, policy, None), cpu_s(trace, policy, queues)) for _ in range(runs)]
    return min(alone for alone, _ in pairs), min(shared for _, shared in pairs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("policies", nargs="*", default=POLICIES)
    parser.add_argument("--jobs", default="20000")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace, queues = Path(folder) / "jobs.csv", Path(folder) / "queues.toml"
        size = ["--jobs", given.jobs, "--load", "1.0", "--cluster", CLUSTER, "--users", "160"]
        dally("trace", "generate", "venus-like", *size, "--teams", str(TENANTS), "--seed", "7", "--out", str(trace))
        queues.write_text("".join(f"[queues.team{i}]\nweight = {1 + i % 4}\n" for i in range(TENANTS)))
        print(f"| policy | CPU s without tenants | with {TENANTS} | ratio |\n|---|---|---|---|")
        for policy in given.policies:
            alone, shared = least_cpu_s(trace, policy, queues, given.runs)
            print(f"| `{policy}` | {alone:.2f} | {shared:.2f} | {shared / alone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
