"""The scheduling cycle. The simulator calls it on a virtual clock, the daemon on the wall clock."""

from __future__ import annotations

from dally.engine.state import State
from dally.model import Event


def cycle(state: State, events: list[Event], now: float) -> float:
    """One scheduling cycle at `now`; returns when the policy wants the next one at the latest."""
    # 1. Collect: `events` is everything that happened at this instant.
    # 2. Advance: bring jobs and machines up to date with it.
    # 3. Order: jobs that came in or lost their GPUs are queued by the policy's rank as they do.
    for event in events:
        state.happen(event, now)

    # 4. Offer: the policy walks the queue, and 5. each of its actions is applied as it comes.
    for action in state.policy.schedule(now, state.queue, state.cluster):
        state.apply(action, now)

    # 6. Whoever was not displaced goes on, whoever was passed over waits on; set the next wake-up.
    state.renew(now)
    state.note_links(now)
    state.note_decisions(now)
    state.note_slots(now)
    state.queue.end_pass()
    return state.policy.next_wakeup(now)
