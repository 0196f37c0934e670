"""What `--elastic` says of the jobs of a simulation: which may run on other numbers of GPUs, and on which."""

from __future__ import annotations

from hashlib import blake2b
from math import ceil, floor
from typing import Final, NamedTuple

from dally.cluster.feasibility.statement import is_constrained
from dally.errors import InputError
from dally.model import Job
from dally.runs.stated_numbers import read_numbers
from dally.runs.world import Profiles
from dally.sizes import read_sizes

OPTION: Final = "--elastic"
# By name: the field, the least value and the largest.
VALUES: Final = {
    "share": (0.0, 1.0),
    "min": (1e-6, 1.0),
    "max": (1.0, 1000.0),
    "step": (1e-6, 1000.0),
    "resize_s": (0.0, 1e9),
}
DRAWN: Final = "may run on other numbers of GPUs"
LARGE: Final = "keep their size: their model's layout is stated for one number of GPUs"
SHAPED: Final = "keep their size: they ask for more than GPUs of their machines"


class ElasticJobs(NamedTuple):
    """Which share of the jobs is elastic, and their sizes as shares of what they ask for."""

    share: float = 1.0
    least: float = 0.5
    most: float = 2.0
    step: float = 0.25
    resize_s: float | None = None  # None: a restart


def read_elastic(text: str) -> ElasticJobs | None:
    """What the option states; None for an empty text: only jobs whose trace says so are elastic."""
    if not text:
        return None
    values = read_numbers(OPTION, text, VALUES)
    return ElasticJobs(**{{"min": "least", "max": "most"}.get(name, name): value for name, value in values.items()})


def make_elastic(
    jobs: list[Job], stated: ElasticJobs, seed: int, total_gpus: int, profiles: Profiles
) -> dict[str, int]:
    """Give sizes to jobs drawn by seed and id, of those that state none; notes on how many have which."""
    notes: dict[str, int] = {}
    for job in jobs:
        if job.sizes or _uniform(f"{seed}/elastic/{job.job_id}") >= stated.share:
            continue
        note = DRAWN
        if is_constrained(job.spec):
            note = SHAPED
        elif job.model and profiles(job.model, int(job.gpus)).groups is not None:
            note = LARGE
        else:
            sizes = sizes_of(int(job.gpus), int(job.group), stated, total_gpus)
            if len(sizes) < 2:
                continue
            job.let_resize(sizes, stated.resize_s)
        notes[note] = notes.get(note, 0) + 1
    return notes


def sizes_of(gpus: int, block: int, stated: ElasticJobs, total_gpus: int) -> tuple[int, ...]:
    """The sizes of a job that asks for so many GPUs, in whole replicas of `block` GPUs."""
    least = max(1, ceil(stated.least * gpus / block)) * block
    most = min(floor(stated.most * gpus), total_gpus)
    step = max(1, round(stated.step * gpus / block)) * block
    below = range(gpus, least - 1, -step)
    above = range(gpus, most + 1, step)
    return tuple(sorted({*below, *above}))


def check_sizes(name: str, job: Job, profiles: Profiles) -> None:
    """InputError if sizes that the trace states for the job make no sense for its model."""
    if not job.sizes:
        return
    try:
        read_sizes(job.spec.sizes, int(job.gpus), int(job.group))
        if job.model and profiles(job.model, int(job.gpus)).groups is not None:
            raise InputError(f"sizes: {job.spec.sizes!r}: {job.model}'s layout is stated for one number of GPUs")
    except InputError as error:
        raise InputError(f"{name}: job {job.job_id!r}: {error}") from None


def _uniform(key: str) -> float:
    """A number from [0, 1) that depends on the key alone, on any machine."""
    return int.from_bytes(blake2b(key.encode(), digest_size=6).digest(), "big") / (1 << 48)
