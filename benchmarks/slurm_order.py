"""`slurm-backfill` beside a real Slurm: the same sleeps on both; in how many pairs does the same job start first?

usage: python -m benchmarks.slurm_order [--jobs 200] [--seed 1] [--shared DIR]

Starts a private cluster of 16 nodes with 8 pretended GPUs in 4 racks by the scripts in shared/slurm; needs Debian's
slurmctld, slurmd, slurm-client and munge. All begin at one moment; sleeps take seconds, limits minutes. Slurm takes
about a second to see that a job ended, and its times are whole seconds: starts closer than 1.5 s are equal.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from dally import Cluster
from dally.benchmark.tables_page import shared_folder
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.model import Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.registry import build

SCHEDULER: Final = (
    "bf_interval=1,bf_resolution=1,bf_window=1440,sched_interval=2,default_queue_depth=1000,batch_sched_delay=0,"
    "sched_min_interval=1000"
)
SETTINGS: Final = {"age": "0", "size": "0", "fair_share": "0", "bf_interval_s": "1", "bf_resolution_s": "1"}
PER_SUBMISSION_S: Final = 0.1
CLOSE_S: Final = 1.5
ENDED: Final = re.compile(r"JobId=(\d+) .*StartTime=(\S+) EndTime=(\S+)")


class Sleep(NamedTuple):
    """A job: GPUs, how long it sleeps, and its time limit."""

    gpus: int
    sleep_s: int
    limit_s: int


class Ran(NamedTuple):
    """When a job ran, since the first one started."""

    start_s: float
    end_s: float


def drawn(count: int, seed: int) -> list[Sleep]:
    """Jobs of up to four machines; limits say little of how long they sleep."""
    rng = random.Random(seed)
    return [
        Sleep(rng.choice([1, 1, 2, 4, 8, 8, 16, 32]), rng.randint(2, 16), 60 * rng.choice([1, 1, 2, 3, 5, 10]))
        for _ in range(count)
    ]


@contextmanager
def cluster(scripts: Path) -> Iterator[Path]:
    """A private Slurm cluster while it is needed; its folder."""
    with tempfile.TemporaryDirectory(prefix="slurm") as folder:
        run = Path(folder) / "run"
        env = {**os.environ, "RUN": str(run), "SCHED": "backfill", "SCHEDPARAMS": SCHEDULER}
        subprocess.run(["bash", str(scripts / "up.sh")], env=env, check=True, stdout=subprocess.DEVNULL)
        try:
            yield run
        finally:
            subprocess.run(["bash", str(scripts / "down.sh")], env=env, check=False, stdout=subprocess.DEVNULL)


def live(jobs: Sequence[Sleep], run: Path) -> list[Ran]:
    """Submit the jobs to the cluster, wait, and read when they ran."""
    env = {**os.environ, "SLURM_CONF": str(run / "etc" / "slurm.conf")}
    begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 5 + PER_SUBMISSION_S * len(jobs)))
    numbers = [_submit(job, begin, env) for job in jobs]
    while _called(["squeue", "--noheader"], env):
        time.sleep(1.0)
    ends: dict[int, tuple[float, float]] = {}
    for line in (run / "log" / "jobcomp.txt").read_text(encoding="utf-8").splitlines():
        found = ENDED.search(line)
        if found:
            ends[int(found[1])] = (_seconds(found[2]), _seconds(found[3]))
    first_s = min(ends[number][0] for number in numbers)
    return [Ran(ends[number][0] - first_s, ends[number][1] - first_s) for number in numbers]


def _submit(job: Sleep, begin: str, env: dict[str, str]) -> int:
    nodes = -(-job.gpus // 8)
    command = [
        "sbatch", "--parsable", f"--nodes={nodes}", f"--ntasks={nodes}", f"--gres=gpu:{min(8, job.gpus)}",
        f"--time={job.limit_s // 60}", "--output=/dev/null", f"--begin={begin}",
    ]  # fmt: skip
    return int(_called(command, env, f"#!/bin/bash\nsleep {job.sleep_s}\n"))


def _called(command: list[str], env: dict[str, str], given: str = "") -> str:
    return subprocess.run(command, env=env, input=given, check=True, capture_output=True, text=True).stdout.strip()


def _seconds(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def simulated(jobs: Sequence[Sleep], ran: Sequence[Ran], policy: str) -> list[float]:
    """When the jobs start under a policy, if each takes as long as it took on the cluster."""
    found = []
    for index, (job, times) in enumerate(zip(jobs, ran, strict=True)):
        found.append(Job(index, str(index), 0.0, job.gpus, times.end_s - times.start_s))
        found[-1].spec = replace(found[-1].spec, limit_s=float(job.limit_s))
    given = SETTINGS if policy == "slurm-backfill" else {}
    machines = Cluster.grid(4, 4, 8, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    Simulation(found, machines, build(policy, given), SpeedModel(), Costs(), Failures()).run()
    return [job.start_s for job in found]


def in_order(real_s: Sequence[float], ours_s: Sequence[float]) -> float:
    """The share of pairs of jobs that do not start in opposite order."""
    wrong = pairs = 0
    for one in range(len(real_s)):
        for other in range(one):
            pairs += 1
            real, ours = real_s[one] - real_s[other], ours_s[one] - ours_s[other]
            wrong += min(abs(real), abs(ours)) >= CLOSE_S and (real > 0) != (ours > 0)
    return 1.0 - wrong / max(pairs, 1)


def main() -> None:
    """Run both, and print a line per policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shared", type=Path)
    given = parser.parse_args()
    jobs = drawn(given.jobs, given.seed)
    with cluster((given.shared or shared_folder()) / "slurm") as run:
        ran = live(jobs, run)
    real_s = [times.start_s for times in ran]
    for policy in ("slurm-backfill", "easy-backfill", "fifo-backfill", "fifo"):
        ours_s = simulated(jobs, ran, policy)
        off_s = sum(abs(one - other) for one, other in zip(real_s, ours_s, strict=True)) / len(jobs)
        print(
            f"{policy:16} {in_order(real_s, ours_s):6.1%} of pairs in order, starts {off_s:.1f} s off, "
            f"the last at {max(ours_s):.0f} s (Slurm {max(real_s):.0f} s)"
        )


if __name__ == "__main__":
    main()
