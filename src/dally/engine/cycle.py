"""The scheduling cycle. The simulator calls it on a virtual clock, the daemon on the wall clock."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.engine.checking import check
from dally.engine.cycle_notes import note_cycle
from dally.engine.executor import Executor
from dally.engine.state import State
from dally.errors import PolicyError
from dally.model import CANCEL, DEGRADE, EVICT, MEASURE, NETWORK, REPORT, START_FAILED, SUBMIT, Action, Event

ACTIONS_PER_JOB: Final = 8  # in one pass: enough to start, preempt and move each; two that swap for ever do more
LATEST: Final = 16  # actions of an endless pass whose jobs are named


def cycle(state: State, events: list[Event], now: float, executor: Executor) -> float:
    """One scheduling cycle at `now`; returns when the next is due even if nothing happens until then.

    `events` is what happened since the last cycle, in any order; leases that end are not among them.
    """
    open_cycle(state, events, now, executor)

    # 4. Offer: the policy walks the queue, and 5. each of its actions is carried out as it comes, or fails.
    most = most_actions(state)
    left = most
    latest: list[str] = []
    for action in state.policy.schedule(now, state.queue, state.cluster):
        carry_out(state, action, now, executor)
        left -= 1
        if left < LATEST:
            latest.append(action.job.job_id)
            if left < 0:
                raise endless(state, now, most, latest)

    return close_cycle(state, now)


def open_cycle(state: State, events: list[Event], now: float, executor: Executor) -> None:
    """All that comes before the first offer. Who decides from outside, job by job, calls the three parts itself."""
    # 1. Collect: what happened, what is due by itself, and in which order that counts.
    events = state.begin_cycle(events, now)

    # 2. Advance: bring jobs and machines up to date with it.
    # 3. Order: jobs that came in or lost their GPUs are queued by the policy's rank as they do.
    for event in in_order(events):
        state.happen(event, now)

    executor.before_pass(now)
    state.review_consent(now)
    state.cluster.focus(None)


def carry_out(state: State, action: Action, now: float, executor: Executor) -> None:
    """One action of the policy: it is applied, or fails for a reason."""
    reason = executor.refusal(action) or check(state.cluster, action) or executor.apply(action, now)
    if reason:
        state.refuse(action, reason, now)
    else:
        state.apply(action, now)
        executor.applied(action, now)


def close_cycle(state: State, now: float) -> float:
    """All that comes after the last action; returns when the next cycle is due."""
    state.cluster.focus(None)

    # 6. Whoever was not displaced goes on, whoever was passed over waits on; set the next wake-up.
    state.renew(now)
    note_cycle(state, now)
    state.end_pass(now)
    return state.next_wakeup(now)


def in_order(events: list[Event]) -> list[Event]:
    """The events in the order in which those of one instant are handled; equal kinds stay as they came."""
    last: i64 = 0
    for event in events:
        phase = place_of(event)
        if phase < last:
            return sorted(events, key=place_of)
        last = phase
    return events


def place_of(event: Event) -> i64:
    """The place of the event's kind among those of one instant.

    After ends, before failures: starts that failed, jobs evicted and jobs cancelled, as they give GPUs back, then
    the network.
    Last: holds and releases, one after the other as they came, since a job may be held as it comes.
    """
    kind = event.kind
    if kind <= SUBMIT:
        return 4 * kind
    if kind in (START_FAILED, EVICT):
        return 1
    if kind == CANCEL:
        return 2
    return 3 if kind in (NETWORK, REPORT, MEASURE, DEGRADE) else 4 * SUBMIT + 1


def endless(state: State, now: float, actions: i64, latest: list[str]) -> PolicyError:
    """What to say of a policy whose pass has not ended after so many actions, the latest on these jobs."""
    name = state.policy.registered_name or type(state.policy).__name__
    jobs = ", ".join(dict.fromkeys(latest))
    return PolicyError(
        f"{name} goes on without end in one pass at {now:.9g} s: after {int(actions)} actions it still "
        f"starts, preempts or moves the same jobs ({jobs}); does starting a job change its rank?"
    )


def most_actions(state: State) -> i64:
    """The number of actions in one pass beyond which it will not end."""
    return ACTIONS_PER_JOB * (len(state.queue) + len(state.cluster.running) + 1)
