"""Faults on a real Slurm: nothing is lost, nothing runs twice at once, and no finished job runs again.

usage: python -m benchmarks.slurm_faults [--jobs 300] [--seconds 240] [--seed 1]

Two daemons on two hosts (host name, /run and network of their own by namespaces; the lease in Slurm is what they
share) schedule one private cluster under a policy that moves running jobs all the time. Each is killed in every
transition of the table (docs/reconcile.md) that occurs, before its orders are sent and while they are carried out;
benchmarks/slurm_transitions.py has all of them occur. Meanwhile slurmctld and slurmd are killed, tools print half
of their output or hang, clocks jump, a store is deleted, the host that leads sleeps or loses its network for longer
than its lease lasts, and users hold, release and requeue jobs. Needs root.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.live.slurm_cluster import SlurmCluster, need_slurm, slurm_cluster

from benchmarks.command_line import options
from benchmarks.own_host import COMMAND as OWN_HOST
from benchmarks.own_host import uplink
from benchmarks.slurm_forgotten import ForgottenRuns
from benchmarks.slurm_short import GPUS, MACHINES, ShortJobs, submit
from dally.live.reconcile.transitions import TABLES

HOSTS: Final = ("alpha", "beta")
PAUSE_S: Final = 8.0  # between two faults
HALF: Final = """#!/bin/sh
if [ -e {folder}/half ]; then {tool} "$@" > {folder}/half.$$; head -c $(($(stat -c %s {folder}/half.$$) / 2)) \
{folder}/half.$$; rm {folder}/half.$$; exit 0; fi
if [ -e {folder}/hang ]; then sleep 15; fi
if [ {name} = scontrol ] && [ -e {folder}/refuse ]; then echo "Unable to contact slurm controller" >&2; exit 1; fi
exec {tool} "$@"
"""


class FaultyCluster:
    """The cluster, its two daemons, and what can be done to them."""

    def __init__(self, slurm: SlurmCluster, folder: Path, seed: int, hosts: Sequence[str] = HOSTS) -> None:
        self._slurm, self._folder, self._hosts = slurm, folder, hosts
        self._chance = random.Random(seed)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.counts: Counter[str] = Counter()
        self.forgotten = ForgottenRuns(slurm)
        self._write_tools()
        self._uplinks = {host: uplink(folder / f"{host}.net", slurm.controller_port) for host in hosts}
        for host in hosts:
            (folder / host).mkdir(mode=0o700)
        self.faults: tuple[Callable[[], None], ...] = (
            self.kill_controller, self.half_output, self.lose_store, self.cut_network, self.clock_ahead,
            self.requeue, self.sleep_over_the_lease, self.kill_node, self.clock_behind, self.hang, self.hold,
        )  # fmt: skip

    def _write_tools(self) -> None:
        (self._folder / "tools").mkdir()
        for name in ("squeue", "sinfo", "scontrol"):
            tool = self._folder / "tools" / name
            tool.write_text(HALF.format(folder=self._folder, tool=shutil.which(name), name=name))
            tool.chmod(0o755)

    def keep_alive(self) -> None:
        """Start daemons that have died, as systemd would."""
        path = f"{self._folder}/tools:{os.environ['PATH']}"
        for host in self._hosts:
            daemon = self._daemons.get(host)
            if daemon is not None and daemon.poll() is None:
                continue
            command = (*OWN_HOST, str(self._folder / f"{host}.net"), str(self._slurm.controller_port), host)
            words = (sys.executable, "-m", "benchmarks.faulty_daemon", str(self._folder), str(self._slurm.conf))
            with (self._folder / f"{host}.log").open("ab") as log:
                self._daemons[host] = subprocess.Popen(
                    (*command, *words, host, "slurm", "forks"),
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"},
                )

    def signal(self, number: int) -> None:
        """To all daemons."""
        for host in self._daemons:
            self._signal(host, number)

    def _signal(self, host: str, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._daemons[host].pid, number)

    def stop(self) -> None:
        """All daemons."""
        self.signal(signal.SIGTERM)
        for daemon in self._daemons.values():
            try:
                daemon.wait(40)
            except subprocess.TimeoutExpired:
                self.signal(signal.SIGKILL)
                daemon.wait()
        for link in self._uplinks.values():
            link.close()

    def kill_controller(self) -> None:
        self.forgotten.kill_controller()

    def resume_nodes(self) -> None:
        """As an operator would: slurmctld drains nodes where it finds jobs that it forgot (Duplicate jobid)."""
        for node in sorted({*self._slurm.run("sinfo", "-h", "-N", "-t", "drain", "-o", "%N", ok=False).split()}):
            self._slurm.run("scontrol", "update", f"NodeName={node}", "State=RESUME", ok=False)

    def kill_node(self) -> None:
        node = self._chance.choice(self._slurm.nodes)
        self._slurm.stop_one(node, signal.SIGKILL)
        time.sleep(1.0)
        self._slurm.start_node(node)

    def half_output(self) -> None:
        self._while("half", 4.0)

    def hang(self) -> None:
        self._while("hang", 8.0)

    def _while(self, name: str, seconds: float) -> None:
        (self._folder / name).touch()
        time.sleep(seconds)
        (self._folder / name).unlink()

    def clock_ahead(self) -> None:
        self._jump(3600.0)

    def clock_behind(self) -> None:
        self._jump(-7200.0)

    def _jump(self, seconds: float) -> None:
        """And back."""
        (self._folder / "clock").write_text(f"{seconds}")
        time.sleep(6.0)
        (self._folder / "clock").unlink()

    def sleep_over_the_lease(self) -> None:
        """The daemon that leads, so that the other one takes over; then it wakes up with its old decisions."""
        host = self._leader()
        self._signal(host, signal.SIGSTOP)
        time.sleep(12.0)
        self._signal(host, signal.SIGCONT)

    def cut_network(self) -> None:
        """Of the host that leads, for longer than its lease: its daemon goes on with what it knew."""
        link = self._uplinks[self._leader()]
        link.cut(True)
        time.sleep(12.0)
        link.cut(False)

    def _leader(self) -> str:
        """The host that wrote last: the other one waits."""
        return max(self._hosts, key=self._written_s)

    def _written_s(self, host: str) -> float:
        """When its store was last written."""
        return max((one.stat().st_mtime for one in (self._folder / host).glob("*.db*")), default=0.0)

    def lose_store(self) -> None:
        host = self._leader()
        self._signal(host, signal.SIGKILL)
        self._daemons[host].wait()
        for path in (self._folder / host).glob("*.db*"):
            path.unlink()

    def hold(self) -> None:
        jobs = self._jobs("PD")[:3]
        self._slurm.run("scontrol", "uhold", *jobs, ok=False)
        time.sleep(2.0)
        self._slurm.run("scontrol", "release", *jobs, ok=False)

    def requeue(self) -> None:
        for job_id in self._jobs("R")[:3]:
            self._slurm.run("scontrol", "requeue", "Incomplete", job_id, ok=False)

    def _jobs(self, state: str) -> list[str]:
        jobs = self._slurm.run("squeue", "-h", "-r", "-t", state, "-o", "%i", ok=False).split()
        return self._chance.sample(jobs, len(jobs))


def ended(marks: Path, jobs: list[str]) -> bool:
    """All of them, by their own account."""
    return all((marks / job).exists() and "end" in (marks / job).read_text() for job in jobs)


def run(slurm: SlurmCluster, folder: Path, jobs: int, seconds: float, seed: int) -> tuple[ShortJobs, FaultyCluster]:
    """Faults for so many seconds, and then until every job has ended."""
    marks = folder / "marks"
    marks.mkdir()
    ids = submit(slurm, marks, jobs, 4)
    cluster = FaultyCluster(slurm, folder, seed)
    began_s = time.monotonic()
    number = looked = 0
    while not ended(marks, ids):
        cluster.keep_alive()
        now_s = time.monotonic() - began_s
        if now_s > (looked + 1) * PAUSE_S:
            looked += 1
            cluster.resume_nodes()
        if now_s > seconds + 300.0:
            break
        if now_s < seconds and now_s > (number + 1) * PAUSE_S:
            fault = cluster.faults[number % len(cluster.faults)]
            fault()
            cluster.counts[fault.__name__.replace("_", " ")] += 1
            number += 1
        time.sleep(0.3)
    cluster.stop()
    lines = {job: (marks / job).read_text().split() if (marks / job).exists() else [] for job in ids}
    return ShortJobs(lines, forgotten=cluster.forgotten.runs), cluster


def main() -> None:
    given = options(__doc__, jobs=300, seconds=240.0, seed=1)
    need_slurm()
    with (
        slurm_cluster(2, MACHINES, GPUS, "MinJobAge=20\n") as slurm,
        tempfile.TemporaryDirectory() as text,
    ):
        folder = Path(text)
        result, cluster = run(slurm, folder, given.jobs, given.seconds, given.seed)
        killed = (folder / "killed").read_text().splitlines() if (folder / "killed").exists() else []
        if os.environ.get("KEEP_LOG"):
            for host in HOSTS:
                shutil.copy(folder / f"{host}.log", f"{os.environ['KEEP_LOG']}.{host}")
        rows = {line.split()[0] for line in killed}
        print(", ".join(f"{name} {count}" for name, count in cluster.counts.items()))
        print(f"{len(killed)} deaths")
        print(f"killed in {len(rows)} of {sum(map(len, TABLES.values()))} transitions: {' '.join(sorted(rows))}")
        print(result.report())
        lost = [job for job, lines in result.lines.items() if "end" not in lines]
        print(f"{len(lost)} lost {lost[:5]}", flush=True)
    sys.exit(bool(result.again or result.twice or lost))


if __name__ == "__main__":
    main()
