"""The cycle on a wall clock: starts fail, jobs are cancelled, the daemon dies, and no job is lost or run twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dally.cluster.capacity import Cluster
from dally.engine.snapshot import load
from dally.engine.state import State
from dally.model import KIND_NAMES, Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.registry import POLICIES, build
from tests.engine.wall_clock import FakeBackend, one_turn


class FakeClock:
    """Jumps to whatever it is told to wait for."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now(self) -> float:
        return self.now_s

    def wait(self, until_s: float) -> None:
        self.now_s = max(self.now_s, until_s)


class RealClock:
    """Seconds since it was made, a hundred times as fast: engines retry after half a minute."""

    def __init__(self) -> None:
        self._from = time.monotonic()

    def now(self) -> float:
        return 100.0 * (time.monotonic() - self._from)

    def wait(self, until_s: float) -> None:
        time.sleep(max(0.0, (until_s - self.now()) / 100.0))


# A policy that migrates cannot run on this backend: it stops a job that is migrated.
STAYS = {"migration": "off", "compaction": "off", "mixing": "off"}


def run(policy: str, clock: FakeClock | RealClock, jobs: list[Job], folder: Path) -> tuple[State, FakeBackend]:
    """All jobs to their ends; after every fourth turn the daemon dies and goes on from its snapshot."""
    backend = FakeBackend()
    cancels = ["job3", "job8", "job11"]
    given = STAYS if policy == "dally" else None
    state = State(Cluster.grid(2, 2, 4), build(policy, given), SpeedModel(), Costs(1.0, 0.0, 0.0))
    expected = len(jobs)
    turns = 0
    next_s = 0.0
    while state.finished < expected and turns < 5000:
        clock.wait(next_s)
        next_s = one_turn(state, backend, jobs, cancels, clock.now(), folder / "state.snapshot")
        turns += 1
        if turns % 4 == 0:
            del state
            state = load(folder / "state.snapshot", State)
    return state, backend


def check(state: State, backend: FakeBackend, count: int) -> None:
    names = [f"job{place}" for place in range(count)]
    log = state.log
    kinds = [(KIND_NAMES[log.kinds[row]], int(log.jobs[row])) for row in range(len(log))]
    finished = [f"job{job}" for kind, job in kinds if kind == "finish"]
    cancelled = [f"job{job}" for kind, job in kinds if kind == "cancel"]
    assert sorted(finished + cancelled) == sorted(names)  # each ends once, one way or the other
    assert sorted(backend.done) == sorted(finished)
    assert backend.ends_s == {}
    assert len(backend.starts) == sum(kind == "start" for kind, _ in kinds)
    assert sum(kind == "start_failed" for kind, _ in kinds) == backend.asked // 10 > 0
    assert set(log.reasons.values()) == {"the node did not answer"}
    assert int(state.cluster.free_gpus) == 16


def workload(count: int, stretch: float) -> list[Job]:
    return [
        Job(place, f"job{place}", stretch * place, 1 + place * 7 % 12, stretch * (3 + place * 5 % 11))
        for place in range(count)
    ]


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "gandiva"])
def test_no_job_is_lost_or_run_twice(policy: str, tmp_path: Path) -> None:
    state, backend = run(policy, FakeClock(), workload(40, 20.0), tmp_path)
    check(state, backend, 40)


def test_the_same_in_real_time(tmp_path: Path) -> None:
    state, backend = run("fifo-backfill", RealClock(), workload(24, 2.0), tmp_path)
    check(state, backend, 24)
