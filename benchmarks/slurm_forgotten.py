"""What slurmctld forgets when it is killed: Slurm itself then runs jobs again, whoever schedules it.

It saves its jobs every 5 s at most. A job that began since waits again, as if it had never run; a job that ended
since runs by its account, until it is requeued. An order to requeue counts as a restart, and so is told apart.
"""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

from tests.live.slurm_cluster import SlurmCluster

DOWN_S: Final = 2.0
WIDTH: Final = 30  # of squeue's columns
FIELDS: Final = ",".join(f"{name}:{WIDTH}" for name in ("JobArrayID", "State", "RestartCnt"))
# In slurmctld's log: what has begun and ended up to the moment in which it was killed.
BEGUN: Final = re.compile(r"(?:Allocate|Started) JobId=(\w+)")
ENDED: Final = re.compile(r"_job_complete: JobId=(\w+)\S* done")
WAITS, RUNS, IS_OVER = range(3)
IS_ON: Final = ("RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING")
STAGES: Final = {"PENDING": WAITS, **dict.fromkeys(IS_ON, RUNS)}  # others: it is over
Stages = Mapping[str, tuple[int, int]]  # of jobs, with the number of restarts


class ForgottenRuns:
    """Kills slurmctld, and compares what it knew before with what it knows then."""

    def __init__(self, slurm: SlurmCluster) -> None:
        self._slurm = slurm
        self.runs: Counter[str] = Counter()  # by job: how many slurmctld forgot, in whole or their ends

    def kill_controller(self) -> None:
        """Without a chance to save its state; up again when this returns."""
        known = len(self._log())
        before = self._stages()
        self._slurm.stop_one("slurmctld", signal.SIGKILL)
        news = self._log()[known:]
        for pattern, stage in ((BEGUN, RUNS), (ENDED, IS_OVER)):
            before |= {job_id: (stage, before[job_id][1]) for job_id in pattern.findall(news) if job_id in before}
        time.sleep(DOWN_S)
        self._slurm.start_controller()
        self.runs.update(forgotten(before, self._stages()))

    def _log(self) -> str:
        return (self._slurm.folder / "log" / "slurmctld").read_text(errors="replace")

    def _stages(self) -> dict[str, tuple[int, int]]:
        text = self._slurm.run("squeue", "-h", "-a", "-r", "-t", "all", "-O", FIELDS, ok=False)
        rows = (line.split() for line in text.splitlines())
        return {job_id: (STAGES.get(state, IS_OVER), int(restarts)) for job_id, state, restarts in rows}


def forgotten(before: Stages, after: Stages) -> list[str]:
    """Jobs that are at an earlier stage than before, and that nothing has restarted."""
    return [
        job_id
        for job_id, (stage, restarts) in before.items()
        if job_id in after and after[job_id][0] < stage and after[job_id][1] == restarts
    ]
