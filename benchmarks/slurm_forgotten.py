"""What slurmctld forgets when it is killed: Slurm itself then runs jobs again, whoever schedules it.

It saves its jobs every 5 s at most. A job that began since waits again, as if it had never run; a job that ended
since runs by its account, until a node knows nothing of it, and is requeued. Neither is an order of anyone's.
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
# In slurmctld's log: what it has just begun, and what it has missed the end of.
BEGUN: Final = re.compile(r"(?:Allocate|Started) JobId=(\w+)")
REQUEUED: Final = re.compile(r"Batch JobId=(\w+)\S* missing from batch node .*Requeuing job")
States = Mapping[str, tuple[str, int]]  # of jobs, with the number of restarts


class ForgottenRuns:
    """Kills slurmctld, and compares what it knew before with what it knows then."""

    def __init__(self, slurm: SlurmCluster) -> None:
        self._slurm = slurm
        self._waiting_again: Counter[str] = Counter()

    def kill_controller(self) -> None:
        """Without a chance to save its state; up again when this returns."""
        known = len(self._log())
        before = self._states()
        self._slurm.stop_one("slurmctld", signal.SIGKILL)
        for job_id in set(BEGUN.findall(self._log()[known:])).intersection(before):
            before[job_id] = ("RUNNING", before[job_id][1])
        time.sleep(DOWN_S)
        self._slurm.start_controller()
        self._waiting_again.update(waiting_again(before, self._states()))

    @property
    def runs(self) -> Counter[str]:
        """By job: how many runs slurmctld forgot, in whole or their ends."""
        return self._waiting_again + Counter(REQUEUED.findall(self._log()))

    def _log(self) -> str:
        return (self._slurm.folder / "log" / "slurmctld").read_text(errors="replace")

    def _states(self) -> dict[str, tuple[str, int]]:
        text = self._slurm.run("squeue", "-h", "-a", "-r", "-t", "all", "-O", FIELDS, ok=False)
        return {job_id: (state, int(restarts)) for job_id, state, restarts in map(str.split, text.splitlines())}


def waiting_again(before: States, after: States) -> list[str]:
    """Jobs that had begun and wait, and that nothing has restarted: an order to requeue counts as a restart."""
    begun = {job_id: restarts for job_id, (state, restarts) in before.items() if state != "PENDING"}
    waiting = {job_id: restarts for job_id, (state, restarts) in after.items() if state == "PENDING"}
    return [job_id for job_id, restarts in begun.items() if waiting.get(job_id) == restarts]
