"""Who had a job run again, by slurmctld's log; needs no Slurm."""

from __future__ import annotations

import pytest
from benchmarks.slurm_requeues import requeued_by_others, run_again

ALLOCATED = "slurmctld: sched: Allocate JobId=310_1(312) NodeList=n04 #CPUs=1 Partition=gpu\n"
SIGNALLED = "slurmctld: _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=310_1 uid 0\n"
FAILED = "slurmctld: requeue job JobId=310_1(312) due to failure of node n04\n"
REQUEUED = "slurmctld: Requeuing JobId=310_1(312)\n"
OTHER = "slurmctld: _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=310_10 uid 0\n"


@pytest.mark.parametrize(
    ("log", "runs"),
    [
        ((ALLOCATED, SIGNALLED, SIGNALLED, REQUEUED), set()),
        ((ALLOCATED, FAILED, REQUEUED), {1}),
        ((ALLOCATED, SIGNALLED, FAILED, REQUEUED), {1}),
        ((ALLOCATED, OTHER, REQUEUED), {1}),  # by an operator
        ((ALLOCATED, SIGNALLED, REQUEUED, ALLOCATED, REQUEUED), {2}),
        ((ALLOCATED, FAILED, REQUEUED, ALLOCATED, SIGNALLED, REQUEUED), {1}),
    ],
)
def test_dally_signals_what_it_requeues(log: tuple[str, ...], runs: set[int]) -> None:
    assert requeued_by_others("".join(log)).get("310_1", set()) == runs


@pytest.mark.parametrize(
    ("events", "by_others", "again"),
    [
        ("0 begin, 0 end", set[int](), ([], [])),
        ("0 begin, 0 stopped, 1 begin, 1 end", set[int](), ([], [])),
        ("0 begin, 0 end, 1 begin, 1 end", set[int](), (["7"], [])),
        ("0 begin, 0 end, 1 begin, 1 end", {1}, ([], ["7"])),
        ("0 begin, 0 end, 1 begin, 1 end", {2}, (["7"], [])),
        ("0 begin, 0 stopped, 1 begin, 1 end, 2 begin", {1}, (["7"], [])),
    ],
)
def test_a_job_that_others_requeued_as_it_ended_is_told_apart(
    events: str, by_others: set[int], again: tuple[list[str], list[str]]
) -> None:
    lines = [f"1795137483.2 7 run {event.split()[0]} on n04 {event.split()[1]}" for event in events.split(", ")]
    assert run_again(lines, {"7": by_others}) == again
