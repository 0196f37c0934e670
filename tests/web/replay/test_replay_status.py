"""StatusHistory of random small runs agree with the event log, walked through on its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from dally.live.status import ClusterStatus
from dally.metrics.record import Record
from dally.metrics.simulated import Simulated
from dally.policies.registry import build
from dally.report.explanation.instant import Timeline
from dally.runs.scenario import Scenario
from dally.testing.strategies import Case, cases
from dally.web.replay.replay_status import StatusHistory

POLICIES = ("dally", "fifo", "fifo-backfill", "tiresias", "srsf", "gandiva")


@dataclass
class Walk:
    """What the log says, row by row."""

    placements: dict[str, dict[str, int]] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    held: dict[str, float] = field(default_factory=dict)
    preempted: dict[str, int] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)

    def step(self, row: dict[str, object]) -> None:
        kind, job, machine, time_s = str(row["kind"]), str(row["job_id"]), str(row["machine"]), row["time_s"]
        assert isinstance(time_s, float)
        if kind == "fail":
            self.down.add(machine)
        elif kind == "repair":
            self.down.remove(machine)
        elif kind == "submit":
            self.waiting[job] = time_s
        elif kind == "hold":  # no machines could ever hold it
            self.held[job] = self.waiting.pop(job)
        elif kind in ("start", "migrate"):
            self.waiting.pop(job, None)
            machines, gpus = row["machines"], row["machine_gpus"]
            assert isinstance(machines, list)
            assert isinstance(gpus, list)
            self.placements[job] = dict(zip(machines, gpus, strict=True))
            self.moved[job] = self.moved.get(job, 0) + (kind == "migrate")
        elif kind in ("preempt", "evict"):
            del self.placements[job]
            self.waiting[job] = time_s
            self.preempted[job] = self.preempted.get(job, 0) + (kind == "preempt")
        elif kind == "finish":
            del self.placements[job]


def walked(run: Record, at_s: float) -> Walk:
    """Everything up to a moment."""
    found = Walk()
    for row in run.all_events.iter_rows(named=True):
        if row["time_s"] > at_s:
            break
        found.step(row)
    return found


def run_of(case: Case, policy: str) -> Simulated:
    """The record of a run."""
    simulation = case.run(build(policy))
    return Simulated(simulation, Scenario("", "", policy, network=case.network))


def check(status: ClusterStatus, run: Simulated, at_s: float) -> None:
    """The status of a moment says what the log does."""
    log = walked(run, at_s)
    running = {line.job_id: line for line in status.jobs if line.state == "running"}
    waiting = {line.job_id: line for line in status.jobs if line.state == "waiting"}
    assert {name: line.placement for name, line in running.items()} == log.placements
    assert {name: line.since_s for name, line in waiting.items()} == log.waiting
    assert {line.job_id: line.since_s for line in status.jobs if line.state == "held"} == log.held
    assert sorted(line.place or 0 for line in waiting.values()) == list(range(1, len(waiting) + 1))
    assert all(line.why and line.reason for line in waiting.values())
    for line in status.jobs:
        assert line.preemptions == log.preempted.get(line.job_id, 0)
        assert line.migrations == log.moved.get(line.job_id, 0)
        assert sum(line.placement.values()) == (line.spec.gpus if line.state == "running" else 0)
    taken: dict[str, int] = {}
    for placement in log.placements.values():
        for machine, gpus in placement.items():
            taken[machine] = taken.get(machine, 0) + gpus
    for node in status.nodes:
        is_down = node.name in log.down
        assert node.state == ("down" if is_down else "up")
        assert node.free == (0 if is_down else node.gpus - taken.get(node.name, 0)) >= 0
        assert set(node.jobs) == {name for name, place in log.placements.items() if node.name in place}
    assert status.free_gpus == sum(node.free for node in status.nodes)
    assert all(sum(tier) == status.free_gpus for tier in status.free)


@settings(max_examples=40, deadline=None)
@given(case=cases(), policy=st.sampled_from(POLICIES), shares=st.lists(st.floats(0.0, 1.0), max_size=4))
def test_every_board_says_what_the_log_does(case: Case, policy: str, shares: list[float]) -> None:
    run = run_of(case, policy)
    with (
        patch("dally.report.explanation.course.LEAST_APART", 5),
        patch("dally.report.explanation.course.MOST_MARKS", 1000),
    ):
        statuses = StatusHistory(run, Timeline(run))
    times = run.all_events["time_s"].to_list() or [0.0]  # it may have been stopped before anything happened
    moments = {run.end_s * share for share in shares} | {times[int(share * (len(times) - 1))] for share in shares}
    for at_s in {*moments, run.end_s, -1.0}:
        check(statuses.at(at_s), run, at_s)
