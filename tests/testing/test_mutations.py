"""Planted bugs: each invariant is broken on purpose, and the checks must notice."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from dally import is_compiled
from dally.cluster.bitset import Buckets
from dally.cluster.free_gpus import FreeGpus
from dally.engine import state
from dally.errors import PolicyError
from dally.model import FAIL, Costs
from dally.policies.registry import build
from dally.testing import InvariantError, RunRows, check_record, record_of, strategies
from dally.testing.invariants import EventRow
from dally.testing.strategies import Case

# las with a short lease on two machines, one of which fails: every kind of event but migration.
CASE = Case(
    [(("a",), 4), (("b",), 4)],
    [(0.0, 8, 30.0), (1.0, 4, 10.0), (2.0, 2, 40.0), (3.0, 8, 5.0)],
    outages=[(1, 50.0, 55.0)],
    costs=Costs(0.0, 1.0, 4.0),
)


def good() -> RunRows:
    return record_of(CASE.run(build("las", {"lease_s": "8"})))


def nth(record: RunRows, kind: str, place: int = 0) -> EventRow:
    return [event for event in record.events if event.kind == kind][place]


def oversubscribe(record: RunRows) -> None:
    # The second gang to start moves in with the first.
    first, second = nth(record, "start"), nth(record, "start", 1)
    index = record.events.index(second)
    record.events.remove(second)
    record.events.insert(record.events.index(first) + 1, second)
    assert index > 0
    second.time_s = first.time_s
    record.jobs[second.job].submit_s = 0.0
    submit = next(event for event in record.events if event.kind == "submit" and event.job == second.job)
    submit.time_s = 0.0
    record.events.remove(submit)
    record.events.insert(0, submit)


def use_a_machine_that_is_down(record: RunRows) -> None:
    record.events.insert(0, EventRow(0.0, "fail", -1, 0, []))


def split_the_gang(record: RunRows) -> None:
    event = nth(record, "start")
    event.parts = event.parts[:1]


def finish_twice(record: RunRows) -> None:
    record.events.append(deepcopy(record.events[-1]))


def lose_a_job(record: RunRows) -> None:
    last = [event for event in record.events if event.kind == "finish"][-1]
    record.events.remove(last)


def run_without_waiting(record: RunRows) -> None:
    # Nobody told the job that lost its GPUs, and nobody took them.
    lost = nth(record, "preempt")
    record.events = [event for event in record.events if event is not lost and event.job in (lost.job, -1)]


def evict_without_failure(record: RunRows) -> None:
    nth(record, "preempt").kind = "evict"


def start_before_submission(record: RunRows) -> None:
    record.jobs[nth(record, "start").job].submit_s = 5.0


def go_back_in_time(record: RunRows) -> None:
    record.events[-1].time_s -= 20.0


def do_less_work(record: RunRows) -> None:
    record.jobs[0].duration_s += 1.0
    record.jobs[0].work_s += 1.0


def forget_overhead(record: RunRows) -> None:
    record.jobs[0].overhead_s = 0.0


def restart_for_free(record: RunRows) -> None:
    job = record.jobs[0]
    job.compute_s, job.overhead_s = job.compute_s + job.overhead_s, 0.0


def hide_a_preemption(record: RunRows) -> None:
    record.jobs[nth(record, "preempt").job].preemptions = 0


def hold_gpus_longer(record: RunRows) -> None:
    record.jobs[1].run_s += 1.0


def beat_the_makespan(record: RunRows) -> None:
    record.makespan_bound_s = 1e9


def beat_the_mean(record: RunRows) -> None:
    record.jct_bound_s = 1e9


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (oversubscribe, "capacity"),
        (use_a_machine_that_is_down, "capacity"),
        (split_the_gang, "gang"),
        (finish_twice, "once"),
        (lose_a_job, "once"),
        (run_without_waiting, "once"),
        (evict_without_failure, "once"),
        (hide_a_preemption, "once"),
        (start_before_submission, "causality"),
        (go_back_in_time, "causality"),
        (do_less_work, "conservation"),
        (forget_overhead, "conservation"),
        (restart_for_free, "conservation"),
        (hold_gpus_longer, "conservation"),
        (beat_the_makespan, "bounds"),
        (beat_the_mean, "bounds"),
    ],
)
def test_a_spoilt_record_is_noticed(plant: Callable[[RunRows], None], name: str) -> None:
    record = good()
    check_record(record)
    plant(record)
    with pytest.raises(InvariantError) as caught:
        check_record(record)
    assert caught.value.name == name


# The same for the engine itself: replace one of its parts by a broken one and let check_policy look.
# Only possible where the parts are Python; what the compiled build does is the same to the byte.
ENGINE_BUGS: list[tuple[str, object, str, Callable[..., Any]]] = [
    ("capacity is not given back at the rack", Buckets, "move", lambda self, index, free: None),
    ("a taken GPU stays free", FreeGpus, "change", lambda self, domain, gpus: None),
    ("restarts are free", state, "begin", lambda job, now: _begin_without_restart(job, now)),
    ("progress is counted twice", state, "advance", lambda job, now, every: _advance_twice(job, now)),
    (
        "a failure leaves the gang running",
        state.State,
        "_fail",
        lambda self, machine, now: _fail_in_silence(self, machine, now),
    ),
    ("finished jobs are not told", state.State, "_finish", lambda self, job, now: self._release(job, now)),
]


def _begin_without_restart(job: Any, now: float) -> None:
    job.placed_s = job.since_s = now
    job.rate, job.comm_rate, job.restart_due_s = 1.0, 0.0, 0.0


def _fail_in_silence(self: Any, machine: int, now: float) -> None:
    self.log.add(now, FAIL, -1, machine, None)
    self.cluster.fail(machine)


def _advance_twice(job: Any, now: float) -> None:
    if now > job.since_s:
        job.work_s += 2 * (now - job.since_s)
        job.compute_s += now - job.since_s
        job.since_s = now


@pytest.mark.skipif(is_compiled(), reason="compiled parts cannot be replaced")
@pytest.mark.parametrize(("name", "owner", "part", "bug"), ENGINE_BUGS, ids=[row[0] for row in ENGINE_BUGS])
def test_a_bug_in_the_engine_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, owner: object, part: str, bug: Callable[..., Any]
) -> None:
    assert hasattr(owner, part)
    monkeypatch.setattr(owner, part, bug)
    monkeypatch.setattr(strategies, "MOST_CYCLES", 5000)

    # No shrinking: a broken engine is slow to fail.
    @settings(max_examples=100, phases=[Phase.generate], report_multiple_bugs=False)
    @given(strategies.cases())
    def look(case: Case) -> None:
        for policy in ("las", "srtf"):
            check_record(record_of(case.run(build(policy))))

    # Not just any error: a planted bug with a typo in it would raise one too. An IndexError is the engine's own
    # alarm: more GPUs free than a machine has. A PolicyError too: GPUs only seemed free.
    with pytest.raises((InvariantError, IndexError, PolicyError)):
        look()
