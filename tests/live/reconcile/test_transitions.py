"""Every row of the table of transitions, one case or more each; and that the table leaves nothing out."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pytest

from dally.cluster.topology import grid
from dally.engine.cycle import cycle
from dally.engine.executor import Executor
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import Observed, ObservedJob, ObservedMachine, Placement
from dally.live.config import Setup
from dally.live.reconcile import transitions
from dally.live.reconcile.orders import REQUESTS, requests_due
from dally.live.reconcile.pending import BLOCKED, KEEP, PREEMPT, RUN, START, STOP, PendingOrder
from dally.live.reconcile.reconciler import (
    ADMISSION,
    GUARDS,
    HOLDS,
    JOBS,
    LONGEST_RETRY_S,
    RETRY_S,
    JobCase,
    Reconciler,
)
from dally.live.reconcile.roster import Roster
from dally.model import KIND_NAMES, Job

NOW, LONG_AGO = 1000.0, 500.0
HERE: Placement = {"rack0-m0": 8}
THERE: Placement = {"rack0-m1": 8}
TOPOLOGY = grid(1, 2, 8)
REFUSED: dict[str, Any] = {"decided_s": LONG_AGO, "request": PREEMPT, "sent_s": NOW - 1.0, "answer": "no"}
TAKEN: dict[str, Any] = {"decided_s": NOW - 5.0, "sent_s": NOW - 5.0, "answer": ""}


@dataclass
class Example:
    """A job before a cycle, and what the table makes of it."""

    row: str
    status: str
    state: str
    order: PendingOrder | None = None
    placement: Placement = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)  # of the observed job
    events: tuple[str, ...] = ()
    after: str = ""  # what is desired then
    reason: str | None = None  # of the first event
    problem: str = ""
    held: tuple[str, ...] = ()  # jobs on hold by an override


def order(desired: str, placement: Placement | None = None, **fields: Any) -> PendingOrder:
    return PendingOrder("1", desired, fields.pop("decided_s", NOW - 1.0), placement, **fields)


EXAMPLES = [
    # Admission
    Example("new-ended", "unknown", base.FINISHED),
    Example("new-without-gpus", "unknown", base.QUEUED, more={"gpus": 0}),
    Example("new-unschedulable", "unknown", base.QUEUED, more={"gpus": 17},
            problem="job 1 asks for more GPUs than there are"),
    Example("new-unschedulable", "unknown", base.QUEUED, more={"gpus": 16, "group": 16},
            problem="job 1 asks for 16 GPUs in one machine, and none has as many"),
    Example("new", "unknown", base.QUEUED, events=("submit",)),
    Example("new", "unknown", base.HELD, events=("submit", "hold")),
    Example("new", "unknown", base.RUNNING, placement=HERE, events=("submit", "adopt")),
    Example("ended", "running", base.FINISHED, more={"gpus": 99}, events=("finish",)),
    Example("became-unschedulable", "waiting", base.QUEUED, more={"gpus": 17},
            problem="job 1 asks for more GPUs than there are"),
    Example("resized", "running", base.QUEUED, order(RUN, HERE), more={"gpus": 4}, events=("cancel", "submit")),
    Example("known", "waiting", base.QUEUED),
    # It is over.
    Example("gone-running", "running", transitions.ABSENT, order(STOP), events=("finish",)),
    Example("gone", "waiting", transitions.ABSENT, order(STOP), events=("cancel",)),
    Example("cancelled", "running", base.CANCELLED, events=("cancel",)),
    Example("ended-running", "running", base.FAILED, order(RUN, HERE), events=("finish",)),
    Example("ended-stopping", "waiting", base.FINISHED, order(STOP, **TAKEN, request=PREEMPT), events=("cancel",)),
    # It runs.
    Example("stop-refused", "running", base.RUNNING, order(STOP, **REFUSED), HERE, after=STOP),
    Example("stopping-held", "running", base.RUNNING, order(STOP), HERE, after=STOP),
    Example("moving", "running", base.RUNNING, order(RUN, HERE), THERE, after=RUN),
    Example("move-refused", "running", base.RUNNING, order(RUN, HERE, **REFUSED), THERE, after=KEEP,
            events=("evict", "adopt"), reason="no", problem="the backend would not stop job 1: no"),
    Example("preempting", "waiting", base.RUNNING, order(STOP), HERE, after=STOP),
    Example("preempt-refused", "waiting", base.RUNNING, order(STOP, **REFUSED), HERE, after=KEEP, events=("adopt",),
            problem="the backend would not stop job 1: no"),
    Example("in-place", "running", base.RUNNING, order(RUN, HERE), HERE),
    Example("in-place", "running", base.RUNNING, order(STOP), HERE, {"managed": False}),
    Example("runs", "running", base.RUNNING, None, HERE),
    Example("runs", "running", base.RUNNING, order(KEEP, retry_s=NOW + 9.0), HERE, after=KEEP),
    Example("outside", "waiting", base.RUNNING, None, {"another": 8}),
    Example("moved", "running", base.RUNNING, None, THERE, events=("evict", "adopt"), reason="it runs elsewhere"),
    Example("moved", "running", base.RUNNING, order(RUN, HERE, **TAKEN, request=START), THERE,
            events=("evict", "adopt")),
    Example("started", "waiting", base.RUNNING, None, HERE, events=("adopt",)),
    Example("started", "held", base.RUNNING, order(BLOCKED, retry_s=NOW + 9.0), HERE, events=("adopt",)),
    # It waits.
    Example("stopped", "running", base.QUEUED, order(STOP, **TAKEN, request=PREEMPT)),
    Example("stopped-held", "running", base.HELD, order(STOP, **TAKEN, request=PREEMPT), events=("hold",)),
    Example("about-to-start", "running", base.QUEUED, order(RUN, HERE, attempts=2), after=RUN),
    Example("not-started", "running", base.QUEUED, order(RUN, HERE, attempts=3, answer="no room"),
            events=("start_failed",), reason="no room"),
    Example("not-started", "running", base.QUEUED, order(RUN, HERE, decided_s=LONG_AGO), events=("start_failed",),
            reason="the backend did not start it"),
    Example("start-held", "running", base.HELD, order(RUN, HERE), events=("start_failed", "hold"),
            reason="it was put on hold"),
    Example("start-blocked", "running", base.BLOCKED, order(RUN, HERE, **TAKEN, request=START),
            more={"reason": "QOSMaxGRESPerUser"}, events=("start_failed", "hold"), after=BLOCKED,
            reason="QOSMaxGRESPerUser"),
    Example("undone-start-blocked", "waiting", base.BLOCKED, order(RUN, HERE), events=("hold",), after=BLOCKED),
    Example("undone-start-blocked-held", "held", base.BLOCKED, order(RUN, HERE), after=BLOCKED),
    Example("undone-start-held", "waiting", base.HELD, order(RUN, HERE), events=("hold",)),
    Example("undone-start", "waiting", base.QUEUED, order(RUN, HERE)),
    Example("blocked-over", "held", base.QUEUED, order(BLOCKED, retry_s=NOW), events=("release",), after=BLOCKED),
    Example("blocked-waits", "held", base.QUEUED, order(BLOCKED, retry_s=NOW + 1.0), after=BLOCKED),
    Example("blocked-again", "waiting", base.BLOCKED, order(BLOCKED, blocks=1), events=("hold",), after=BLOCKED),
    Example("blocked", "held", base.BLOCKED, order(BLOCKED, retry_s=NOW), after=BLOCKED),
    Example("requeued", "running", base.QUEUED, more={"reason": "NodeFail"}, events=("evict",), reason="NodeFail"),
    Example("requeued-held", "running", base.BLOCKED, events=("evict", "hold")),
    Example("held", "waiting", base.BLOCKED, events=("hold",)),
    Example("held", "waiting", base.HELD, order(STOP), events=("hold",)),
    Example("stays-unschedulable", "held", base.QUEUED, more={"gpus": 8, "group": 16},
            problem="job 1 asks for 16 GPUs in one machine, and none has as many"),
    Example("released", "held", base.QUEUED, events=("release",)),
    Example("waits", "waiting", base.QUEUED, order(STOP)),
    Example("waits", "waiting", base.QUEUED, order(KEEP, retry_s=NOW + 9.0)),
    # It is on its way.
    Example("start-too-late", "running", base.STARTING, order(RUN, HERE, decided_s=LONG_AGO), after=BLOCKED,
            events=("start_failed", "hold"), reason="did not start within 120 s"),
    Example("starting", "running", base.STARTING, order(RUN, HERE), after=RUN),
    Example("undone-starting", "waiting", base.STARTING, order(RUN, HERE), after=STOP),
    Example("calling-back", "waiting", base.STARTING, order(STOP), after=STOP),
    Example("foreign-start", "running", base.STARTING, events=("evict",), reason="it was requeued", after=STOP),
    Example("foreign-release", "waiting", base.STARTING, after=STOP),
    Example("others-start", "waiting", base.STARTING, more={"managed": False}),
    Example("leaving", "waiting", base.STOPPING, order(STOP), HERE, after=STOP),
    # Holds
    Example("hold-stops", "running", base.RUNNING, None, HERE, held=("1",), after=STOP),
    Example("hold-in-vain", "running", base.RUNNING, None, HERE, {"managed": False}, held=("1",),
            problem="job 1 is on hold and runs on: it is no longer ours to stop"),
    Example("hold-released", "running", base.RUNNING, order(STOP), HERE),
    # Requests
    Example("send-start", "running", base.QUEUED, order(RUN, HERE), after=START),
    Example("send-move", "running", base.RUNNING, order(RUN, HERE), THERE, after=PREEMPT),
    Example("send-preempt", "waiting", base.RUNNING, order(STOP), HERE, after=PREEMPT),
    Example("send-preempt", "waiting", base.STARTING, order(STOP), after=PREEMPT),
    Example("send-recall", "held", base.BLOCKED, order(BLOCKED, retry_s=NOW + 9.0), after=PREEMPT),
]  # fmt: skip
IDS = {name: {row.id for row in rows} for name, rows in transitions.TABLES.items()}


class Books:
    """A cluster of two machines with one job on it, as the example has it."""

    def __init__(self, example: Example) -> None:
        self.state = Setup("fifo").world(TOPOLOGY).state()
        self.roster = Roster(TOPOLOGY, "resnet50", lambda moment_s: moment_s)
        self.job: Job | None = None
        if example.status != transitions.UNKNOWN:
            self.job = self.roster.admit(job_seen(base.QUEUED, {}))
            allocation = self.roster.allocation(HERE) if example.status == "running" else None
            self.state.adopt(self.job, 0.0, allocation)
            if example.status == "held":
                self.state.hold(self.job, 0.0)
        if example.order is not None:
            self.roster.orders["1"] = replace(example.order)
        self.observed = job_seen(example.state, example.placement, **example.more)
        machines = tuple(ObservedMachine(name, 8) for name in TOPOLOGY.names[0])
        jobs = () if example.state == transitions.ABSENT else (self.observed,)
        self.snapshot = Observed(jobs, machines)

    def case(self, held: Container[str] = ()) -> JobCase:
        observed = self.observed if self.snapshot.jobs else None
        case = JobCase(self.roster, self.job, observed, NOW, 120.0)
        case.held, case.free = held, HERE
        return case

    def reconcile(self) -> Reconciler:
        return Reconciler(self.state, self.roster, self.snapshot, NOW, 1.0)


def job_seen(state: str, placement: Placement, **more: Any) -> ObservedJob:
    spec = JobSpec(more.pop("gpus", 8), group=more.pop("group", 1))
    return ObservedJob("1", state, spec, 0.0, placement, **more)


def in_table(name: str) -> list[Any]:
    return [pytest.param(example, id=example.row) for example in EXAMPLES if example.row in IDS[name]]


def test_every_row_has_an_example_and_a_meaning() -> None:
    rows = [row for rows in transitions.TABLES.values() for row in rows]
    assert {example.row for example in EXAMPLES} == {row.id for row in rows}
    assert len({row.id for row in rows}) == len(rows)
    assert all(row.meaning.endswith(".") for row in rows)
    assert {row.guard for row in rows if row.guard} == GUARDS.keys()
    assert {event for row in rows for event in row.events} <= set(KIND_NAMES)


def test_the_table_leaves_out_nothing_that_can_be() -> None:
    """A job that the engine has is in one row whatever is desired and observed, also where no guard holds."""
    for key in product(transitions.DESIRED, transitions.OBSERVED, ("waiting", "running", "held")):
        assert any(not row.guard for row in JOBS[key]), key


@pytest.mark.parametrize("example", in_table("Admission"))
def test_admission(example: Example) -> None:
    check(ADMISSION, example)


@pytest.mark.parametrize("example", in_table("Jobs"))
def test_jobs(example: Example) -> None:
    check(JOBS, example)


def check(rows: transitions.Index, example: Example) -> None:
    """Reconciled, it is as the example says, and the engine takes the events."""
    row = Books(example).case().row(rows)
    assert row is not None
    assert row.id == example.row
    books = Books(example)
    seen = books.reconcile()
    assert tuple(KIND_NAMES[event.kind] for event in seen.events) == example.events
    assert books.roster.desired("1") == example.after
    assert seen.problems == ([example.problem] if example.problem else [])
    if example.reason is not None:
        assert seen.events[0].reason == example.reason
    cycle(books.state, seen.events, NOW, Executor())


@pytest.mark.parametrize("example", in_table("Holds"))
def test_holds(example: Example) -> None:
    books = Books(example)
    row = books.case(example.held).row(HOLDS)
    assert row is not None
    assert row.id == example.row
    seen = books.reconcile()
    seen.apply_holds(example.held)
    assert books.roster.desired("1") == example.after
    assert seen.problems == ([example.problem] if example.problem else [])


@pytest.mark.parametrize("example", in_table("Requests"))
def test_requests(example: Example) -> None:
    books = Books(example)
    row = books.case().row(REQUESTS)
    assert row is not None
    assert row.id == example.row
    books.roster.snapshot = books.snapshot
    (due,) = requests_due(books.roster, NOW, 1.0)
    assert (due.request, due.sent_s, due.answer) == (example.after, NOW, None)
    due.answer = ""
    assert requests_due(books.roster, NOW + 1.0, 1.0) == [], "it was taken"
    due.answer = None
    assert requests_due(books.roster, NOW + 1.0, 1.0) == [due], "no answer is known: after a crash"


def test_no_start_before_the_gpus_are_free() -> None:
    books = Books(Example("send-start", "running", base.QUEUED, order(RUN, HERE)))
    other = replace(job_seen(base.STOPPING, HERE), job_id="2")
    books.roster.snapshot = replace(books.snapshot, jobs=(books.observed, other))
    assert requests_due(books.roster, NOW, 1.0) == []


def test_a_blocked_job_is_tried_again_ever_more_seldom_or_when_another_of_its_account_ends() -> None:
    waits = []
    for blocks in range(8):
        books = Books(Example("", "running", base.BLOCKED, order(RUN, HERE, blocks=blocks)))
        books.reconcile()
        waits.append(books.roster.orders["1"].retry_s - NOW)
    assert waits == [min(LONGEST_RETRY_S, RETRY_S * 2.0**blocks) for blocks in range(8)]
    assert waits[-1] == LONGEST_RETRY_S
    books = Books(Example("", "held", base.QUEUED, order(BLOCKED, retry_s=NOW + 99.0)))
    other = replace(job_seen(base.QUEUED, {}), job_id="2")
    books.state.adopt(books.roster.admit(other), 0.0)
    books.reconcile()
    assert books.roster.orders["1"].retry_s == NOW
