"""What jobs of a real Slurm print: how far they are, and what it teaches of their sensitivity to the network."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import dally
from dally.job_spec import JobSpec
from dally.live.backends.base import Submission
from dally.live.backends.slurm.job_logs import log_path
from dally.live.config import Setup
from dally.live.job_progress import ProgressReader
from dally.model import make_allocation
from tests.live import training_loop
from tests.live.slurm_bench import SlurmBench
from tests.live.slurm_cluster import SlurmCluster
from tests.waiting import wait_for

REPORTS = """
import dally, time
for step in range(1, 400):
    dally.report(step, 500)
    time.sleep(0.05)
"""


class ProgressBench(SlurmBench):
    """Gangs that print how far they are."""

    def begin(self) -> None:
        super().begin()
        self.scheduler.progress = ProgressReader(every_s=0.3)

    def train(self, together_s: float, apart_s: float, *words: str) -> str:
        """Two nodes of eight GPUs."""
        loop = training_loop.command(together_s, apart_s, self.slurm.machines)
        script = f"#!/bin/bash\n{shlex.join(loop)}\n"
        asks = (
            "-H",
            "--requeue",
            "-N",
            "2",
            "--gpus-per-node=8",
            "-J",
            "train",
            "-o",
            f"{self.folder}/%x-%3j.out",
        )
        job_id = self.slurm.run("sbatch", "--parsable", *asks, *words, given=script).strip()
        self.slurm.run("scontrol", "update", f"JobId={job_id}", "AdminComment=dally:read=1")
        return job_id

    def step(self, job_id: str) -> int | None:
        """How far the job is, as its page says."""
        self.cycle()
        job = self.scheduler.roster.jobs.get(job_id)
        known = None if job is None else self.scheduler.progress.of(job, self.clock.now())
        return None if known is None else known.step

    def measured(self, job_id: str) -> bool:
        self.cycle()
        followed = self.scheduler.progress._followed.get(job_id)
        return followed is not None and followed.measured_s > 0.0

    def slowdown_apart(self, job_id: str) -> float:
        """What the scheduler believes of the job, against the best place."""
        self.cycle()
        speed, job = self.scheduler.state.speed, self.scheduler.roster.jobs[job_id]
        apart = make_allocation(2, [(self.slurm.machines - 1, 8), (2 * self.slurm.machines - 1, 8)])
        return speed.slowdown(job, apart)[0] / speed.best(job)

    def nodes(self, job_id: str) -> set[str]:
        self.cycle()
        jobs = {job.job_id: job for job in self.backend.snapshot().jobs}
        return set(jobs[job_id].placement) if job_id in jobs else set()

    def end(self, job_id: str) -> None:
        self.slurm.run("scancel", job_id)
        wait_for(lambda: self._is_gone(job_id), 40.0)

    def _is_gone(self, job_id: str) -> bool:
        self.cycle()
        return job_id not in self.scheduler.roster.jobs


def test_printed_steps_are_known_and_teach_to_keep_a_job_together(slurm: SlurmCluster, tmp_path: Path) -> None:
    setup = Setup("dally", network="slow", network_settings={"oversubscription": "8"}, preempt={"usual": "no"})
    bench = ProgressBench(slurm, tmp_path, setup)
    machines = slurm.machines
    first = bench.train(0.05, 0.15)
    wait_for(lambda: bool(bench.nodes(first)), 40.0)
    began_s = time.monotonic()
    wait_for(lambda: bench.step(first) is not None, 40.0)
    print(f"its first step was known {time.monotonic() - began_s:.1f} s after its start")
    before = bench.slowdown_apart(first)
    wait_for(lambda: bench.measured(first), 40.0)
    assert len({(int(node[1:]) - 1) // machines for node in bench.nodes(first)}) == 1
    bench.end(first)
    last = len(slurm.nodes)
    free = {f"n{machines:02d}", f"n{2 * machines:02d}"}
    others = f"n[01-{machines - 1:02d},{machines + 1:02d}-{2 * machines - 1:02d},{2 * machines + 1:02d}-{last:02d}]"
    blocker = bench.submit(
        8 * (last - 2), 600.0, "-w", others, "-N", str(last - 2), "--gpus-per-node=8", preempt="no"
    )
    wait_for(lambda: len(bench.nodes(blocker)) == last - 2, 40.0)
    second = bench.train(0.05, 0.15)
    bench.cycle()
    now = bench.clock.now()
    bench.scheduler.state.override(bench.scheduler.roster.jobs[second], False, now, now)  # it takes any place
    wait_for(lambda: bench.nodes(second) == free, 40.0)
    wait_for(lambda: bench.measured(second), 40.0)
    bench.end(second)
    third = bench.train(0.05, 0.15)
    assert bench.slowdown_apart(third) > before + 0.2
    for _ in range(5):
        bench.cycle()
    assert not bench.nodes(third)  # though two nodes are free
    bench.end(third)
    bench.end(blocker)


def test_what_a_submitted_job_reports_is_known(slurm: SlurmCluster, tmp_path: Path) -> None:
    bench = ProgressBench(slurm, tmp_path, Setup("dally", preempt={"usual": "no"}))
    source = str(Path(dally.__file__).parents[1])
    request = Submission(
        JobSpec(8), (sys.executable, "-c", REPORTS), str(tmp_path), {"PYTHONPATH": source, "SLURM_PROCID": "0"}
    )
    job_id = bench.backend.submit(request)
    wait_for(lambda: bench.step(job_id) is not None, 40.0)
    job = bench.scheduler.roster.jobs[job_id]
    known = bench.scheduler.progress.of(job, bench.clock.now())
    assert known is not None
    assert known.total == 500
    bench.end(job_id)


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ({"standard_output": "/a/%u-%x-%5j-%N.out"}, "/a/ana-train-00012-n03.out"),
        ({"standard_output": "out/%%%A_%a"}, "/home/ana/out/%12_0"),
        ({"standard_output": "%A_%a.log", "array_job_id": {"set": True, "number": 9}, "array_task_id": 4},
         "/home/ana/9_4.log"),
        ({"standard_output": ""}, "/home/ana/slurm-12.out"),
        ({"standard_output": "/a/b", "stdout_expanded": "/a/c"}, "/a/c"),
        ({"standard_output": "/a/\\%j"}, "/a/\\%j"),
        ({"standard_output": "/dev/null"}, ""),
        ({"standard_output": "x", "current_working_directory": ""}, ""),
    ],
)  # fmt: skip
def test_path_of_what_a_job_prints(row: dict[str, Any], path: str) -> None:
    usual = {"job_id": 12, "user_name": "ana", "user_id": 7, "name": "train", "batch_host": "n03.cluster",
             "current_working_directory": "/home/ana"}  # fmt: skip
    assert log_path({**usual, **row}) == path
