"""Jobs that all come at second 0."""

from __future__ import annotations

from collections.abc import Iterable

from dally.engine.cycle import cycle
from dally.engine.executor import Executor
from dally.engine.state import State
from dally.job_spec import JobSpec
from dally.model import SUBMIT, Event, Job


def submit_all(
    state: State, rows: Iterable[tuple[int, float]], model: str, users: int, prefix: str = ""
) -> list[Job]:
    """Have the state take in jobs of these GPUs and stated seconds, of so many users in turn."""
    jobs = []
    for number, (gpus, stated_s) in enumerate(rows):
        spec = JobSpec(gpus, model=model, user=f"u{number % users}")
        jobs.append(Job(number, f"{prefix}{number}", 0.0, gpus, stated_s, model, spec))
    cycle(state, [Event(SUBMIT, job) for job in jobs], 0.0, Executor())
    return jobs
