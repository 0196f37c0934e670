"""The scheduling cycle. The simulator calls it on a virtual clock, the daemon on the wall clock."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.engine.checking import check
from dally.engine.executor import Executor
from dally.engine.state import State
from dally.errors import PolicyError
from dally.model import CANCEL, EVICT, NETWORK, START_FAILED, SUBMIT, Event

ACTIONS_PER_JOB: Final = 8  # in one pass: enough to start, preempt and move each; two that swap for ever do more


def cycle(state: State, events: list[Event], now: float, executor: Executor) -> float:
    """One scheduling cycle at `now`; returns when the next is due even if nothing happens until then.

    `events` is what happened since the last cycle, in any order; leases that end are not among them.
    """
    # 1. Collect: what happened, what is due by itself, and in which order that counts.
    events = state.begin_cycle(events, now)

    # 2. Advance: bring jobs and machines up to date with it.
    # 3. Order: jobs that came in or lost their GPUs are queued by the policy's rank as they do.
    for event in in_order(events):
        state.happen(event, now)

    executor.before_pass(now)

    # 4. Offer: the policy walks the queue, and 5. each of its actions is carried out as it comes, or fails.
    left = most_actions(state)
    for action in state.policy.schedule(now, state.queue, state.cluster):
        reason = check(state.cluster, action) or executor.apply(action, now)
        if reason:
            state.refuse(action, reason, now)
        else:
            state.apply(action, now)
        left -= 1
        if left < 0:
            raise PolicyError(f"{type(state.policy).__name__} goes on without end in one pass, at {now} s")

    # 6. Whoever was not displaced goes on, whoever was passed over waits on; set the next wake-up.
    state.renew(now)
    state.note_links(now)
    state.note_decisions(now)
    state.note_slots(now)
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
    return 3 if kind == NETWORK else 4 * SUBMIT + 1


def most_actions(state: State) -> i64:
    """The number of actions in one pass beyond which it will not end."""
    return ACTIONS_PER_JOB * (len(state.queue) + len(state.cluster.running) + 1)
