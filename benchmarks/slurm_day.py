"""A day's mix of jobs on a real Slurm, compressed to minutes: Dally against Slurm's own backfill on the same jobs.

usage: python -m benchmarks.slurm_day [--jobs 600] [--minutes 2.5] [--policy las] [--seed 1] [--slow 1]
                                   [--only dally|slurm] [--keep FOLDER]

A private cluster on this machine (tests/live/slurm_day_site.py): three partitions, features, two types of GPU, two
reservations, licences, and limits of QOS and accounts by slurmdbd. One job in five is odd: blocked by limits,
impossible, heterogeneous, later, held, dependent, an array with a limit, in a reservation and so on. An independent
recorder polls Slurm alone. Jobs are submitted by an ordinary user; they work for a time, write down when they begin
and end, and go on from where they were stopped. First under Slurm's own scheduler, then under `dally serve`.
Needs root and Debian's slurmctld, slurmd, slurm-client, munge, slurmdbd and mariadb-server.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final

from tests.live.slurm_day_site import DayJob, SlurmDaySite, day_of, slurm_day_site
from tests.live.slurm_recorder import SlurmRecorder
from tests.live.slurm_site import missing_for_a_site
from tests.live.test_slurm_setup import User

LONGEST_S: Final = 240.0  # after the last arrival every job that can run must have ended
IDLE_S: Final = 30.0  # a plain job that waits for so long while GPUs that it could have stand idle is starved
USERS_AT_A_TIME: Final = 3
JOB: Final = """#!/bin/bash
mark={folder}/{name}.${{SLURM_ARRAY_TASK_ID:-0}}
left=$(cat $mark.left 2>/dev/null || echo {left})
echo "begin $EPOCHREALTIME" >> $mark
stop() {{ echo "stopped $EPOCHREALTIME" >> $mark; echo $left > $mark.left; exit 0; }}
trap stop TERM
exec {{pipe}}<> <(:)
while ((left > 0)); do read -t 0.2 -u $pipe; left=$((left - 2)); done
trap '' TERM
echo 0 > $mark.left
echo "end $EPOCHREALTIME" >> $mark
"""


@dataclass
class DayOutcome:
    """What became of the jobs under one scheduler."""

    name: str
    submitted_s: dict[int, float] = field(default_factory=dict)  # by number of the job
    refused: list[int] = field(default_factory=list)  # by sbatch
    jct_s: dict[str, float] = field(default_factory=dict)  # by job and task
    unfinished: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)  # run again after their end
    overbooked: list[str] = field(default_factory=list)
    starved: dict[str, float] = field(default_factory=dict)
    longest_idle_s: float = 0.0
    longest_room_s: float = 0.0  # that a plain job waited while some GPUs were free in every look
    utilization: float = 0.0
    makespan_s: float = 0.0
    restarts: int = 0

    def report(self) -> str:
        """A row."""
        counted: tuple[Sized, ...] = (self.refused, self.unfinished, self.overbooked, self.starved, self.again)
        cells = [
            self.name, len(self.jct_s), f"{fmean(self.jct_s.values()):.1f}", f"{100 * self.utilization:.1f}",
            f"{self.makespan_s:.0f}", self.restarts, *map(len, counted), f"{self.longest_idle_s:.0f}",
            f"{self.longest_room_s:.0f}",
        ]  # fmt: skip
        return f"| {' | '.join(map(str, cells))} |"


HEAD: Final = (
    "| scheduler | jobs ended | mean JCT, s | utilization, % | makespan, s | restarts | refused by sbatch | "
    "not ended | overbooked | starved | run again | longest beside idle GPUs, s | longest with room, s |\n"
    + "|---" * 13
    + "|"
)


class Day:
    """One day under one scheduler."""

    def __init__(
        self, site: SlurmDaySite, folder: Path, jobs: Sequence[DayJob], name: str, slow: float = 1.0
    ) -> None:
        self._slow = slow
        self._site, self._user = site, User(site)
        self._folder = folder / name
        self._folder.mkdir()
        self._folder.chmod(0o777)
        self._jobs = jobs
        self._ids: dict[int, str] = {}
        self._last_id = ""
        self._recorder = SlurmRecorder(site)
        self.outcome = DayOutcome(name)

    def run(self) -> DayOutcome:
        """Submit, wait, cancel what never runs, and read what the jobs wrote."""
        began_s = time.time()
        with ThreadPoolExecutor(USERS_AT_A_TIME) as users:
            submissions: list[Future[None]] = []
            releases: list[tuple[float, int]] = []
            for number, job in enumerate(self._jobs):
                self._sleep_until(began_s + job.at_s, releases, began_s)
                if job.after and submissions:
                    submissions[-1].result()
                submissions.append(users.submit(self._submit, number, job))
                if job.release_s >= 0.0:
                    releases.append((job.release_s, number))
            last_s = time.time()
            self._sleep_until(began_s + max((at_s for at_s, _ in releases), default=0.0), releases, began_s)
        until_s = time.time() + LONGEST_S * self._slow
        while time.time() < until_s and self._left():
            time.sleep(1.0)
        self._read(began_s, last_s)
        self._site.cancel_all()
        self._recorder.stop()
        return self.outcome

    def _sleep_until(self, moment_s: float, releases: list[tuple[float, int]], began_s: float) -> None:
        while True:
            for one in [one for one in releases if began_s + one[0] <= time.time() and one[1] in self._ids]:
                releases.remove(one)
                self._user.run("scontrol", "release", self._ids[one[1]], ok=False)
            left_s = moment_s - time.time()
            if left_s <= 0.0:
                return
            time.sleep(min(0.5, left_s))

    def _submit(self, number: int, job: DayJob) -> None:
        script = JOB.format(folder=self._folder, name=f"j{number}", left=round(job.seconds * 10))
        after = ("--dependency", f"afterany:{self._last_id}") if job.after and self._last_id else ()
        words = ("sbatch", "--parsable", "--requeue", "-o", "/dev/null", "-D", "/tmp", *after, *job.options)
        told = self._user.run(*words, ok=False, given=script).strip().split(";")[0]
        if not told:
            self.outcome.refused.append(number)
            return
        self._ids[number] = self._last_id = told
        self.outcome.submitted_s[number] = time.time()
        if not job.odd:
            nodes = max(1, job.gpus // 8)
            self._recorder.asks[told] = (nodes, job.gpus // nodes)

    def _tasks(self) -> Iterator[tuple[int, str, DayJob]]:
        for number, job in enumerate(self._jobs):
            if job.runs and number in self._ids:
                for task in range(job.tasks):
                    yield number, f"j{number}.{task}", job

    def _lines(self, name: str) -> list[list[str]]:
        path = self._folder / name
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def _left(self) -> list[str]:
        return [name for _, name, _ in self._tasks() if not any(line[0] == "end" for line in self._lines(name))]

    def _read(self, began_s: float, last_s: float) -> None:
        outcome, recorder = self.outcome, self._recorder
        ends = []
        for number, name, job in self._tasks():
            lines = self._lines(name)
            words = [line[0] for line in lines]
            outcome.restarts += words.count("stopped")
            if "end" not in words:
                outcome.unfinished.append(f"{name} {job.odd} {' '.join(job.options)}")
                continue
            ended_s = float(lines[words.index("end")][1])
            ends.append(ended_s)
            outcome.jct_s[name] = ended_s - outcome.submitted_s[number]
            if "begin" in words[words.index("end") + 1 :]:
                outcome.again.append(name)
        outcome.makespan_s = max(ends, default=began_s) - began_s
        gpus = len(self._site.nodes) * self._site.gpus
        outcome.utilization = recorder.gpu_s(began_s, last_s) / (gpus * (last_s - began_s))
        outcome.overbooked = recorder.problems
        outcome.starved = {job: idle_s for job, idle_s in recorder.idle_s.items() if idle_s > IDLE_S}
        outcome.longest_idle_s = max(recorder.idle_s.values(), default=0.0)
        outcome.longest_room_s = max(recorder.room_s.values(), default=0.0)


@contextmanager
def dally_serves(site: SlurmDaySite, folder: Path, policy: str) -> Iterator[None]:
    """Set up, served, and rolled back."""
    dally = (sys.executable, "-m", "dally")
    environment = {**os.environ, "SLURM_CONF": str(site.conf)}

    def run(*words: str) -> None:
        subprocess.run((*dally, *words), check=True, env=environment, stdout=subprocess.DEVNULL, timeout=300)

    run("slurm", "setup", "--conf", str(site.conf))
    words = (
        "--backend",
        "slurm",
        "--policy",
        policy,
        "--folder",
        str(folder / "daemon"),
        "--listen",
        "127.0.0.1:0",
    )
    with (folder / "daemon.log").open("wb") as log:
        daemon = subprocess.Popen((*dally, "serve", *words), stdout=subprocess.PIPE, stderr=log, env=environment)
        assert daemon.stdout is not None
        assert daemon.stdout.readline().startswith(b"Scheduling"), (folder / "daemon.log").read_text()
        try:
            yield
        finally:
            daemon.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(60)
            daemon.kill()
            daemon.stdout.close()
            run("slurm", "rollback", "--conf", str(site.conf), "--force")


def measure(name: str, jobs: Sequence[DayJob], given: argparse.Namespace) -> DayOutcome:
    """The day under that scheduler."""
    with tempfile.TemporaryDirectory(prefix="dally-day-") as text, slurm_day_site() as site:
        folder = Path(text)
        folder.chmod(0o755)
        scheduler = dally_serves(site, folder, given.policy) if name == "dally" else nullcontext()
        with scheduler:
            outcome = Day(site, folder, jobs, name, given.slow).run()
        if given.keep is not None:
            shutil.copytree(folder, given.keep, dirs_exist_ok=True)
        return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--minutes", type=float, default=2.5, help="of arrivals")
    parser.add_argument("--policy", default="las")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--slow",
        type=float,
        default=1.0,
        help="all times are so much longer: less hangs on how fast the machine is",
    )
    parser.add_argument("--only", choices=("dally", "slurm"))
    parser.add_argument(
        "--keep", type=Path, help="outcomes, what jobs wrote and the daemon's log go there; an outcome there counts"
    )
    given = parser.parse_args()
    if missing_for_a_site():
        raise SystemExit(f"not installed: {', '.join(missing_for_a_site())}")
    jobs = day_of(given.jobs, given.seed, given.minutes * 60.0, given.slow)
    print(f"{given.jobs} jobs, {sum(job.tasks for job in jobs if job.odd)} of them odd, policy {given.policy}")
    print(HEAD, flush=True)
    outcomes = []
    for name in ("slurm", "dally"):
        kept = given.keep / f"{name}.json" if given.keep is not None else None
        if given.only in (None, name):
            outcomes.append(measure(name, jobs, given))
            if kept is not None:
                kept.write_text(json.dumps(asdict(outcomes[-1])))
        elif kept is not None and kept.exists():
            outcomes.append(DayOutcome(**json.loads(kept.read_text())))
        else:
            continue
        print(outcomes[-1].report(), flush=True)
    sys.exit(bool(judge(outcomes)))


def judge(outcomes: Sequence[DayOutcome]) -> list[str]:
    """What is not as it should be, printed."""
    ours = outcomes[-1]
    result = [f"overbooked: {line}" for line in ours.overbooked[:10]]
    result += [f"not ended: {line}" for line in ours.unfinished] + [f"starved: {job}" for job in ours.starved]
    result += [f"run again: {name}" for name in ours.again]
    if len(outcomes) == 2:
        slurm = outcomes[0]
        both = [name for name in ours.jct_s if name in slurm.jct_s]
        jct_s = [fmean(one.jct_s[name] for name in both) for one in (slurm, ours)]
        print(
            f"{len(both)} jobs that ended under both: mean JCT {jct_s[0]:.1f} s under Slurm, {jct_s[1]:.1f} s here"
        )
        if jct_s[1] >= jct_s[0]:
            result.append("mean JCT is not lower")
        if ours.utilization < slurm.utilization:
            result.append("utilization is lower")
    print("\n".join(result) if result else "as it should be")
    return result


if __name__ == "__main__":
    main()
