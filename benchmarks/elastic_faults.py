"""Elastic jobs on a real Slurm or Kubernetes API server, resized all the time, while the daemon is killed.

usage: python -m benchmarks.elastic_faults [--backend slurm|kubernetes] [--jobs 40] [--seconds 120] [--seed 1]

The policy is benchmarks/restless_sizes.py. The daemon gets SIGKILL every few seconds, at random moments, as soon as
a job is on its way from one size to another; another follows at once. For so many seconds; then every job must come
to its end. Counted are deaths with such a job under way, sizes at which jobs began, jobs that ran twice at once or
again after their end, that never ended, and GPUs that two jobs had at one time. Needs root on Slurm.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.live.kube_cluster import JOBS, KubeCluster, job, kube_cluster
from tests.live.kube_recorder import Recorder
from tests.live.slurm_bench import gpus_of
from tests.live.slurm_cluster import SlurmCluster, need_slurm, slurm_cluster

from benchmarks.command_line import options
from benchmarks.slurm_short import ShortJobs

POLICY: Final = f"{Path(__file__).with_name('restless_sizes.py')}:RestlessSizes"
PAUSE_S: Final = 4.0  # between two deaths on average
ENDS_WITHIN_S: Final = 420.0  # after the last
GPUS: Final = 8  # of a node
# What a job asks of Slurm, and its sizes.
ASKS: Final = (
    ("--nodes=1-3 --gpus-per-node=4", ""),
    ("--nodes=1 --gpus-per-node=8", "8:24:8"),
    ("--gpus=4", "2:8:2"),
    ("--gpus=2", "1,2,4"),
)
# Pods, GPUs of each, and the sizes of a Job.
PODS: Final = ((1, 4, "4:12"), (1, 8, "8:24"), (2, 2, "2:8"), (2, 1, "1,2,4"))
# Counts tenths of a second, and goes on from where it was stopped; what is left does not pass while it is paused.
SCRIPT: Final = """#!/bin/bash
mark={folder}/$SLURM_JOB_ID
left=$(cat $mark.left 2>/dev/null || echo {tenths})
echo begin >> $mark
echo $SLURM_JOB_NUM_NODES $SLURM_GPUS_ON_NODE >> $mark.sizes
trap 'echo $left > $mark.left; echo stopped >> $mark; exit 0' TERM
exec {{pipe}}<> <(:)
for ((; left > 0; left--)); do read -t 0.1 -u $pipe; done
trap '' TERM
echo end >> $mark
"""


@dataclass
class Outcome:
    """What became of the jobs."""

    deaths: int = 0
    in_resizes: int = 0  # deaths while a job was on its way from one size to another
    resizes: int = 0
    sizes: Counter[str] = field(default_factory=Counter)  # starts by GPUs
    lost: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)  # GPUs that two jobs had, a line each

    def report(self, jobs: int) -> str:
        """For people."""
        return (
            f"{jobs} jobs, {self.deaths} deaths, {self.in_resizes} of them in resizes, {self.resizes} resizes, "
            f"starts by GPUs {dict(sorted(self.sizes.items(), key=lambda item: int(item[0])))}: "
            f"{len(self.lost)} lost {self.lost[:5]}, {len(self.again)} run again after their end {self.again[:5]}, "
            f"{len(self.twice)} begun twice {self.twice[:5]}, {len(self.shared)} GPUs given twice {self.shared[:3]}"
        )

    @property
    def holds(self) -> bool:
        """Whether nothing was lost and no GPU was two jobs'."""
        return not (self.lost or self.again or self.twice or self.shared)


class Daemon:
    """One at a time; one that was killed is followed by another, which knows what the store knows."""

    def __init__(self, folder: Path, conf: str, backend: str, share: float) -> None:
        (folder / "policy").write_text(json.dumps({"policy": POLICY, "share": f"{share:g}"}))
        (folder / "killed.off").touch()  # it does not die by itself
        (folder / "host").mkdir(mode=0o700)
        (folder / "acts").mkdir()
        self._folder = folder
        self._words = (sys.executable, "-m", "benchmarks.faulty_daemon", str(folder), conf, "host", backend)
        self._process: subprocess.Popen[bytes] | None = None
        self._began_s = 0.0

    def keep_alive(self) -> None:
        """Start one if there is none."""
        if self._process is None or self._process.poll() is not None:
            self._began_s = time.time()
            with (self._folder / "daemon.log").open("ab") as log:
                self._process = subprocess.Popen(self._words, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """At the end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(40)
        except subprocess.TimeoutExpired:
            self.kill()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Of its store; none while there is none, or it is being written."""
        path = self._folder / "host" / "dally.db"
        if not path.exists():
            return []
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)) as store:
                return store.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []

    def leads(self) -> bool:
        """Whether it has written to the store: on Kubernetes it waits for the lease of the one that was killed."""
        return any(path.stat().st_mtime > self._began_s for path in (self._folder / "host").glob("dally.db*"))

    def in_resize(self) -> bool:
        """Whether the store has an order of a job that was last told to go to another size."""
        latest = dict(self.rows("select job_id, kind from events where kind in ('start', 'resize') order by id"))
        due = self.rows("select job_id from pending_orders where desired = 'run'")
        return any(latest.get(job_id) == "resize" for (job_id,) in due)

    def resizes(self) -> int:
        """So far."""
        return sum(int(count) for (count,) in self.rows("select count(*) from events where kind = 'resize'"))


def endure(
    daemon: Daemon, seconds: float, chance: random.Random, look: Callable[[], None], ended: Callable[[], bool]
) -> Outcome:
    """Deaths for so many seconds, and then until all jobs have ended."""
    result = Outcome()
    began_s = time.monotonic()
    due_s = began_s + 3.0 * PAUSE_S
    while not ended():
        daemon.keep_alive()
        now_s = time.monotonic()
        if now_s > began_s + seconds + ENDS_WITHIN_S:
            break
        late = now_s > due_s + 2.0 * PAUSE_S
        if due_s < now_s < began_s + seconds and daemon.leads() and (late or daemon.in_resize()):
            time.sleep(chance.uniform(0.0, 1.0))
            result.in_resizes += daemon.in_resize()
            daemon.kill()
            result.deaths += 1
            due_s = now_s + chance.uniform(0.5, 1.5) * PAUSE_S
        look()
        time.sleep(0.3)
    result.resizes = daemon.resizes()
    daemon.stop()
    return result


def on_slurm(slurm: SlurmCluster, folder: Path, jobs: int, seconds: float, seed: int) -> Outcome:
    """With jobs that go on where they were stopped."""
    chance = random.Random(seed)
    marks = folder / "marks"
    marks.mkdir()
    ids = []
    for number in range(jobs):
        asks, sizes = ASKS[number % len(ASKS)]
        stated = {"preempt": "yes"} | ({"gpus": sizes} if sizes else {})
        words = ("-H", "--requeue", "-o", "/dev/null", f"--comment={json.dumps(stated)}", *asks.split())
        script = SCRIPT.format(folder=marks, tenths=chance.randint(100, 300))
        ids.append(slurm.run("sbatch", "--parsable", *words, given=script).strip())
        slurm.run("scontrol", "update", f"JobId={ids[-1]}", "AdminComment=dally:read=1")
    shared: list[str] = []

    def look() -> None:
        rows = json.loads(slurm.run("squeue", "--json", ok=False) or '{"jobs": []}')["jobs"]
        shared.extend(twice_given(row for row in rows if row.get("gres_detail") and row["job_state"] == "RUNNING"))

    def ended() -> bool:
        return all("end" in words_of(marks / job_id) for job_id in ids)

    result = endure(Daemon(folder, str(slurm.conf), "slurm", 0.1), seconds, chance, look, ended)
    lines = ShortJobs({job_id: words_of(marks / job_id) for job_id in ids})
    result.shared, result.again, result.twice = shared, lines.again, lines.twice
    result.lost = [job_id for job_id in ids if "end" not in lines.lines[job_id]]
    for job_id in ids:
        numbers = [int(word) for word in words_of(marks / f"{job_id}.sizes")]
        result.sizes.update(str(nodes * each) for nodes, each in zip(numbers[::2], numbers[1::2], strict=True))
    return result


def words_of(path: Path) -> list[str]:
    """What a job wrote."""
    return path.read_text().split() if path.exists() else []


def twice_given(rows: Iterable[dict[str, Any]]) -> list[str]:
    """GPUs that two of these jobs have, by Slurm's own numbers."""
    owner: dict[tuple[str, int], int] = {}
    result = []
    for row in rows:
        for gpu in gpus_of(row):
            if owner.setdefault(gpu, row["job_id"]) != row["job_id"]:
                result.append(f"GPU {gpu} of jobs {owner[gpu]} and {row['job_id']}")
    return result


def on_kubernetes(kube: KubeCluster, folder: Path, jobs: int, seconds: float, seed: int) -> Outcome:
    """With Jobs whose pods begin anew; a recorder of its own sees every version of every pod."""
    chance = random.Random(seed)
    recorder = Recorder(kube, GPUS)
    names = [f"e{number}" for number in range(jobs)]
    for number, name in enumerate(names):
        pods, gpus, sizes = PODS[number % len(PODS)]
        body = job(name, pods, gpus, chance.uniform(8.0, 16.0))
        body["spec"]["template"]["metadata"]["annotations"]["dally.io/gpus"] = sizes
        del body["spec"]["completions"]
        kube.admin.post(JOBS, body)

    def ended() -> bool:
        return len(_complete(kube)) == jobs

    result = endure(Daemon(folder, kube.config, "kubernetes", 0.1), seconds, chance, lambda: None, ended)
    result.lost = sorted({*names} - _complete(kube))
    recorder.stop()
    result.shared = recorder.problems
    for name in names:
        result.sizes.update(str(sum(placement.values())) for placement in recorder.placements(name))
    return result


def _complete(kube: KubeCluster) -> set[str]:
    rows = kube.admin.get(JOBS)["items"]
    return {
        row["metadata"]["name"]
        for row in rows
        for condition in row["status"].get("conditions") or ()
        if condition["type"] == "Complete" and condition["status"] == "True"
    }


def main() -> None:
    given = options(__doc__, backend="slurm", jobs=40, seconds=120.0, seed=1)
    with tempfile.TemporaryDirectory(prefix="dally-elastic-", ignore_cleanup_errors=True) as text:
        folder = Path(text)
        if given.backend == "slurm":
            need_slurm()
            with slurm_cluster(2, 4, GPUS, "MinJobAge=20\n") as slurm:
                result = on_slurm(slurm, folder, given.jobs, given.seconds, given.seed)
        else:
            (folder / "kube").mkdir()
            with kube_cluster(folder / "kube", 8) as kube:
                result = on_kubernetes(kube, folder, given.jobs, given.seconds, given.seed)
        if os.environ.get("KEEP_LOG"):
            Path(os.environ["KEEP_LOG"]).write_bytes((folder / "daemon.log").read_bytes())
    print(result.report(given.jobs), flush=True)
    sys.exit(not result.holds)


if __name__ == "__main__":
    main()
