"""A daemon in small: the scheduling cycle, a wall clock and a fake backend that may fail."""

from __future__ import annotations

from pathlib import Path

from dally.engine.cycle import cycle
from dally.engine.executor import Executor
from dally.engine.snapshot import save
from dally.engine.state import State
from dally.model import CANCEL, FINISH, RUNNING, SUBMIT, Action, Event, Job, Start


class FakeBackend(Executor):
    """Runs jobs by name for as long as they say, and cannot start every tenth that it is asked to."""

    def __init__(self) -> None:
        self.asked = 0
        self.ends_s: dict[str, float] = {}  # of running jobs
        self.starts: list[str] = []
        self.done: list[str] = []

    def apply(self, action: Action, now: float) -> str:
        name = action.job.job_id
        if not isinstance(action, Start):
            del self.ends_s[name]
            return ""
        self.asked += 1
        if self.asked % 10 == 0:
            return "the node did not answer"
        assert name not in self.ends_s
        assert name not in self.done
        self.starts.append(name)
        self.ends_s[name] = now + action.job.restart_due_s + action.job.remaining_s(now)
        return ""

    def ended(self, now: float) -> list[str]:
        """Jobs that have ended by now and were not told of yet."""
        found = [name for name, end_s in self.ends_s.items() if end_s <= now]
        for name in found:
            del self.ends_s[name]
        self.done += found
        return found


def one_turn(
    state: State, backend: FakeBackend, arrivals: list[Job], cancels: list[str], now: float, snapshot: Path
) -> float:
    """Tell the engine what happened by now, let it act, save it; returns when to come again."""
    jobs = {job.job_id: job for job in [*state.cluster.running.values(), *state.queue]}
    events = [Event(FINISH, jobs[name]) for name in backend.ended(now)]
    for name in [name for name in cancels if name in jobs]:
        cancels.remove(name)
        events.append(Event(CANCEL, jobs[name]))
        if jobs[name].status == RUNNING:
            backend.ends_s.pop(name, None)
    while arrivals and arrivals[0].submit_s <= now:
        events.append(Event(SUBMIT, arrivals.pop(0)))
    wakeup_s = cycle(state, events, now, backend)
    save(state, snapshot)
    return min([wakeup_s, *backend.ends_s.values(), *(job.submit_s for job in arrivals[:1])])
