"""Jobs that run and are on hold: told to stop, with their GPUs in the books until the backend says they have."""

from __future__ import annotations

from collections.abc import Container, Iterable

from dally.engine.state import State
from dally.live.overrides import HOLD, Overrides
from dally.live.roster import Roster
from dally.model import RUNNING, Job, Preempt


def stop_held(roster: Roster, overrides: Overrides, now: float) -> list[str]:
    """Have those stopped that run and are not to; who cannot be, a line each."""
    held = overrides.of(HOLD)
    _let_run(roster, held)
    problems: list[str] = []
    for job_id in held:
        job = roster.jobs.get(job_id)
        if job is None or job.status != RUNNING or roster.is_stopping(job):
            continue
        if roster.told[job_id].managed:
            roster.want(job_id, None, now)
        else:
            problems.append(f"job {job_id} is on hold and runs on: it is no longer ours to stop")
    return problems


def _let_run(roster: Roster, held: Container[str]) -> None:
    """Those that were released before the backend took the order to stop them."""
    for wanted in list(roster.wanted.values()):
        job = roster.jobs.get(wanted.job_id)
        taken = wanted.asked and not wanted.error
        if job is not None and roster.is_stopping(job) and job.job_id not in held and not taken:
            del roster.wanted[job.job_id]


def note_stopped(state: State, roster: Roster, stopped: Iterable[Job], overrides: Overrides, now: float) -> None:
    """The backend has stopped them: their GPUs are for others."""
    for job in stopped:
        roster.wanted.pop(job.job_id, None)
        if job.status == RUNNING:  # its machine has not failed at the same time
            state.apply(Preempt(job), now)
        if job.job_id in overrides.of(HOLD):
            state.hold(job, now)
