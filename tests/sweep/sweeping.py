"""A sweep of 200 short runs, as the tests of interruptions make it; one of its policies is in a user's file."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

RUNS = 200
PLAN = """
[base]
trace = "t.csv"
cluster = "2x2x8"
network = "slow"

[grid]
policy = ["mine.py:Leased", "dally-paper"]
seed = [1, 2, 3, 4]

[random]
samples = 25
set.lease_s = "600:7200:log"
restart_s = "0:60"
"""
POLICY = """
from dally.policies.composed import ComposedPolicy
from dally.policies.ordering.simple import LeastAttained
from dally.policies.placement.best_fit import BestFit
from dally.policies.preemption.rules import LeasePreemption

class Leased(ComposedPolicy):
    def __init__(self, lease_s: float = 3600.0) -> None:
        super().__init__(LeastAttained(), BestFit(), LeasePreemption(lease_s))
"""


def write_plan(folder: Path) -> None:
    rng = random.Random(1)
    rows = (f"j{i},{i * 50},{rng.choice([1, 2, 4, 8, 16])},{rng.randint(60, 4000)}" for i in range(12))
    (folder / "t.csv").write_text("job_id,submit_s,gpus,duration_s\n" + "\n".join(rows) + "\n")
    (folder / "mine.py").write_text(POLICY)
    (folder / "plan.toml").write_text(PLAN)


def start(folder: Path, out: str, *options: str) -> subprocess.Popen[str]:
    """The sweep in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "dally", "sweep", "plan.toml", "--out", out, "--jobs", "2", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def kept(folder: Path) -> int:
    """Lines in the journal so far."""
    journal = folder / "runs.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def wait_for(folder: Path, lines: int, running: subprocess.Popen[str], at_most_s: float = 120.0) -> None:
    """Until the journal has that many lines."""
    deadline = time.monotonic() + at_most_s
    while kept(folder) < lines and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    assert running.poll() is None, running.communicate()[0]
    assert kept(folder) >= lines


def keys(folder: Path) -> list[str]:
    lines = (folder / "runs.jsonl").read_text().splitlines()
    return [json.loads(line)["key"] for line in lines]
