"""The daemon dies in each transition that a job on Slurm can come into: nothing is lost, nothing runs twice.

usage: python -m benchmarks.slurm_transitions [--minutes 30] [--seed 1] [--only ROWS] [--keep FILE] [--after FILE]

One daemon schedules a private cluster of 4 nodes under a policy that moves running jobs all the time. Users,
operators and nodes bring jobs into each transition of docs/reconcile.md (benchmarks/slurm_provocations.py), and the
daemon kills itself there: before the orders of that cycle are sent, and once more while they are carried out. A job
writes down when it begins, is stopped and ends, and holds a lock while it runs: a second run at once is seen.
The deaths of this run, and those of an earlier one (`--after`), are written to `--keep`, and beside it the logs of
the daemon and slurmctld, and what jobs wrote with its time.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.live.slurm_cluster import SlurmCluster, need_slurm, slurm_cluster

from benchmarks.command_line import options
from benchmarks.faulty_daemon import MOMENTS
from benchmarks.slurm_faults import FaultyCluster, ended
from benchmarks.slurm_provocations import MEMBERS, Provocations, provocations_for
from benchmarks.slurm_requeues import requeued_by_others, run_again
from dally.live.reconcile.transitions import TABLES

GPUS: Final = 4  # of a node
NODES: Final = 5  # of which four are in the partition
WAITING: Final = 24  # jobs, so that there is always something to start
PER_ARRAY: Final = 8
LAST_S: Final = 300.0  # for all jobs to end, after the last fault
# Rows that no state of Slurm's leads to.
UNREACHABLE: Final = {
    "undone-start-blocked-held": "a job on hold has no start pending: whatever holds it drops or blocks the start",
    "others-start": "a job of another scheduler's that waits is held, and one that boots has its nodes: it runs",
}
JOB: Final = """#!/bin/bash
mark={folder}/${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID
write() {{
  echo $1 >> $mark
  echo $EPOCHREALTIME ${{mark##*/}} run ${{SLURM_RESTART_COUNT:-0}} on $SLURM_JOB_NODELIST $1 >> {folder}/all
}}
exec {{lock}}> $mark.lock
flock -n $lock || write twice
write begin
trap 'write stopped; exit 0' TERM
exec {{pipe}}<> <(:)
for ((tenths = {tenths} + RANDOM % 30; tenths > 0; tenths--)); do read -t 0.1 -u $pipe; done
trap '' TERM
write end
"""


class Jobs:
    """Arrays of jobs of one GPU: some always wait."""

    def __init__(self, slurm: SlurmCluster, marks: Path) -> None:
        self._slurm, self._marks = slurm, marks
        self.ids: list[str] = []

    def refill(self) -> None:
        """More, if few wait."""
        waiting = self._slurm.run("squeue", "-h", "-r", "-t", "PD", "-o", "%i", ok=False).split()
        if len(waiting) < WAITING:
            self._submit(20 if len(self.ids) % (2 * PER_ARRAY) else 100)

    def _submit(self, tenths: int) -> None:
        script = JOB.format(folder=self._marks, tenths=tenths)
        asks = ("-H", "--requeue", f"--array=0-{PER_ARRAY - 1}", "--gres=gpu:1", "-o", "/dev/null")
        array = self._slurm.run("sbatch", "--parsable", *asks, given=script, ok=False).strip()
        if array:
            self._slurm.run("scontrol", "update", f"JobId={array}", "AdminComment=dally:read=1", ok=False)
            self.ids += [f"{array}_{task}" for task in range(PER_ARRAY)]


class Outcome(NamedTuple):
    """What became of the jobs."""

    lines: dict[str, list[str]]  # what each wrote
    lost: list[str]  # they have not come to their end
    again: list[str]  # Dally had them run again after their end,
    by_others: list[str]  # or an operator's requeue or a node's failure


class KeepAlive:
    """Starts the daemon again whenever it has died, as systemd would; for the length of a block."""

    def __init__(self, cluster: FaultyCluster, provocations: Provocations) -> None:
        self._cluster, self._provocations = cluster, provocations
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> KeepAlive:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30.0)

    def _run(self) -> None:
        while not self._over.wait(0.2):
            if not self._provocations.away:
                self._cluster.keep_alive()


def deaths(folder: Path) -> list[str]:
    """Rows and moments in which the daemon has died."""
    return (folder / "killed").read_text().splitlines() if (folder / "killed").exists() else []


def due(folder: Path, only: str) -> set[str]:
    """Rows in which the daemon has not died at both moments."""
    done = deaths(folder)
    rows = {row.id for table in TABLES.values() for row in table if not only or row.id in only.split(",")}
    return {row for row in rows - UNREACHABLE.keys() if any(f"{row} {moment}" not in done for moment in MOMENTS)}


def provoke(provocations: Provocations, jobs: Jobs, folder: Path, minutes: float, only: str) -> None:
    """What leads to rows that are due, in turn, until none is."""
    until_s = time.monotonic() + 60.0 * minutes
    number = 0
    while (rows := due(folder, only)) and time.monotonic() < until_s:
        jobs.refill()
        names = provocations_for(rows)
        if not names:
            time.sleep(3.0)
            continue
        name = names[number % len(names)]
        if name == "be_away" and len(names) > 1 and number % 7:
            name = names[0]  # it takes more than a minute
        number += 1
        provocations.one(name)
        print(f"{name}: {len(deaths(folder))} deaths, {len(rows)} rows are due", file=sys.stderr, flush=True)


def run(slurm: SlurmCluster, folder: Path, minutes: float, seed: int, only: str) -> Outcome:
    """Provoke, and wait for the jobs to end."""
    for name in ("marks", "acts"):
        (folder / name).mkdir()
    (folder / "impatient").touch()
    cluster = FaultyCluster(slurm, folder, seed, ("alpha",))
    provocations = Provocations(slurm, cluster, folder, seed)
    provocations.scontrol("update", "PartitionName=gpu", f"Nodes={MEMBERS}")
    jobs = Jobs(slurm, folder / "marks")
    with KeepAlive(cluster, provocations):
        provoke(provocations, jobs, folder, minutes, only)
        (folder / "killed.off").touch()
        until_s = time.monotonic() + LAST_S
        wanted = [job for job in jobs.ids if job not in provocations.lost]
        while not ended(folder / "marks", wanted) and time.monotonic() < until_s:
            held = slurm.run("squeue", "-h", "-r", "-t", "PD", "-o", "%i %r", ok=False).splitlines()
            by_operator = [line.split()[0] for line in held if line.endswith("JobHeldAdmin")]
            provocations.scontrol("release", *by_operator)
            provocations.act("release", *(line.split()[0] for line in held))
            time.sleep(3.0)
    cluster.stop()
    lines = {job: mark.read_text().split() if (mark := folder / "marks" / job).exists() else [] for job in jobs.ids}
    log = (slurm.folder / "log" / "slurmctld").read_text(errors="replace")
    again, by_others = run_again((folder / "marks" / "all").read_text().splitlines(), requeued_by_others(log))
    return Outcome(lines, [job for job in wanted if "end" not in lines[job]], again, by_others)


def main() -> None:
    given = options(__doc__, minutes=30.0, seed=1, only="", keep="", after="")
    need_slurm()
    with (
        slurm_cluster(1, NODES, GPUS, "MinJobAge=5\n", kind=SpareNode) as slurm,
        tempfile.TemporaryDirectory() as text,
    ):
        folder = Path(text)
        if given.after:
            shutil.copy(given.after, folder / "killed")
        try:
            outcome = run(slurm, folder, given.minutes, given.seed, given.only)
        finally:
            if given.keep:
                shutil.copy(folder / "killed", given.keep)
                for path in (folder / "alpha.log", folder / "marks" / "all", slurm.folder / "log" / "slurmctld"):
                    shutil.copy(path, f"{given.keep}.{path.stem}")
        fine = report(folder, given.only, outcome)
    sys.exit(not fine)


def report(folder: Path, only: str, outcome: Outcome) -> bool:
    """Print what came of it; whether all of it is as it should be."""
    rows, killed = due(folder, only), deaths(folder)
    every = sum(map(len, TABLES.values()))
    both = sum(f"{line.split()[0]} {MOMENTS[1]}" in killed for line in killed if line.endswith(MOMENTS[0]))
    print(f"killed {len(killed)} times, at both moments in {both} of {every} transitions")
    print("\n".join(f"no state of Slurm's leads to {row}: {why}" for row, why in UNREACHABLE.items()))
    print(f"not at both moments: {' '.join(sorted(rows)) or 'none'}")
    lines, lost, again, by_others = outcome
    twice = [job for job, words in lines.items() if "twice" in words]
    runs = sum(words.count("begin") for words in lines.values())
    print(f"{len(lines)} jobs, {runs} runs; {len(lost)} lost {lost[:5]}")
    print(f"{len(twice)} twice at once {twice[:5]}, {len(again)} again after their end {again[:5]}")
    print(f"{len(by_others)} again that an operator or a failed node requeued as they ended {by_others[:5]}")
    return not (lost or twice or again or rows)


class SpareNode(SlurmCluster):
    """Five nodes with features: the last one leaves the partition before the daemon starts."""

    def node_lines(self) -> str:
        """Nodes and partitions in slurm.conf."""
        first = int(self.ports()[1:].split("-")[0])
        nodes = "".join(
            f"NodeName=n{number:02d} NodeAddr=127.0.0.1 Port={first + number - 1} CPUs=64 RealMemory=100000 "
            f"Gres=gpu:{self.gpus} Feature={'one' if number == 1 else 'two'} State=UNKNOWN\n"
            for number in range(1, NODES + 1)
        )
        return f"{nodes}PartitionName=gpu Nodes=n[01-05] Default=YES MaxTime=INFINITE State=UP\n"


if __name__ == "__main__":
    main()
