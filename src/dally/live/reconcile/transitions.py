"""The table of transitions: desired × observed × the engine's status → events, order, reason. Rows are data.

`docs/reconcile.md` is drawn from it, and a test covers each row. The first row that fits a job counts. Columns name
alternatives with | between them; `*` is any. Guards and effects are named here and defined in reconciler.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_ORDER: Final = "none"  # desired: nothing was decided that is not so
ABSENT: Final = "absent"  # observed: the backend does not report the job
UNKNOWN: Final = "unknown"  # status: the engine does not have the job
DESIRED: Final = (NO_ORDER, "run", "stop", "blocked", "keep")
OBSERVED: Final = (
    "queued", "held", "blocked", "starting", "running", "stopping", "finished", "failed", "cancelled", ABSENT,
)  # fmt: skip
STATUS: Final = (UNKNOWN, "waiting", "running", "held")

# Row.order: what becomes of the pending order.
DROP: Final = "drop"
STOP: Final = "stop"
BLOCK: Final = "block"
KEEP: Final = "keep"
POSTPONE: Final = "postpone"


@dataclass(frozen=True)
class Row:
    """One transition."""

    id: str
    desired: str
    observed: str
    status: str
    guard: str = ""
    events: tuple[str, ...] = ()  # for the engine
    order: str = ""  # what becomes of the pending order, or what is sent
    reason: str = ""  # of the events, unless the backend's answer says why
    problem: str = ""  # for operators
    meaning: str = ""


# Which jobs are taken in. `submit` goes on to JOBS with the job as it is from then on.
ADMISSION: Final = (
    Row("new-ended", "none", "finished|failed|cancelled", UNKNOWN,
        meaning="It ended before the daemon knew it."),
    Row("new-without-gpus", "none", "*", UNKNOWN, "asks_for_no_gpus",
        meaning="It asks for no GPUs: not ours to schedule."),
    Row("new-unschedulable", "none", "*", UNKNOWN, "is_unschedulable", problem="job {job} {unschedulable}",
        meaning="No machine could ever take it: it is shown as unschedulable, and no policy is asked."),
    Row("new", "none", "*", UNKNOWN, events=("submit",), meaning="A job that has come."),
    Row("ended", "*", "finished|failed|cancelled", "waiting|running|held", meaning="It has ended: see JOBS."),
    Row("became-unschedulable", "*", "*", "waiting|running|held", "is_unschedulable",
        problem="job {job} {unschedulable}", meaning="It asks for more than before: it counts as it came."),
    Row("resized", "*", "*", "waiting|running|held", "asks_for_other_gpus", ("cancel", "submit"), DROP,
        meaning="It asks for another number of GPUs: for the engine that is another job."),
    Row("known", "*", "*", "waiting|running|held", meaning="As before."),
)  # fmt: skip

# What happened to a job since the last cycle.
JOBS: Final = (
    # It is over.
    Row("gone-running", "*", ABSENT, "running", events=("finish",), order=DROP,
        meaning="The backend no longer reports a job that ran: it has ended, and how is not known."),
    Row("gone", "*", ABSENT, "waiting|held", events=("cancel",), order=DROP,
        meaning="The backend no longer reports a job that waited."),
    Row("cancelled", "*", "cancelled", "waiting|running|held", events=("cancel",), order=DROP,
        meaning="Its user or an operator has cancelled it."),
    Row("ended-running", "*", "finished|failed", "running", events=("finish",), order=DROP,
        meaning="It ran to its end, good or bad."),
    Row("ended-stopping", "*", "finished|failed", "waiting|held", events=("cancel",), order=DROP,
        meaning="It ended while it was to stop, or before it was seen to run: it is never started again."),
    # It runs.
    Row("stop-refused", "stop", "running", "running", "refuses_to_stop_here", order=POSTPONE,
        meaning="On hold, and the backend has refused to stop it for long: it is non-preemptible for a while."),
    Row("stopping-held", "stop", "running", "running", "is_managed_here",
        meaning="On hold: its GPUs are booked until the backend says that it has stopped."),
    Row("moving", "run", "running", "*", "leaves_for_elsewhere",
        meaning="It is to move, and has not left yet."),
    Row("move-refused", "run", "running", "*", "refuses_to_leave", ("evict", "adopt"), KEEP,
        "the backend would not stop it", "the backend would not stop job {job}: {answer}",
        "The backend has refused to move it for long: it stays, non-preemptible for a while."),
    Row("preempting", "stop", "running", "waiting|held", "leaves",
        meaning="It was preempted, and has not left yet."),
    Row("preempt-refused", "stop", "running", "waiting|held", "refuses_to_stop", ("adopt",), KEEP,
        "", "the backend would not stop job {job}: {answer}",
        "The backend has refused to preempt it for long: it stays, non-preemptible for a while."),
    Row("in-place", "run|stop|blocked", "running", "running", "is_here", order=DROP,
        meaning="It runs where the engine has it."),
    Row("runs", "none|keep", "running", "running", "is_here", meaning="It runs where the engine has it."),
    Row("outside", "*", "running", "*", "is_outside", order=DROP,
        meaning="It runs on machines that are not in the topology."),
    Row("moved", "*", "running", "running", events=("evict", "adopt"), order=DROP, reason="it runs elsewhere",
        meaning="It runs on other GPUs than the engine has it on: the engine follows."),
    Row("started", "*", "running", "waiting|held", events=("adopt",), order=DROP,
        meaning="It runs and the engine has it waiting: the engine follows, unless a machine of its gang is lost."),
    # It waits.
    Row("stopped", "stop", "queued", "running", events=("preempt",), order=DROP,
        meaning="A job on hold has stopped, and was released meanwhile."),
    Row("stopped-held", "stop", "held|blocked", "running", events=("preempt", "hold"), order=DROP,
        meaning="A job on hold has stopped: its GPUs are free."),
    Row("about-to-start", "run", "queued", "running", "may_yet_start",
        meaning="The backend was sent it, or will be."),
    Row("not-started", "run", "queued", "running", events=("start_failed",), order=DROP,
        reason="the backend did not start it",
        meaning="The start was refused again and again, or took too long: its GPUs are free."),
    Row("start-held", "run", "held", "running", events=("start_failed", "hold"), order=DROP,
        reason="it was put on hold", meaning="It was put on hold before it started."),
    Row("start-blocked", "run", "blocked", "running", events=("start_failed", "hold"), order=BLOCK,
        reason="{reason}", meaning="The cluster's own rules keep it from starting: its GPUs are free, and it is "
        "tried again later."),
    Row("undone-start-blocked", "run", "blocked", "waiting", events=("hold",), order=BLOCK,
        meaning="As above, and the engine had given its GPUs away already."),
    Row("undone-start-blocked-held", "run", "blocked", "held", order=BLOCK, meaning="As above, on hold."),
    Row("undone-start-held", "run", "held", "waiting", events=("hold",), order=DROP,
        meaning="The engine gave its GPUs away before it started, and it was put on hold."),
    Row("undone-start", "run", "queued|held", "waiting|held", order=DROP,
        meaning="The engine gave its GPUs away before it started, as a machine failed."),
    Row("blocked-over", "blocked", "queued", "held", "is_retry_due", ("release",),
        meaning="It was blocked, and is tried again."),
    Row("blocked-waits", "blocked", "queued", "waiting|held",
        meaning="It was blocked, and is not tried again yet."),
    Row("blocked-again", "blocked", "blocked", "waiting", events=("hold",), order=BLOCK,
        meaning="It was to be tried again, and is blocked as before."),
    Row("blocked", "blocked", "blocked", "held", meaning="Blocked as before."),
    Row("requeued", "*", "queued", "running", events=("evict",), order=DROP, reason="{reason}",
        meaning="It lost its GPUs behind the scheduler's back."),
    Row("requeued-held", "*", "held|blocked", "running", events=("evict", "hold"), order=DROP, reason="{reason}",
        meaning="It lost its GPUs, and is on hold or blocked."),
    Row("held", "*", "held|blocked", "waiting", events=("hold",), order=DROP,
        meaning="Its user, a date, a dependency or the cluster's rules keep it: it holds up no other job."),
    Row("stays-unschedulable", "*", "queued", "held", "is_unschedulable", order=DROP,
        meaning="It could wait for a machine again, and there is none that could ever take it."),
    Row("released", "*", "queued", "held", events=("release",), order=DROP, meaning="It may start again."),
    Row("waits", "*", "queued|held|blocked", "waiting|held", order=DROP, meaning="It waits, as decided."),
    # It is on its way.
    Row("start-too-late", "run", "starting", "running", "is_late", ("start_failed", "hold"), BLOCK,
        "did not start within {seconds:g} s", meaning="The backend took the start and did not carry it out: the "
        "job is called back, its GPUs are free, and it is tried again later."),
    Row("starting", "run", "starting", "running", meaning="The backend starts it."),
    Row("undone-starting", "run", "starting", "waiting|held", "is_managed", order=STOP,
        meaning="The engine gave its GPUs away while it started: it is called back."),
    Row("calling-back", "stop|blocked", "starting", "*", meaning="It starts, and is called back."),
    Row("foreign-start", "none|keep", "starting", "running", "is_managed", ("evict",), STOP, "it was requeued",
        meaning="It was requeued and something else started it: it is called back."),
    Row("foreign-release", "none|keep", "starting", "waiting|held", "is_managed", order=STOP,
        meaning="Something else released it: it is called back."),
    Row("others-start", "*", "starting", "*", meaning="Another scheduler starts its own job."),
    Row("leaving", "*", "stopping", "*", meaning="It gives its GPUs back; they are not free yet."),
)  # fmt: skip

# After the policy's pass: what an operator's hold asks of a job.
HOLDS: Final = (
    Row("hold-stops", "none|run|keep|blocked", "*", "running", "is_on_hold_and_managed", order=STOP,
        meaning="It is on hold and has GPUs: it is to stop."),
    Row("hold-in-vain", "*", "*", "running", "is_on_hold_and_not_ours",
        problem="job {job} is on hold and runs on: it is no longer ours to stop",
        meaning="It is on hold, and another scheduler looks after it."),
    Row("hold-released", "stop", "*", "running", "is_released_in_time", order=DROP,
        meaning="It was released before the backend took the order to stop it: it runs on."),
)  # fmt: skip

# What is sent to the backend then; a request that it took is not repeated at once.
REQUESTS: Final = (
    Row("send-start", "run", "queued", "running", "finds_gpus_free", order="start",
        meaning="Its GPUs are free on the cluster, too: start it there."),
    Row("send-move", "run", "running", "*", "is_elsewhere_and_managed", order="preempt",
        meaning="It runs elsewhere: stop it there first."),
    Row("send-preempt", "stop", "running|starting", "*", "is_managed", order="preempt",
        meaning="It is to stop, or not to start."),
    Row("send-recall", "blocked", "blocked|starting", "*", "is_managed", order="preempt",
        meaning="The backend must not start it later on GPUs that other jobs have by then."),
)  # fmt: skip

TABLES: Final = {"Admission": ADMISSION, "Jobs": JOBS, "Holds": HOLDS, "Requests": REQUESTS}
Key = tuple[str, str, str]
Index = dict[Key, tuple[Row, ...]]


def index(rows: tuple[Row, ...]) -> Index:
    """The rows by desired, observed and status, in their order."""
    by_key: dict[Key, list[Row]] = {}
    for row in rows:
        for desired in _alternatives(row.desired, DESIRED):
            for observed in _alternatives(row.observed, OBSERVED):
                for status in _alternatives(row.status, STATUS):
                    by_key.setdefault((desired, observed, status), []).append(row)
    return {key: tuple(fitting) for key, fitting in by_key.items()}


def _alternatives(text: str, all_of_them: tuple[str, ...]) -> tuple[str, ...]:
    names = all_of_them if text == "*" else tuple(text.split("|"))
    assert set(names) <= set(all_of_them), text
    return names
