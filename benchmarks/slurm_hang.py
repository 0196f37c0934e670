"""What a daemon knows of a real Slurm while `scontrol` hangs: 128 nodes, two partitions, 1,000 jobs that wait.

usage: python -m benchmarks.slurm_hang [--seconds 60] [--racks 16] [--jobs 1000] [--policy fifo-backfill]

A private cluster on this machine, with the daemon, its store and its Slurm backend as they are. For so many seconds
no call of `scontrol` by the daemon comes back. Meanwhile a job is submitted, a node drains, a partition goes down
and a reservation is made. Printed is how old the known states of jobs and nodes became, how long an operator's
command waited, and how long after the return of scontrol each of the changes was known.
Needs Debian's slurmctld, slurmd, slurm-client and munge, and 3 GB of memory.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.live.slurm_cluster import SlurmCluster, need_slurm, slurm_cluster

from benchmarks.command_line import options, silence_log
from benchmarks.slurm_cycle import GPUS, MACHINES, SETTINGS, submit_single
from dally.live.assembly import Service
from dally.live.backends import base
from dally.live.backends.slurm import SlurmBackend
from dally.live.config import Config, Setup

FRESH_S: Final = 10.0  # after the return everything is known
OPERATOR_S: Final = 1.0
BEFORE_S: Final = 5.0  # the changes are made so long before the return
QUIET_S: Final = 15.0  # of normal cycles, before
HANGING: Final = """#!/bin/sh
while [ -e {folder}/hang ]; do sleep 0.2; done
exec {tool} "$@"
"""
PARTITION, RESERVATION = "other", "works"


class Watch:
    """Samples ages and waits until it is over."""

    def __init__(self, service: Service, backend: SlurmBackend) -> None:
        self._service, self._backend = service, backend
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.oldest_s = self.waited_s = 0.0
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.05):
            asked_s = time.monotonic()
            with self._service.daemon.lock:
                self.waited_s = max(self.waited_s, time.monotonic() - asked_s)
            self.oldest_s = max(self.oldest_s, time.monotonic() - self._backend._snapshot_s)

    def end(self) -> None:
        """No more samples."""
        self._over.set()
        self._thread.join(30.0)


def changes(slurm: SlurmCluster, backend: SlurmBackend) -> dict[str, Callable[[], bool]]:
    """Made now, by the real scontrol; by name, whether the daemon knows of each."""
    node = slurm.nodes[-1]
    slurm.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    slurm.run("scontrol", "update", f"PartitionName={PARTITION}", "State=DOWN")
    slurm.run(
        "scontrol", "create", "reservation", f"ReservationName={RESERVATION}", "StartTime=now+3600", "Duration=60",
        f"Nodes={slurm.nodes[-2]}", "Users=root",
    )  # fmt: skip
    job_id = slurm.run("sbatch", "--parsable", "-H", "--gres=gpu:1", "-o", "/dev/null", "--wrap=true").strip()

    def drains() -> bool:
        return any(one.name == node and one.state == base.DRAINING for one in backend._latest.machines)

    def is_down() -> bool:
        lines = backend._limits.partitions().splitlines()
        return any(f"PartitionName={PARTITION} " in line and "State=DOWN" in line for line in lines)

    return {
        "a node that drains": drains,
        "a job that came": lambda: any(job.job_id == job_id for job in backend._latest.jobs),
        "a partition that is down": is_down,
        "a reservation": lambda: any(one.name == RESERVATION for one in backend._latest.reservations),
    }


def known_after_s(known: dict[str, Callable[[], bool]], within_s: float) -> dict[str, float]:
    """By change: how long it took to be known from now on."""
    began_s = time.monotonic()
    result: dict[str, float] = {}
    while len(result) < len(known) and time.monotonic() - began_s < within_s:
        for name, is_known in known.items():
            if name not in result and is_known():
                result[name] = time.monotonic() - began_s
        time.sleep(0.05)
    return {name: result.get(name, within_s) for name in known}


def measure(slurm: SlurmCluster, folder: Path, policy: str, seconds: float) -> bool:
    """Print what came of it; whether all of it is as it should be."""
    tool = folder / "tools" / "scontrol"
    tool.parent.mkdir()
    tool.write_text(HANGING.format(folder=folder, tool=shutil.which("scontrol")))
    tool.chmod(0o755)
    backend = SlurmBackend(conf=str(slurm.conf))
    backend._tools._environment["PATH"] = f"{tool.parent}:{backend._tools._environment['PATH']}"
    service = Service(
        Config(folder=folder / "daemon", backend="slurm", setup=Setup(policy, network="slow")), backend
    )
    thread = threading.Thread(target=service.daemon.run, daemon=True)
    thread.start()
    time.sleep(QUIET_S)
    watch = Watch(service, backend)
    (folder / "hang").touch()
    time.sleep(seconds - BEFORE_S)
    known = changes(slurm, backend)
    time.sleep(BEFORE_S)
    named = backend._latest.problems
    (folder / "hang").unlink()
    after_s = known_after_s(known, 120.0)
    watch.end()
    service.daemon.stop()
    thread.join(60.0)
    service.close()
    for name, known_s in after_s.items():
        print(f"{name} was known {known_s:.1f} s after scontrol's return")
    print(
        f"jobs and nodes were {watch.oldest_s:.1f} s old at most; an operator waited {watch.waited_s:.2f} s at most"
    )
    print(f"named meanwhile: {'; '.join(named) or 'nothing'}")
    return max(*after_s.values(), watch.oldest_s) <= FRESH_S and watch.waited_s <= OPERATOR_S and bool(named)


def main() -> None:
    given = options(__doc__, seconds=60.0, racks=16, jobs=1000, policy="fifo-backfill")
    need_slurm()
    silence_log()
    with slurm_cluster(given.racks, MACHINES, GPUS, SETTINGS) as slurm, tempfile.TemporaryDirectory() as text:
        half = slurm.nodes[len(slurm.nodes) // 2 :]
        slurm.run("scontrol", "create", f"PartitionName={PARTITION}", f"Nodes={','.join(half)}")
        submit_single(slurm, given.jobs)
        fine = measure(slurm, Path(text), given.policy, given.seconds)
    print("as it should be" if fine else f"MISSED: {FRESH_S:g} s, or {OPERATOR_S:g} s for an operator")
    sys.exit(not fine)


if __name__ == "__main__":
    main()
