"""What brings a job on Slurm into each transition of the table: what users, operators and nodes do at a bad moment.

Each method names the rows that it is for (docs/reconcile.md) in `ROWS`; other rows occur on the way.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.live.slurm_cluster import SlurmCluster

from benchmarks.slurm_faults import FaultyCluster

IMPOSSIBLE: Final = "one&two"  # features that no node has both of
MEMBERS: Final = "n[01-04]"  # of the partition `gpu`
SPARE: Final = "n05"  # a node that joins it for a moment
ALL: Final = 10000  # jobs
GONE_AFTER_S: Final = 75.0  # slurmctld forgets jobs that have ended once a minute

# By method: the rows that it is for.
ROWS: Final[dict[str, tuple[str, ...]]] = {
    "cancel": ("cancelled",),
    "submit_odd_jobs": ("new-unschedulable", "new-without-gpus"),
    "outgrow": ("became-unschedulable", "stays-unschedulable"),
    "resize": ("resized",),
    "run_behind_its_back": ("started", "ended-stopping", "new-ended"),
    "move_behind_its_back": ("moved",),
    "run_outside": ("outside",),
    "hold_running": ("hold-stops", "stopping-held", "stopped-held", "send-preempt", "leaving"),
    "hold_and_release": ("stopped", "hold-released"),
    "refuse_to_stop": ("stop-refused", "hold-released"),
    "refuse_moves": ("move-refused", "preempt-refused", "not-started", "about-to-start", "moving", "preempting"),
    "hold_starting": ("start-held", "foreign-release", "released", "held"),
    "lose_node_under_starts": ("undone-start", "undone-starting", "undone-start-held"),
    "close_partition": ("start-blocked", "send-recall", "blocked-over", "blocked-waits", "calling-back", "blocked"),
    "lose_node_under_releases": ("undone-start", "undone-starting", "undone-start-held", "undone-start-blocked"),
    "release_blocked": ("blocked-again", "blocked-waits", "blocked"),
    "requeue": ("foreign-start", "requeued", "requeued-held"),
    "stand_in_the_way": ("start-too-late", "starting", "calling-back"),
    "hold_what_others_run": ("hold-in-vain",),
    "be_away": ("gone", "gone-running"),
}  # fmt: skip


class Provocations:
    """Done to one cluster with one daemon, one after the other."""

    def __init__(self, slurm: SlurmCluster, cluster: FaultyCluster, folder: Path, seed: int) -> None:
        self._slurm, self._cluster, self._folder = slurm, cluster, folder
        self._chance = random.Random(seed)
        self.away = False  # whether no daemon is to be started
        self.lost: set[str] = set()  # jobs that need not end: cancelled, or made impossible

    def one(self, name: str) -> None:
        """That one; the cluster is as before when this returns, as far as operators can have it so."""
        try:
            getattr(self, name)()
        finally:
            for flag in ("refuse",):
                (self._folder / flag).unlink(missing_ok=True)
            self.scontrol("update", "PartitionName=gpu", "State=UP", f"Nodes={MEMBERS}")

    # Users.

    def cancel(self) -> None:
        jobs = [*self.jobs("PD", 1), *self.jobs("R", 1)]
        self.lost.update(jobs)
        self._slurm.run("scancel", *jobs, ok=False)
        time.sleep(2.0)

    def submit_odd_jobs(self) -> None:
        jobs = [self.submit("--gres=gpu:1", "-C", IMPOSSIBLE), self.submit("--gres=gpu:0")]
        self.lost.update(jobs)
        time.sleep(8.0)
        self._slurm.run("scancel", *filter(None, jobs), ok=False)

    def outgrow(self) -> None:
        for job_id in self.jobs("PD", 2):
            self.lost.add(job_id)
            self.scontrol("update", f"JobId={job_id}", f"Features={IMPOSSIBLE}")
            time.sleep(3.0)
            self._slurm.run("scancel", job_id, ok=False)

    def resize(self) -> None:
        for job_id in self.jobs("PD", 2):
            self.scontrol("update", f"JobId={job_id}", "TresPerNode=gres:gpu:2")
            time.sleep(1.5)

    def requeue(self) -> None:
        for verb in ("requeue", "requeuehold"):
            for job_id in self.jobs("R", 2):
                self.scontrol(verb, "Incomplete", job_id)
                if self._chance.random() < 0.5:
                    self.scontrol("hold", job_id)  # an operator's: before the daemon sees it wait
                time.sleep(2.5)
                self.scontrol("release", job_id)

    # Operators of Slurm, while the daemon sleeps.

    def run_behind_its_back(self) -> None:
        with self.asleep():
            for job_id in self.jobs("PD", 3):
                self.start(job_id, self._chance.choice(self._slurm.nodes[:4]))
            time.sleep(self._chance.uniform(1.0, 6.0))
        time.sleep(2.0)

    def move_behind_its_back(self) -> None:
        with self.asleep():
            for job_id in self.jobs("R", 3):
                self.scontrol("requeuehold", "Incomplete", job_id)
                time.sleep(3.0)
                for node in self._slurm.nodes[:4]:
                    self.start(job_id, node)
                    time.sleep(0.5)
            time.sleep(2.0)
        time.sleep(2.0)

    def run_outside(self) -> None:
        for job_id in self.jobs("PD", 2):
            with self.asleep():
                self.scontrol("update", "PartitionName=gpu", "Nodes=n[01-05]")
                self.start(job_id, SPARE)
                self.lost.add(job_id)  # once its node has left the partition, it waits for that node
                time.sleep(2.0)
            time.sleep(1.0)
            self.scontrol("update", "PartitionName=gpu", f"Nodes={MEMBERS}")
            time.sleep(2.0)

    def hold_what_others_run(self) -> None:
        for job_id in self.jobs("PD", 2):
            self.act("hold", job_id)
            time.sleep(2.0)
            with self.asleep():
                self.scontrol("update", f"JobId={job_id}", "Requeue=0")
                self.lost.add(job_id)  # if its node fails, Slurm ends it
                self.start(job_id, self._chance.choice(self._slurm.nodes[:4]))
                time.sleep(2.0)
            time.sleep(3.0)
            self.act("release", job_id)

    # Operators of Dally.

    def hold_running(self) -> None:
        jobs = self.jobs("R", 2)
        self.act("hold", *jobs)
        time.sleep(5.0)
        self.act("release", *jobs)

    def hold_and_release(self) -> None:
        for job_id in self.jobs("R", 3):
            self.act("hold", job_id)
            until_s = time.monotonic() + self._chance.choice((1.0, 10.0))
            while job_id in self.jobs("R", ALL) and time.monotonic() < until_s:
                time.sleep(0.1)
            self.act("release", job_id)
            time.sleep(2.0)

    # Slurm does not answer, or will not.

    def refuse_to_stop(self) -> None:
        jobs = self.jobs("R", 2)
        with self.refused():
            self.act("hold", *jobs)
            time.sleep(9.0)
            self.act("release", *jobs)
            time.sleep(1.5)

    def refuse_moves(self) -> None:
        with self.refused():
            time.sleep(10.0)

    def hold_starting(self) -> None:
        jobs = self.jobs("PD", ALL)
        with self.refused():
            time.sleep(self._chance.uniform(1.0, 4.0))
            self.scontrol("hold", *jobs)
            time.sleep(2.0)
        self.scontrol("release", *jobs)
        time.sleep(2.0)

    def lose_node_under_starts(self) -> None:
        node = self._chance.choice(self._slurm.nodes[:4])
        with self.refused():
            time.sleep(self._chance.uniform(0.5, 3.0))
            self.scontrol("update", f"NodeName={node}", "State=DOWN", "Reason=test")
            time.sleep(self._chance.uniform(0.3, 1.5))
            jobs = self.jobs("PD", self._chance.choice((4, ALL)))
            self.scontrol("hold", *jobs)
            time.sleep(2.0)
        self.scontrol("update", f"NodeName={node}", "State=RESUME")
        self.scontrol("release", *jobs)
        time.sleep(1.0)

    def close_partition(self) -> None:
        self.scontrol("update", "PartitionName=gpu", "State=DOWN")
        time.sleep(self._chance.uniform(4.0, 8.0))
        self.scontrol("update", "PartitionName=gpu", "State=UP")
        time.sleep(6.0)

    def lose_node_under_releases(self) -> None:
        """Jobs are released and cannot start; their node fails, and before the next look at them more happens."""
        in_the_way = self.submit_in_the_way()
        node = self._chance.choice(self._slurm.nodes[:4])
        time.sleep(3.0)
        before = self._failures()
        self.scontrol("update", f"NodeName={node}", "State=DOWN", "Reason=test")
        until_s = time.monotonic() + 6.0
        while self._failures() == before and time.monotonic() < until_s:
            time.sleep(0.02)
        jobs = self.jobs("PD", ALL)
        with self.asleep():
            self._chance.choice((
                lambda: self.scontrol("update", "PartitionName=gpu", "State=DOWN"),
                lambda: self.scontrol("hold", *jobs),
                lambda: None,
            ))()  # fmt: skip
            time.sleep(2.5)
        time.sleep(2.0)
        self._slurm.run("scancel", in_the_way, ok=False)
        self.scontrol("update", f"NodeName={node}", "State=RESUME")
        self.scontrol("update", "PartitionName=gpu", "State=UP")
        self.scontrol("release", *jobs)
        time.sleep(2.0)

    def _failures(self) -> int:
        """How many nodes the daemon has seen fail."""
        return (self._folder / "alpha.log").read_text().count('"event": "fail"')

    def release_blocked(self) -> None:
        for seconds in (5.0, 0.0):
            self.scontrol("update", "PartitionName=gpu", "State=DOWN")
            time.sleep(seconds)
            if seconds:
                self.scontrol("update", "PartitionName=gpu", "State=UP")
                time.sleep(self._chance.uniform(1.0, 4.0))
        self.scontrol("release", *self.jobs("PD", ALL))
        time.sleep(4.0)

    def stand_in_the_way(self) -> None:
        job_id = self.submit_in_the_way()
        time.sleep(14.0)
        self._slurm.run("scancel", job_id, ok=False)

    def submit_in_the_way(self) -> str:
        """A job of another scheduler's, ahead of ours in Slurm's own queue, that wants all nodes."""
        words = ("sbatch", "--parsable", "-N4", "--exclusive", "-o", "/dev/null", "--wrap=sleep 2")
        return self._slurm.run(*words, ok=False).strip()

    def be_away(self) -> None:
        """For so long that slurmctld has forgotten what ended meanwhile."""
        running, waiting = (self.submit("--gres=gpu:1") for _ in range(2))
        self.lost.update((running, waiting))
        self.scontrol("hold", waiting)
        until_s = time.monotonic() + 40.0
        while running not in self.jobs("R", ALL) and time.monotonic() < until_s:
            time.sleep(0.3)
        time.sleep(1.5)
        self.away = True
        self._cluster.signal(signal.SIGKILL)
        self._slurm.run("scancel", running, waiting, ok=False)
        time.sleep(GONE_AFTER_S)
        self.away = False
        time.sleep(6.0)

    # What they are made of.

    def jobs(self, state: str, count: int) -> list[str]:
        """Some, by chance."""
        jobs = self._slurm.run("squeue", "-h", "-r", "-t", state, "-o", "%i", ok=False).split()
        return self._chance.sample(jobs, min(count, len(jobs)))

    def submit(self, *asks: str) -> str:
        """One job, as job_submit.lua would leave it; empty: sbatch refused it."""
        words = ("sbatch", "--parsable", "-H", "--requeue", "-o", "/dev/null", *asks, "--wrap=sleep 60")
        job_id = self._slurm.run(*words, ok=False).strip()
        if job_id:
            self.scontrol("update", f"JobId={job_id}", "AdminComment=dally:read=1")
        return job_id

    def start(self, job_id: str, node: str) -> None:
        """By hand."""
        self.scontrol("update", f"JobId={job_id}", f"ReqNodeList={node}", "StartTime=now")
        self.scontrol("release", job_id)

    def scontrol(self, *words: str) -> None:
        """Slurm's own tool; jobs may have ended."""
        if words[0] in ("hold", "release"):
            words = (words[0], ",".join(words[1:])) if len(words) > 1 else ()
        if words:
            self._slurm.run("scontrol", *words, ok=False)

    def act(self, what: str, *jobs: str) -> None:
        """`dally hold` or `dally release`; the daemon takes it when it is there."""
        for job_id in jobs:
            (self._folder / "acts" / f"{what}-{job_id}").touch()

    @contextmanager
    def refused(self) -> Iterator[None]:
        """scontrol says that slurmctld does not answer."""
        (self._folder / "refuse").touch()
        try:
            yield
        finally:
            (self._folder / "refuse").unlink(missing_ok=True)

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """The daemon sees nothing meanwhile."""
        self._cluster.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._cluster.signal(signal.SIGCONT)


def provocations_for(rows: set[str]) -> list[str]:
    """Which are for at least one of these rows."""
    return [name for name, of_it in ROWS.items() if rows.intersection(of_it)]
