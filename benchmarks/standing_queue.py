"""A trace that keeps a large cluster full and a queue of a given length in front of it, as on a busy day.

Jobs are those of the recipe `venus-like`: its sizes, users and durations. Long ones come first, minute by minute,
so that their ages differ, and so many that the queue is as long as asked for even where the smallest go first.
Beside them and from then on the whole mix comes at a steady pace, about as much as the cluster can do: most of
these end within minutes, which makes room for others and teaches a policy what to expect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dally.traces.generate import WorkloadRequest, find_recipe, generate

RECIPE: Final = "venus-like"
LONG_S: Final = 7200.0  # at least so long are those who stand in line first,
RAMP_S: Final = 6000.0  # and none of them has ended when the last has come
GAP_GPU_S: Final = 100_000.0  # a job a second on so many GPUs


class Asked(NamedTuple):
    """A job as the recipe has it."""

    user: str
    gpus: int
    duration_s: float


def mix(gpus: int, jobs: int) -> list[Asked]:
    """So many jobs of the recipe for a cluster of that size."""
    made = generate(find_recipe(RECIPE), WorkloadRequest(1, jobs, None, 0.9, gpus))
    return [Asked(job.user, job.gpus, float(job.duration_s)) for job in made.jobs]


def waiting_of(sizes: Sequence[int], gpus: int) -> int:
    """How many of these wait where the smallest go first."""
    left = gpus
    for running, size in enumerate(sorted(sizes)):
        left -= size
        if left < 0:
            return len(sizes) - running
    return 0


def long_ones(gpus: int, waiting: int) -> list[Asked]:
    """The first long jobs of the recipe, as many as it takes for so many to wait."""
    drawn = 16 * waiting
    while True:
        found = [job for job in mix(gpus, drawn) if job.duration_s >= LONG_S]
        if waiting_of([job.gpus for job in found], gpus) >= waiting:
            break
        drawn *= 2
    fewest, most = waiting, len(found)
    while fewest < most:
        middle = (fewest + most) // 2
        if waiting_of([job.gpus for job in found[:middle]], gpus) >= waiting:
            most = middle
        else:
            fewest = middle + 1
    return found[:most]


def rows(gpus: int, waiting: int, later: int) -> Iterator[str]:
    """The trace, line by line; `later`: how many come after the queue has formed."""
    yield "job_id,user,submit_s,gpus,duration_s\n"
    gap_s = GAP_GPU_S / gpus
    standing = long_ones(gpus, waiting)
    coming = mix(gpus, int(RAMP_S / gap_s) + later)
    stamped = [(60.0 * (number * RAMP_S // (60.0 * len(standing))), job) for number, job in enumerate(standing)]
    stamped += [((number + 1) * gap_s, job) for number, job in enumerate(coming)]
    stamped.sort(key=lambda row: row[0])
    for number, (submit_s, job) in enumerate(stamped):
        yield f"j{number},{job.user},{submit_s:.3f},{job.gpus},{job.duration_s:g}\n"


def write_trace(path: Path, gpus: int, waiting: int, later: int) -> None:
    """Write the trace as csv."""
    with path.open("w") as file:
        file.writelines(rows(gpus, waiting, later))
