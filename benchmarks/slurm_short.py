"""Short jobs on a real Slurm under a policy that moves running jobs all the time: no finished job may run again.

usage: python -m benchmarks.slurm_short [--jobs 2000] [--share 0.15] [--racks 4] [--seconds 3]

A private cluster on this machine, with the daemon, its store and its Slurm backend as they are; the policy is
benchmarks/restless.py. A job writes a line when it begins, when it is stopped and when it ends. It is stopped in
time, or it ends: in its last moment it ignores SIGTERM. A job that begins after its end was run again.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.live.slurm_cluster import SlurmCluster, need_slurm, slurm_cluster

from benchmarks.command_line import options, silence_log
from dally.live.assembly import Service
from dally.live.backends.slurm import SlurmBackend
from dally.live.config import Config, Setup

MACHINES, GPUS = 4, 8  # of a rack, of a machine
PER_ARRAY: Final = 500
POLICY: Final = f"{Path(__file__).with_name('restless.py')}:Restless"
# Counts tenths of a second without a process for each; what is left of it does not pass while it is paused.
JOB: Final = """#!/bin/bash
mark={folder}/${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID
echo begin >> $mark
trap 'echo stopped >> $mark; exit 0' TERM
exec {{pipe}}<> <(:)
for ((tenths = {seconds} * 10 + RANDOM % 10; tenths > 0; tenths--)); do read -t 0.1 -u $pipe; done
trap '' TERM
echo end >> $mark
"""


@dataclass
class ShortJobs:
    """What the jobs wrote, and what became of them."""

    lines: dict[str, list[str]] = field(default_factory=dict)  # by job
    preemptions: int = 0
    forgotten: Counter[str] = field(default_factory=Counter)  # by job: runs that a killed slurmctld knew no more of

    @property
    def again(self) -> list[str]:
        """Jobs that were run again after their end, and more often than slurmctld forgot a run of theirs."""
        return [job for job in self.lines if self._after_end(job) and self._too_often(job)]

    @property
    def twice(self) -> list[str]:
        """Jobs that began while they ran, likewise."""
        return [job for job in self.lines if self._while_running(job) and self._too_often(job)]

    @property
    def forgiven(self) -> list[str]:
        """Jobs that Slurm ran again since it had forgotten them."""
        again = [job for job in self.lines if self._after_end(job) or self._while_running(job)]
        return [job for job in again if not self._too_often(job)]

    def _too_often(self, job: str) -> bool:
        return self._after_end(job) + self._while_running(job) > self.forgotten[job]

    def _after_end(self, job: str) -> int:
        """How often; a run that was stopped, and followed by another, counts once."""
        lines = self.lines[job]
        if "end" not in lines or "begin" not in lines[lines.index("end") + 1 :]:
            return 0
        return max(list(itertools.pairwise(lines)).count(("end", "begin")), 1)

    def _while_running(self, job: str) -> int:
        return list(itertools.pairwise(self.lines[job])).count(("begin", "begin"))

    def report(self) -> str:
        """In one line."""
        words = Counter(word for lines in self.lines.values() for word in lines)
        return (
            f"{len(self.lines)} jobs, {words['begin']} runs, {words['stopped']} stopped, {self.preemptions} "
            f"preempted or moved: {len(self.again)} run again after their end {self.again[:5]}, "
            f"{len(self.twice)} begun twice {self.twice[:5]}, "
            f"{len(self.forgiven)} run again by Slurm that a killed slurmctld had forgotten"
        )


def submit(slurm: SlurmCluster, folder: Path, jobs: int, seconds: int) -> list[str]:
    """Arrays of jobs of one GPU, as job_submit.lua would leave them."""
    result = []
    for first in range(0, jobs, PER_ARRAY):
        count = min(PER_ARRAY, jobs - first)
        script = JOB.format(folder=folder, seconds=seconds)
        asks = ("-H", "--requeue", f"--array=0-{count - 1}", "--gres=gpu:1", "-o", "/dev/null")
        array = slurm.run("sbatch", "--parsable", *asks, given=script).strip()
        slurm.run("scontrol", "update", f"JobId={array}", "AdminComment=dally:read=1")
        result += [f"{array}_{task}" for task in range(count)]
    return result


def run(slurm: SlurmCluster, folder: Path, jobs: int, share: float, seconds: int, within_s: float) -> ShortJobs:
    """Until every job has ended by its own account and Slurm's."""
    marks = folder / "marks"
    marks.mkdir()
    ids = submit(slurm, marks, jobs, seconds)
    setup = Setup(POLICY, {"share": str(share)}, restart_per_gpu_s=0.0)
    config = Config(folder=folder / "daemon", backend="slurm", setup=setup)
    service = Service(config, SlurmBackend(conf=str(slurm.conf)))
    result = ShortJobs()

    def count(cycle: object) -> None:
        result.preemptions += sum(row["kind"] in ("preempt", "migrate") for row in cycle.log)  # type: ignore[attr-defined]

    service.daemon.watchers.append(lambda cycle, _: count(cycle))
    thread = threading.Thread(target=service.daemon.run, daemon=True)
    thread.start()
    until_s = time.monotonic() + within_s
    try:
        while not all(_ended(marks / job) for job in ids) or slurm.run("squeue", "-h", ok=False).strip():
            if time.monotonic() > until_s:
                raise SystemExit(f"not at an end after {within_s:g} s: {service.daemon.failing or 'no failure'}")
            time.sleep(1.0)
    finally:
        service.daemon.stop()
        thread.join(60.0)
        service.close()
    result.lines = {job: (marks / job).read_text().split() for job in ids}
    return result


def _ended(mark: Path) -> bool:
    return mark.exists() and "end" in mark.read_text()


def main() -> None:
    given = options(__doc__, jobs=2000, share=0.15, racks=4, seconds=3)
    need_slurm()
    silence_log()
    with (
        slurm_cluster(given.racks, MACHINES, GPUS, "MinJobAge=5\n") as slurm,
        tempfile.TemporaryDirectory() as folder,
    ):
        result = run(slurm, Path(folder), given.jobs, given.share, given.seconds, 1800.0)
    print(result.report())
    sys.exit(bool(result.again or result.twice))


if __name__ == "__main__":
    main()
