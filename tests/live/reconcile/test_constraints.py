"""A live cluster whose jobs need more than GPUs: what the backend reports counts, and no order is sent in vain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dally.cluster.capacity import Cluster
from dally.engine.signing import why_unschedulable
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import ObservedReservation, Submission
from dally.live.job_status import JobStatus
from dally.live.reconcile import constraints
from dally.live.status import ClusterStatus, status_of
from dally.model import Job
from dally.report.explanation.waiting import WaitRecords
from dally.testing.fake_backend import FakeBackend
from tests.live.test_cycle import Bench


def bench_of(folder: Path, policy: str = "fifo-backfill", machines: int = 2) -> tuple[Bench, list[str]]:
    bench = Bench(folder, FakeBackend(1, machines, 8), policy)
    return bench, list(bench.backend.topology().names[0])


def submit(bench: Bench, gpus: int, duration_s: float = 1000.0, **stated: Any) -> str:
    return bench.backend.submit(Submission(JobSpec(gpus, duration_s=duration_s, **stated)))


def places(bench: Bench, *jobs: str) -> list[list[str]]:
    return [sorted(bench.backend.jobs[job].placement) for job in jobs]


@pytest.mark.parametrize("policy", ["fifo-backfill", "dally", "srtf", "slurm-backfill"])
def test_cpus_that_others_take_are_not_promised(tmp_path: Path, policy: str) -> None:
    bench, (first, second) = bench_of(tmp_path, policy)
    bench.backend.equip(first, cpus=32.0, cpus_taken=28.0)
    bench.backend.equip(second, cpus=32.0)
    jobs = [submit(bench, 4, cpus_per_gpu=4.0) for _ in range(3)]
    bench.go_on(60.0)
    assert places(bench, *jobs) == [[second], [second], []]
    assert [start[0] for start in bench.backend.starts] == jobs[:2]  # nothing was tried in vain
    bench.backend.equip(first, cpus=32.0, cpus_taken=0.0)
    bench.go_on(60.0)
    assert places(bench, *jobs) == [[second], [second], [first]]
    bench.agree()


def test_machines_that_the_backend_allows(tmp_path: Path) -> None:
    bench, (first, second) = bench_of(tmp_path)
    job, other = submit(bench, 4), submit(bench, 4)
    bench.backend.allow(job, second)
    bench.backend.allow(other, "elsewhere")
    bench.go_on(10.0)
    assert places(bench, job, other) == [[second], []]
    bench.backend.allow(other, first)  # a taint has gone
    bench.go_on(10.0)
    assert places(bench, other) == [[first]]


def test_what_fits_nowhere_is_worked_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of jobs that wait, in every cycle: only a change of the machines has it looked at again."""
    bench, (first, _) = bench_of(tmp_path)
    looked: list[str] = []

    def counted(job: Job, cluster: Cluster) -> str:
        looked.append(job.job_id)
        return why_unschedulable(job, cluster)

    monkeypatch.setattr(constraints, "why_unschedulable", counted)
    jobs = [submit(bench, 16, cpus_per_gpu=1.0) for _ in range(3)]
    bench.go_on(50.0)
    before = len(looked)
    bench.go_on(50.0)
    assert len(looked) == before
    bench.backend.equip(first, cpus=4.0)
    bench.go_on(50.0)
    assert len(looked) > before
    assert bench.scheduler.roster.outgrown.keys() == set(jobs[1:])
    lines = status_now(bench)
    assert [lines[job].state for job in jobs] == ["running", "unschedulable", "unschedulable"]
    bench.backend.equip(first, cpus=8.0)
    bench.go_on(50.0)
    assert [status_now(bench)[job].state for job in jobs] == ["running", "waiting", "waiting"]


def status_now(bench: Bench) -> dict[str, JobStatus]:
    """What people see of each job."""
    result = bench.scheduler.run_cycle()
    reasons = WaitRecords(bench.scheduler.roster.topology.tiers)
    return status_of(bench.scheduler, reasons, result, 1, ClusterStatus()).by_id


def test_features_that_machines_get_later(tmp_path: Path) -> None:
    bench, (_, second) = bench_of(tmp_path)
    job = submit(bench, 4, features="ib")
    bench.go_on(10.0)
    roster = bench.scheduler.roster
    assert roster.unschedulable[job][1] == "no machine has the features ib"
    bench.backend.equip(second, features=frozenset({"ib"}))
    bench.go_on(10.0)
    assert places(bench, job) == [[second]]
    assert not roster.unschedulable


@pytest.mark.parametrize(
    ("stated", "why"),
    [
        ({"cpus_per_gpu": 9.0, "gpus_per_node": 8}, "no machines have all that it needs"),
        ({"exclude": "rack0-m[0-1]"}, "no machine that it may use"),
        ({"features": "a&"}, "features: 'a&': must be names with & and | between them, and parentheses"),
        ({"nodes_min": 3, "nodes_max": 3}, "asks for GPUs and machines in numbers that do not go together"),
        ({"reservation": "none"}, "names the reservation none, which does not exist"),
    ],
)
def test_what_could_never_run_is_said_at_once(tmp_path: Path, stated: dict[str, Any], why: str) -> None:
    bench, names = bench_of(tmp_path)
    for name in names:
        bench.backend.equip(name, cpus=64.0)
    job, plain = submit(bench, 8, **stated), submit(bench, 8)
    bench.go_on(10.0)
    assert bench.scheduler.roster.unschedulable[job][1] == why
    assert bench.backend.jobs[plain].state == base.RUNNING


def test_jobs_keep_clear_of_a_reservation(tmp_path: Path) -> None:
    bench, (first, second) = bench_of(tmp_path)
    start_s = bench.backend.now_s + 600.0
    bench.backend.reservations = (ObservedReservation("upgrade", frozenset({first}), start_s, start_s + 600.0),)
    short = submit(bench, 8, 100.0, limit_s=500.0)
    long, later = submit(bench, 8, 100.0, limit_s=5000.0), submit(bench, 8, 100.0)
    inside = submit(bench, 8, 100.0, reservation="upgrade")
    bench.go_on(20.0)
    assert places(bench, short, long, later, inside) == [[first], [second], [], []]
    bench.go_on(120.0)
    assert places(bench, later, inside) == [[second], []]  # the first machine is free, and not for it
    bench.go_on(500.0)
    assert places(bench, inside) == [[first]]


def test_jobs_that_are_not_ours_take_only_gpus(tmp_path: Path) -> None:
    """What else they have is in what their machine reports as taken: it is not counted twice."""
    bench, (first, _) = bench_of(tmp_path)
    bench.backend.equip(first, cpus=16.0, cpus_taken=8.0)
    foreign = submit(bench, 4, cpus_per_gpu=2.0)
    bench.backend.put(foreign, {first: 4})
    bench.backend.jobs[foreign] = replace(bench.backend.jobs[foreign], managed=False)
    job = submit(bench, 4, cpus_per_gpu=2.0, include=first)
    bench.go_on(10.0)
    assert places(bench, job) == [[first]]


def test_after_a_restart_all_of_it_is_known_again(tmp_path: Path) -> None:
    bench, (first, second) = bench_of(tmp_path)
    for name in (first, second):
        bench.backend.equip(name, cpus=16.0)
    jobs = [submit(bench, 2, cpus_per_gpu=8.0) for _ in range(2)]
    bench.go_on(10.0)
    bench.die()
    more = submit(bench, 1, cpus_per_gpu=1.0)
    bench.go_on(10.0)
    assert sorted(places(bench, *jobs)) == [[first], [second]]
    assert places(bench, more) == [[]]  # no CPU is left
    bench.agree()
