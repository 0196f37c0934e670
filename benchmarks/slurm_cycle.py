"""CPU of whole cycles on a real Slurm: 128 nodes of 8 GPUs, 2,000 jobs that wait, reading it included.

usage: python -m benchmarks.slurm_cycle [--cycles 300] [--jobs 2000] [--racks 16] [--policy dally] [--starts 500]

With --starts, how many jobs of one GPU start in a second, beside what `scontrol` alone reaches: an update and a
release for each, as many at a time.

A private cluster on this machine: slurmctld, a slurmd for every node (its GPUs are pretended), jobs that sleep. The
daemon, its store and its Slurm backend are the real ones, and nothing is a dry run: jobs are started, preempted and
requeued, and as many are submitted as start. Needs Debian's slurmctld, slurmd, slurm-client and munge, and 3 GB of
memory. A turn counts with the wait for changes after it: `dally serve` does both about once a second.
"""

from __future__ import annotations

import os
import random
import resource
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.live.slurm_cluster import SlurmCluster, need_slurm, slurm_cluster

from benchmarks.command_line import options, silence_log
from dally import is_compiled
from dally.live.assembly import Service
from dally.live.backends.slurm import SlurmBackend
from dally.live.backends.slurm.starter import AT_A_TIME
from dally.live.config import Config, Setup

MACHINES: Final = 8  # of a rack
GPUS: Final = 8  # of a machine
LIMIT_S: Final = 1.0  # at the 99th percentile
SIZES: Final = (1, 2, 4, 8, 8, 16, 16, 32, 64)
MODELS: Final = ("resnet50", "bert-large", "gpt2-medium", "vgg16")
SUBMIT_AT_A_TIME: Final = 2
SETTINGS: Final = "SlurmdTimeout=3600\nTreeWidth=200\n"  # whoever measures beside us must not turn nodes down


class Cpu(NamedTuple):
    """CPU seconds of one cycle: our own, and of Slurm's tools that we called."""

    ours: float
    tools: float

    def both(self) -> float:
        """Together."""
        return self.ours + self.tools


def spent() -> Cpu:
    """By this process so far, and by its children that have ended."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return Cpu(own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime)


def of(work: Callable[[], object]) -> Cpu:
    """What the work costs."""
    before = spent()
    work()
    after = spent()
    return Cpu(after.ours - before.ours, after.tools - before.tools)


class Users:
    """Keep so many jobs waiting; each sleeps a minute to five."""

    def __init__(self, slurm: SlurmCluster, seed: int = 1) -> None:
        self._slurm = slurm
        self._chance = random.Random(seed)

    def submit(self, count: int) -> None:
        """So many more."""
        words = [self._words() for _ in range(count)]
        with ThreadPoolExecutor(SUBMIT_AT_A_TIME) as users:
            list(users.map(self._submit, words))

    def _submit(self, words: list[str]) -> None:
        job_id = self._slurm.run(*words).strip()
        self._slurm.run("scontrol", "update", f"JobId={job_id}", "AdminComment=dally:read=1")  # as job_submit.lua

    def _words(self) -> list[str]:
        chance = self._chance
        gpus, seconds = chance.choice(SIZES), chance.uniform(60.0, 300.0)
        nodes = max(1, gpus // GPUS)
        facts = f'{{"model": "{chance.choice(MODELS)}", "expected": {seconds:.0f}}}'
        asks = ["-H", "--requeue", "-N", str(nodes), f"--gpus-per-node={gpus // nodes}", "-o", "/dev/null"]
        return ["sbatch", "--parsable", *asks, f"--comment={facts}", f"--wrap=exec sleep {seconds:.0f}"]


def submit_single(slurm: SlurmCluster, count: int) -> list[str]:
    """So many waiting jobs of one GPU, as an array."""
    asks = ("-H", "--requeue", f"--array=0-{count - 1}", "--gres=gpu:1", "-o", "/dev/null")
    array = slurm.run("sbatch", "--parsable", *asks, "--wrap=exec sleep 900").strip()
    slurm.run("scontrol", "update", f"JobId={array}", "AdminComment=dally:read=1")
    return [f"{array}_{task}" for task in range(count)]


def bare_starts_per_s(slurm: SlurmCluster, jobs: list[str]) -> float:
    """What `scontrol` reaches."""

    def start(numbered: tuple[int, str]) -> None:
        number, job_id = numbered
        node = slurm.nodes[number // GPUS]
        slurm.run("scontrol", "update", f"JobId={job_id}", f"ReqNodeList={node}", "StartTime=now")
        slurm.run("scontrol", "release", job_id)

    began_s = time.monotonic()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(start, enumerate(jobs)))
    return len(jobs) / (time.monotonic() - began_s)


def our_starts_per_s(
    slurm: SlurmCluster, folder: Path, policy: str, jobs: list[str], starts: int
) -> tuple[float, float]:
    """Until the last of so many is released, by the daemon; and how long an operator's lock was taken at most."""
    backend = SlurmBackend(conf=str(slurm.conf))
    service = Service(Config(folder=folder, backend="slurm", setup=Setup(policy, network="slow")), backend)
    daemon, waits = service.daemon, [0.0]
    over = threading.Event()

    def operator() -> None:
        while not over.wait(0.05):
            asked_s = time.monotonic()
            with daemon.lock:
                waits.append(time.monotonic() - asked_s)

    threading.Thread(target=operator, daemon=True).start()
    began_s = time.monotonic()
    released = 0
    while released < starts:
        daemon.run_cycle()
        records = (backend._records.get(job_id) for job_id in jobs)
        released = sum(record is not None and (record.released or not record.pending) for record in records)
    took_s = time.monotonic() - began_s
    over.set()
    service.close()
    return starts / took_s, max(waits)


def measure_starts(racks: int, jobs: int, starts: int, policy: str) -> None:
    """Print both, on a cluster each."""
    with slurm_cluster(racks, MACHINES, GPUS, SETTINGS) as slurm:
        bare = bare_starts_per_s(slurm, submit_single(slurm, jobs)[:starts])
        slurm.cancel_all()
        slurm.settle()
        ours_ids = submit_single(slurm, jobs)
        with tempfile.TemporaryDirectory() as folder:
            ours, waited_s = our_starts_per_s(slurm, Path(folder), policy, ours_ids, starts)
    print(
        f"{racks * MACHINES} nodes, {jobs} waiting, {starts} starts: scontrol alone {bare:.1f} a second,", end=" "
    )
    print(f"Dally {ours:.1f} a second ({100.0 * ours / bare:.0f} %); an operator waited {waited_s:.2f} s at most")


def controller_cpu_s(slurm: SlurmCluster) -> float:
    """CPU seconds of slurmctld so far."""
    fields = Path(f"/proc/{slurm.process_id('slurmctld')}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def line(name: str, values: list[float]) -> str:
    ranked = sorted(values)
    picked = [ranked[min(len(ranked) - 1, int(len(ranked) * share))] for share in (0.5, 0.95, 0.99)]
    return "| {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} |".format(
        name, *(1000.0 * one for one in (*picked, ranked[-1]))
    )


def measure(slurm: SlurmCluster, folder: Path, cycles: int, jobs: int, policy: str) -> list[Cpu]:
    """The cycles but the first, in which everything is new."""
    backend = SlurmBackend(conf=str(slurm.conf))
    service = Service(Config(folder=folder, backend="slurm", setup=Setup(policy, network="slow")), backend)
    daemon, users = service.daemon, Users(slurm)
    kinds: Counter[str] = Counter()
    daemon.watchers.append(lambda turn, _cpu_s: kinds.update(row["kind"] for row in turn.log))
    users.submit(jobs)
    first = of(daemon.run_cycle)
    print(f"first turn: {jobs} jobs taken in, {kinds['start']} started:", end=" ")
    print(f"{first.ours:.2f} s of CPU ours, {first.tools:.2f} s Slurm's tools'", flush=True)
    kinds.clear()
    found: list[Cpu] = []
    waiting: list[int] = []
    controller_s = controller_cpu_s(slurm)

    def cycle() -> None:
        daemon.run_cycle()
        backend.wait(1.0)

    for _ in range(cycles):
        waiting.append(sum(one.place is not None for one in daemon.status.jobs))
        users.submit(jobs - waiting[-1])
        found.append(of(cycle))
    controller_s = controller_cpu_s(slurm) - controller_s
    running = sum(one.state == "running" for one in daemon.status.jobs)
    print(f"{cycles} cycles: {len(slurm.nodes)} nodes, {min(waiting)} to {max(waiting)} jobs waiting;", end=" ")
    print(f"{kinds['start']} started, {kinds['preempt']} preempted, {running} running at the end;")
    print(f"slurmctld itself took {1000.0 * controller_s / cycles:.0f} ms of CPU a cycle")
    service.close()
    return found


def main() -> None:
    given = options(__doc__, cycles=300, jobs=2000, racks=16, policy="dally", starts=0)
    need_slurm()
    silence_log()
    print(f"dally is {'' if is_compiled() else 'not '}compiled, policy {given.policy}")
    if given.starts:
        measure_starts(given.racks, given.jobs, given.starts, given.policy)
        return
    with slurm_cluster(given.racks, MACHINES, GPUS, SETTINGS) as slurm, tempfile.TemporaryDirectory() as folder:
        found = measure(slurm, Path(folder), given.cycles, given.jobs, given.policy)
    print("| CPU, ms | p50 | p95 | p99 | most |\n|---|---|---|---|---|")
    print(line("ours", [one.ours for one in found]))
    print(line("Slurm's tools", [one.tools for one in found]))
    both = [one.both() for one in found]
    print(line("together", both))
    fine = sorted(both)[int(len(both) * 0.99)] <= LIMIT_S
    print(f"at most {1000.0 * LIMIT_S:.0f} ms at p99: {'fine' if fine else 'MISSED'}")


if __name__ == "__main__":
    main()
