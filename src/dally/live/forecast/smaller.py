"""The smallest change to a job that would make it start now: fewer GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dally.cluster.capacity import Cluster
from dally.engine.cycle import cycle
from dally.live.forecast.closed_machines import ClosedMachines
from dally.live.forecast.past_jobs import PastJob, past_of
from dally.live.forecast.present import load_present
from dally.model import CANCEL, NEVER, RUNNING, SUBMIT, Event, Job

MOST_TRIED: Final = 8


def most_gpus_now(content: bytes, preview: PastJob | None, job: Job) -> int:
    """The most GPUs, fewer than it asks for, with which the policy would start the job at once; 0: none.

    A job that waits is taken back and submitted anew, as its user would have to do.
    """
    asked = preview or past_of(job)
    number = None if preview is not None else int(job.index)
    for gpus in sizes_below(asked.spec.gpus, asked.spec.group, load_present(content).state.cluster):
        if _starts(content, replace(asked, spec=replace(asked.spec, gpus=gpus)), number):
            return gpus
    return 0


def sizes_below(gpus: int, group: int, cluster: Cluster) -> list[int]:
    """Sizes that a user might choose instead, largest first: whole machines, and powers of two."""
    machine = int(max(cluster.topology.gpus[0]))
    steps = {machine * count for count in range(1, gpus // machine + 1)} | {2**power for power in range(20)}
    fitting = sorted((size for size in steps if size < gpus and size % group == 0), reverse=True)
    if len(fitting) <= MOST_TRIED:
        return fitting
    return [fitting[place * (len(fitting) - 1) // (MOST_TRIED - 1)] for place in range(MOST_TRIED)]


def _starts(content: bytes, asked: PastJob, instead_of: int | None) -> bool:
    present = load_present(content)
    job = asked.again(present.next_number, present.now, NEVER)
    events = [Event(CANCEL, other) for other in present.jobs if other.index == instead_of]
    executor = ClosedMachines(present.state, present.draining)
    cycle(present.state, [*events, Event(SUBMIT, job)], present.now, executor)
    return job.status == RUNNING
