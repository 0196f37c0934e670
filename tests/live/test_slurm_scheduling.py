"""Dally schedules a real Slurm: what it decides is what happens, whatever goes wrong."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from sqlalchemy import select

from dally.live.backends import base
from dally.live.backends.base import Placement
from dally.live.backends.slurm import SlurmBackend
from dally.live.config import Setup
from dally.live.overrides import HOLD, Override
from dally.live.store.log_rows import act_row
from dally.live.store.schema import JOBS
from tests.live.slurm_bench import SlurmBench
from tests.live.slurm_cluster import SlurmCluster

SPEED = 100.0  # a second is 100 of the engine's
PAPER = Setup("dally-paper-manual", {"lease_s": "400", "floors": "1,2"}, restart_per_gpu_s=0.0)


def test_sixty_jobs(slurm: SlurmCluster, tmp_path: Path) -> None:
    """All finish, where it was decided; preemption with a checkpoint, resuming elsewhere, and renewal happen."""
    chance = random.Random(2)
    bench = SlurmBench(slurm, tmp_path, PAPER, SPEED)
    submit_many(bench, 60, chance)
    bench.go_on(bench.ended, 150.0)
    for _ in range(
        4
    ):  # who goes on where depends on which second a real job ends in: mostly some do elsewhere at once
        if went_on_elsewhere(bench):
            break
        submit_many(bench, 30, chance)
        bench.go_on(bench.ended, 150.0)
    bench.submit(8, 6.0)  # alone, and longer than a lease
    bench.go_on(bench.ended)
    assert bench.problems == []
    undone = bench.events("start_failed", "adopt", "evict")
    assert undone == [], [(row["kind"], row["job_id"], row["reason"]) for row in undone]
    for job_id in bench.submitted:
        check_decided(bench, job_id)
    assert bench.events("preempt")
    assert bench.events("renew")
    assert went_on_elsewhere(bench)


def submit_many(bench: SlurmBench, jobs: int, chance: random.Random) -> None:
    for number in range(jobs):
        gpus = chance.choices((1, 2, 4, 8, 16, 32, 64), (6, 4, 6, 8, 6, 4, 2))[0]
        bench.submit(gpus, chance.uniform(0.8, 3.0) if number % 15 else 6.0, model=chance.choice(("vgg16", "bert")))
        if number % 10 == 9:
            bench.cycle()


def went_on_elsewhere(bench: SlurmBench) -> bool:
    """Whether a job that was stopped went on on other machines."""
    runs = [bench.begun_on(job_id) for job_id in bench.submitted]
    return any(len(nodes) > 1 and nodes[0] != nodes[1] for nodes in runs)


def check_decided(bench: SlurmBench, job_id: str) -> None:
    """It ran where the log says, GPU by GPU, and went on each time from where it had stopped."""
    decided: list[Placement] = [row["placement"] for row in bench.events("start") if row["job_id"] == job_id]
    seen = [bench.backend.runs.get(job_id, {})[run] for run in sorted(bench.backend.runs.get(job_id, {}))]
    assert within(seen, decided), (job_id, seen, decided)
    assert within(bench.begun_on(job_id), [set(placement) for placement in decided]), (job_id, decided)
    saved = "0"
    for line in bench.marks(job_id).splitlines():
        word, count = line.split()[:2]
        assert word != "begin" or count == saved, bench.marks(job_id)
        saved = count if word in ("saved", "end") else saved


def within(some: Sequence[object], every: Iterable[object]) -> bool:
    """All of `some` come in `every`, in that order; what was called back before it began is not among them."""
    rest = iter(every)
    return all(any(one == other for other in rest) for one in some)


def test_an_operator_holds_a_job_that_runs_and_drains_its_node(slurm: SlurmCluster, tmp_path: Path) -> None:
    """It saves and waits, whatever Slurm would let it do; released, it goes on elsewhere."""
    bench = SlurmBench(slurm, tmp_path, Setup("fifo"), SPEED)
    (tmp_path / "wait").touch()  # or it may end before it is to stop
    job = bench.submit(8, 1.5)
    bench.go_on(lambda: bool(bench.marks(job)))
    (before,) = bench.begun_on(job)
    held = bench.scheduler.overrides.with_override(HOLD, job, Override("alice", "rack 3", 0.0))
    bench.scheduler.take_note(held, act_row(0.0, job, None, "put on hold by alice: rack 3"))
    bench.go_on(lambda: bench.states()[job] == base.HELD)
    assert "saved" in bench.marks(job)
    (tmp_path / "wait").unlink()
    (node,) = before
    bench.backend.drain(node, 'it is "hot" = 60°')
    try:
        for _ in range(3):
            bench.cycle()
        (told,) = [one for one in bench.scheduler.roster.snapshot.machines if one.name == node]
        assert (told.state, told.reason) == (base.DRAINING, 'it is "hot" = 60°')
        bench.scheduler.take_note(held.without(HOLD, job), act_row(0.0, job, None, "taken off hold by alice"))
        bench.go_on(bench.ended)
    finally:
        bench.backend.resume(node)
    assert bench.begun_on(job)[1] != before
    assert bench.problems == []


def test_a_job_waits_for_its_rack_until_the_timer_is_over(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Half of each rack comes free: 32 GPUs there are, but not in one rack, until the job's timer has run out."""
    setup = Setup("dally-paper-manual", {"lease_s": "9000", "floors": "0.1,0.2"})  # timers of 900 and 1800 s
    bench = SlurmBench(slurm, tmp_path, setup, SPEED)
    for number in range(8):
        bench.submit(16, 1.0 if number % 2 else 30.0)
    bench.cycle()  # they start together, a short one beside a long one in every rack
    wide = bench.submit(32, 0.5)
    bench.go_on(lambda: "end" in bench.marks(wide))
    (start,) = [row for row in bench.events("start") if row["job_id"] == wide]
    (job,) = [row for row in bench.store.rows(select(JOBS)) if row["job_id"] == wide]
    finished_s = [row["time_s"] for row in bench.events("finish")][:4]
    assert start["tier"] == "network"
    assert start["time_s"] > max(finished_s) + 50.0  # enough GPUs for some while
    # The first look after its timer, which counts from the second of which Slurm says that the job came in it.
    assert start["time_s"] == min(look_s for look_s in bench.looks_s if look_s >= job["submit_s"] + 1800.0)


def test_simulated_and_live(slurm: SlurmCluster, tmp_path: Path) -> None:
    """The same jobs in the simulator: the same order of starts, the same machines and tiers."""
    jobs = [(64, 1.0), (32, 5.0), (16, 13.0), (16, 25.0), (32, 25.0), (32, 25.0), (32, 2.0), (24, 25.0), (24, 1.0)]
    bench = SlurmBench(slurm, tmp_path, Setup("fifo-backfill"), SPEED)
    for gpus, seconds in jobs:
        bench.submit(gpus, seconds)
    bench.go_on(lambda: bench.runs(bench.submitted[-1]))
    expected, times_s = bench.simulated_starts(jobs, slurm.nodes)
    assert bench.starts() == expected
    assert {tier for _, _, tier in expected} == {"rack", "network"}
    late_s = [(row["time_s"] - time_s) / SPEED for row, time_s in zip(bench.events("start"), times_s, strict=True)]
    print("seconds later than simulated:", [round(seconds, 1) for seconds in late_s])
    assert max(late_s) < 15.0


def test_behind_its_back(slurm: SlurmCluster, tmp_path: Path) -> None:
    """A user's release, cancelled jobs, a node that goes down and comes back, slurmctld restarted."""
    bench = SlurmBench(slurm, tmp_path, Setup("fifo-backfill"))
    (tmp_path / "wait").touch()
    jobs = [bench.submit(8, 5.0) for _ in range(20)]
    bench.go_on(lambda: sum(map(bench.runs, jobs)) == 16)
    waiting = [job_id for job_id in jobs if not bench.runs(job_id)]
    slurm.run("scontrol", "release", waiting[0])
    for job_id in (waiting[1], jobs[0]):
        slurm.run("scancel", job_id)
        bench.submitted.remove(job_id)
    victim = jobs[1]
    (lost,) = bench.backend.runs[victim][0]
    slurm.run("scontrol", "update", f"NodeName={lost}", "State=DOWN", "Reason=test")
    (tmp_path / "wait").unlink()
    # By its own account: what is left of it may be over between two looks. Slurm may delay a requeued job by 2 min.
    bench.go_on(lambda: len(bench.begun_on(victim)) > 1, 240.0)
    assert lost not in bench.begun_on(victim)[1]
    slurm.run("scontrol", "update", f"NodeName={lost}", "State=RESUME")
    bench.go_on(lambda: state_of(bench, lost) == base.UP)
    slurm.stop_one("slurmctld")
    bench.cycle()
    assert "does slurmctld run?" in bench.problems[-1]
    slurm.start_controller()
    bench.go_on(bench.ended)
    for job_id in bench.submitted:
        assert bench.marks(job_id).count("end") == 1
        begun = bench.marks(job_id).count("begin")
        assert begun == 1 or job_id in (victim, waiting[0]), bench.marks(job_id)
    bench.go_on(lambda: state_of(bench, lost) == base.UP)  # a new slurmctld has to hear from it first


def state_of(bench: SlurmBench, node: str) -> str:
    return next(one.state for one in bench.scheduler.roster.snapshot.machines if one.name == node)


def test_a_sparse_array_is_all_of_its_tasks(slurm: SlurmCluster) -> None:
    """Slurm's tools would name as many as 64 letters hold."""
    tasks = [number * number for number in range(30)]
    asks = ("-H", f"--array={','.join(map(str, tasks))}", "--gpus=1", "-o", "/dev/null")
    array = slurm.run("sbatch", "--parsable", *asks, given="#!/bin/sh\n").strip()
    told = [job.job_id for job in SlurmBackend(conf=str(slurm.conf)).snapshot().jobs]
    found = [job_id for job_id in told if job_id.startswith(f"{array}_")]
    assert sorted(found) == sorted(f"{array}_{task}" for task in tasks)


def test_uneven_splits_are_as_slurm_deals_them(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Slurm fills machine by machine; where that is not what was decided, the books follow."""
    bench = SlurmBench(slurm, tmp_path, Setup("fifo-backfill"))
    job_id = bench.submit(8, 2.0, "-N", "1", "--gpus-per-node=0", "--gpus=8")
    bench.backend.start_job(job_id, {"n01": 5, "n02": 3})
    while not bench.backend.runs:
        bench.backend.snapshot()
    assert bench.backend.runs[job_id] == {0: {"n01": 7, "n02": 1}}
    assert bench.backend.hosts(job_id) == {"n01": 7, "n02": 1}
    bench.go_on(bench.ended)
    assert [row["placement"] for row in bench.events("adopt")] == [{"n01": 7, "n02": 1}]


def test_killed_ten_times(slurm: SlurmCluster, tmp_path: Path) -> None:
    """`kill -9` at any moment: each job runs once, from its beginning to its end."""
    chance = random.Random(5)
    bench = SlurmBench(slurm, tmp_path, Setup("fifo-backfill"))
    jobs = [bench.submit(16, chance.uniform(0.5, 2.0)) for _ in range(30)]
    words = ["--backend", "slurm", "--folder", str(tmp_path / "daemon"), "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "dally", "serve", "--policy", "fifo-backfill", *words]
    environment = {**os.environ, "SLURM_CONF": str(slurm.conf)}
    for kill in range(11):
        daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        assert daemon.stdout is not None
        if kill == 10:
            assert daemon.stdout.readline().startswith(b"Scheduling")  # from then on it listens to signals
        until_s = time.monotonic() + (chance.uniform(0.8, 2.4) if kill < 10 else 60.0)
        while time.monotonic() < until_s and not all("end" in bench.marks(job_id) for job_id in jobs):
            time.sleep(0.05)
        daemon.send_signal(signal.SIGKILL if kill < 10 else signal.SIGTERM)
        daemon.wait(30)
        daemon.stdout.close()
    assert daemon.returncode == 0
    for job_id in jobs:
        assert [line.split()[0] for line in bench.marks(job_id).splitlines()] == ["begin", "end"], job_id


def test_only_a_job_that_consents_is_preempted(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Four gangs fill the cluster, and a short one comes: of the four, one lets itself be preempted.

    Two state no checkpoint and have run for longer than 2 s, one says no. The policy would preempt the
    one that says yes last: it has least left.
    """
    setup = Setup("srtf", restart_per_gpu_s=0.0, preempt={"usual": "priced", "after": "200"})
    bench = SlurmBench(slurm, tmp_path, setup, SPEED)
    (tmp_path / "wait").touch()
    choices = ("", "", "no", "yes")
    long = [bench.submit(32, 60.0 - number, preempt=choice) for number, choice in enumerate(choices)]
    bench.go_on(lambda: all(map(bench.runs, long)))
    bench.go_on(lambda: all(bench.scheduler.roster.non_preemptible.get(job_id) for job_id in long[:3]))
    short = bench.submit(32, 0.5)
    bench.go_on(lambda: bench.runs(short))
    assert {row["job_id"] for row in bench.events("preempt")} == {long[3]}
    why = bench.scheduler.roster.non_preemptible
    assert all("it states no checkpoint" in why[job_id] for job_id in long[:2]), why
    assert why[long[2]] == "it asks for that (preempt=no)"
    assert [bench.marks(job_id).count("begin") for job_id in long[:3]] == [1, 1, 1]
    assert bench.problems == []
