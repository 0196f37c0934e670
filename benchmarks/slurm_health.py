"""A node of a real Slurm becomes slow for its job: seconds until it is drained, and until a probe resumes it.

usage: python -m benchmarks.slurm_health

Starts a Slurm of 8 nodes with fake GPUs on this machine, and six jobs that print their steps; the slow one sleeps
longer in each.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.live.slurm_bench import WatchedSlurm
from tests.live.slurm_cluster import SlurmCluster, slurm_cluster

from dally.live.assembly import Service
from dally.live.config import Config, Setup
from dally.model import RUNNING

JOB: Final = """#!/bin/sh
for step in $(seq 1 100000); do
  echo "step $step/100000 loss=0.5"
  if [ -e {folder}/slow-$SLURMD_NODENAME ]; then sleep 0.6; else sleep 0.2; fi
done
"""
JOBS: Final = 6
WINDOWS: Final = 4  # of every job, before one is made slow
SLOW_S: Final = 25.0  # after the drain
WITHIN_S: Final = 300.0


def submit(slurm: SlurmCluster, folder: Path, number: int) -> str:
    """A job of one whole node, as its user submits it."""
    asks = ("-H", "--requeue", "-N", "1", "--gpus-per-node=8", "-o", f"{folder}/{number}.log")
    facts = "--comment=" + json.dumps({"model": "resnet50", "preempt": "yes"})
    job_id = slurm.run("sbatch", "--parsable", *asks, facts, given=JOB.format(folder=folder)).strip()
    slurm.run("scontrol", "update", f"JobId={job_id}", "AdminComment=dally:read=1")
    return job_id


def drained(service: Service) -> dict[str, str]:
    """Nodes that take no jobs, and why."""
    scheduler = service.daemon.scheduler
    assert scheduler is not None
    return {row.name: row.reason for row in scheduler.roster.snapshot.machines if row.state != "up"}


def until(service: Service, what: str, began_s: float) -> float:
    """Cycles until nodes are drained, or none is; seconds since it began."""
    while (what == "drained") != bool(drained(service)):
        if time.monotonic() - began_s > WITHIN_S:
            raise SystemExit(f"not {what} within {WITHIN_S:g} s")
        service.daemon.run_cycle()
        time.sleep(0.5)
    return time.monotonic() - began_s


def measured(slurm: SlurmCluster, folder: Path) -> dict[str, object]:
    """The run."""
    os.environ["SLURM_CONF"] = str(slurm.conf)
    probe = f"sh -c 'test ! -e {folder}/slow-$DALLY_MACHINE'"
    table = {"act": "on", "most_out": "0.13", "every_s": "6", "again_s": "5", "probe": probe}
    config = Config("slurm", folder=folder / "state", health=table, setup=Setup("fifo")).checked()
    service = Service(config, WatchedSlurm(str(slurm.conf)))
    try:
        jobs = [submit(slurm, folder, number) for number in range(JOBS)]
        service.daemon.run_cycle()
        scheduler = service.daemon.scheduler
        assert scheduler is not None
        while len(service.health.windows()) < JOBS or min(service.health.windows().values()) < WINDOWS:
            service.daemon.run_cycle()
            time.sleep(0.5)
        job = next(job for job in scheduler.roster if job.status == RUNNING)
        assert job.allocation is not None
        node = scheduler.roster.topology.names[0][job.allocation.parts()[0][0]]
        (folder / f"slow-{node}").touch()
        drained_s = until(service, "drained", time.monotonic())
        why = drained(service)
        slurm.run("scancel", job.job_id)
        time.sleep(SLOW_S)
        (folder / f"slow-{node}").unlink()
        resumed_s = until(service, "resumed", time.monotonic())
        return {
            "node": node, "drained": why, "drained_s": round(drained_s, 1), "resumed_s": round(resumed_s, 1),
            "jobs": len(jobs),
        }  # fmt: skip
    finally:
        service.close()


def main() -> None:
    """Print the result as JSON."""
    with tempfile.TemporaryDirectory() as folder, slurm_cluster(2, 4, 8) as slurm:
        Path(folder).chmod(0o755)
        print(json.dumps(measured(slurm, Path(folder))))


if __name__ == "__main__":
    main()
