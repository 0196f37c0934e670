"""The live scheduler on a real Slurm, cycle by cycle, with an eye on every GPU."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from dally.cluster.formats.hostlist import expand_list
from dally.live.backends import base
from dally.live.backends.base import Observed, Placement
from dally.live.backends.slurm import SlurmBackend
from dally.live.config import Setup
from tests.live.bench import LiveBench
from tests.live.slurm_cluster import SlurmCluster

# A job that counts tenths of a second, writes down how far it is when told to stop, and goes on from there. It does
# not end while there is a file `wait`.
JOB = """#!/bin/bash
mark={folder}/$SLURM_JOB_ID
done=$(cat $mark.saved 2>/dev/null || echo 0)
echo "begin $done $SLURM_JOB_NODELIST" >> $mark
trap 'echo $done > $mark.saved; echo "saved $done" >> $mark; exit 0' TERM
while [ $done -lt {tenths} -o -e {folder}/wait ]; do sleep 0.1; done=$((done + 1)); done
echo $done > $mark.saved  # told to stop in this very moment, Slurm will requeue it though it is done
echo "end $done" >> $mark
"""


class WatchedSlurm(SlurmBackend):
    """Checks at every look that no GPU is two jobs', by Slurm's own numbers, and remembers who ran where."""

    def __init__(self, conf: str) -> None:
        super().__init__(conf=conf)
        self.runs: dict[str, dict[int, Placement]] = {}  # by job and number of restarts

    def snapshot(self) -> Observed:
        found = super().snapshot()
        taken: dict[tuple[str, int], str] = {}
        for job in found.jobs:
            row = self._records[job.job_id].row
            if job.placement:
                for gpu in gpus_of(row):
                    other = taken.setdefault(gpu, job.job_id)
                    assert other == job.job_id, f"GPU {gpu} is of jobs {other} and {job.job_id}"
            if job.state == base.RUNNING:
                self.runs.setdefault(job.job_id, {})[row["restart_cnt"]] = dict(job.placement)
        return found


def gpus_of(row: dict[str, Any]) -> set[tuple[str, int]]:
    """Node and number of every GPU that Slurm has given to a job."""
    found = set()
    for node, text in zip(expand_list(row["nodes"]), row["gres_detail"], strict=True):
        for numbers in re.findall(r"IDX:([0-9,-]+)", text):
            found |= {(node, int(number)) for number in expand_list(f"[{numbers}]")}
    return found


class SlurmBench(LiveBench):
    """A scheduler whose clock runs `speed` times as fast, on a cluster with nothing on it."""

    def __init__(self, slurm: SlurmCluster, folder: Path, setup: Setup, speed: float = 1.0) -> None:
        self.slurm = slurm
        self.backend = WatchedSlurm(str(slurm.conf))
        self.looks_s: list[float] = []  # moments at which it was decided
        super().__init__(self.backend, folder, setup, speed)

    def submit(self, gpus: int, seconds: float, *words: str, model: str = "resnet50", preempt: str = "yes") -> str:
        """A job of so many seconds of the wall clock, as it comes from its user: held, with our note.

        It saves its work when it is told to stop, so its user lets it be preempted.
        """
        nodes = max(1, gpus // 8)
        asks = ("-H", "--requeue", "-N", str(nodes), f"--gpus-per-node={gpus // nodes}", "-o", "/dev/null")
        stated = {"model": model, "expected": f"{seconds * self.speed:g}", "preempt": preempt}
        facts = f"--comment={json.dumps({name: text for name, text in stated.items() if text})}"
        script = JOB.format(folder=self.folder, tenths=round(seconds * 10))
        job_id = self.slurm.run("sbatch", "--parsable", *asks, facts, *words, given=script).strip()
        self.slurm.run("scontrol", "update", f"JobId={job_id}", "AdminComment=dally:read=1")
        self.submitted.append(job_id)
        return job_id

    def decide(self) -> None:
        result = self.scheduler.run_cycle()
        self.looks_s.append(result.now)
        self.problems += result.problems

    def pause(self) -> None:
        time.sleep(0.15)

    def ended(self) -> bool:
        """Every job has come to its own end, and the books are empty."""
        return not self.scheduler.roster.jobs and all("end" in self.marks(job) for job in self.submitted)

    def marks(self, job_id: str) -> str:
        """What the job wrote."""
        path = self.folder / job_id
        return path.read_text() if path.exists() else ""

    def begun_on(self, job_id: str) -> list[set[str]]:
        """The nodes of each of its runs, by its own account."""
        lines = [line.split() for line in self.marks(job_id).splitlines() if line.startswith("begin")]
        return [set(expand_list(words[2])) for words in lines]
