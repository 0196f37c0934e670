"""From a recipe and a request to jobs in order of submission."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dally.errors import InputError
from dally.traces.generate.arrivals import DAY_S, HOUR_S, draw_arrivals
from dally.traces.generate.campaigns import draw_bursts, shared_out
from dally.traces.generate.recipe import Recipe
from dally.traces.generate.stream import Stream, near_shares
from dally.whole_file import write_pieces

GOLDEN = 0.6180339887498949  # its multiples, less their whole part, lie evenly in [0, 1) wherever one stops


def draw_work(recipe: Recipe, jobs: int, most_gpus: int, seed: int, attempt: int = 0) -> dict[int, list[int]]:
    """Durations in seconds by size, shortest first; sizes above `most_gpus` are left out.

    Shares are quotas and durations lie evenly on their curve. So seeds differ in who comes when, and hardly in how
    much work there is, although the few longest jobs hold most of it.
    """
    shares = possible_shares(recipe, most_gpus)
    offset = Stream(seed, recipe.name, "sizes").point()
    counts = near_shares(jobs, list(shares.values()), offset)
    points = {most: Stream(seed, recipe.name, "durations", most, attempt).point() for most in recipe.curves}
    result: dict[int, list[int]] = {}
    for gpus, count in zip(shares, counts, strict=True):
        most = recipe.curve_of(gpus)
        own_s = []
        for _ in range(count):
            own_s.append(recipe.curves[most].at(points[most]))
            points[most] = (points[most] + GOLDEN) % 1.0
        result[gpus] = sorted(own_s)
    return result


def possible_shares(recipe: Recipe, most_gpus: int) -> dict[int, float]:
    """Percent of jobs by size, of the sizes that a cluster of so many GPUs can hold."""
    shares = {gpus: share for gpus, share in recipe.shares.items() if gpus <= most_gpus}
    if not shares:
        least = min(recipe.shares)
        raise InputError(f"{recipe.name}: its gangs have at least {least} GPUs, the cluster has {most_gpus}")
    return shares


def gpu_seconds(work: dict[int, list[int]]) -> int:
    """GPUs × seconds of all jobs."""
    return sum(gpus * sum(durations_s) for gpus, durations_s in work.items())


def mean_gpu_seconds(recipe: Recipe, most_gpus: int) -> float:
    """GPUs × seconds of a job on average."""
    shares = possible_shares(recipe, most_gpus)
    means_s = {most: curve.mean_s() for most, curve in recipe.curves.items()}
    total = sum(share * gpus * means_s[recipe.curve_of(gpus)] for gpus, share in shares.items())
    return total / sum(shares.values())


MOST_JOBS = 10_000_000
MOST_PEOPLE = 10_000
ATTEMPTS = 100
NEAR = 0.01  # of the load
PASSED = "Pass"


class WorkloadRequest(NamedTuple):
    """How much of a recipe to generate; what is None follows from the rest, or from the recipe."""

    seed: int = 1
    jobs: int | None = None
    days: float | None = None
    load: float | None = None  # GPU-seconds asked for ÷ GPU-seconds of the cluster until the last submission
    gpus: int | None = None  # of the cluster; also the largest gang
    users: int | None = None  # who hold as much of the work as measured; None: the recipe's, by their jobs
    teams: int = 0  # whose queues they use; 0: none


class GeneratedJob(NamedTuple):
    """A row of the trace."""

    job_id: str
    user: str
    name: str
    submit_s: int
    gpus: int
    duration_s: int
    status: str
    queue: str = ""


@dataclass(frozen=True)
class GeneratedWorkload:
    """Jobs in order of submission, and the cluster that they were made for."""

    recipe: Recipe
    seed: int
    cluster_gpus: int
    jobs: list[GeneratedJob]

    def summary(self) -> dict[str, object]:
        """The workload in numbers, for `--json`."""
        gpu_s = sum(job.gpus * job.duration_s for job in self.jobs)
        large_s = sum(job.gpus * job.duration_s for job in self.jobs if job.gpus > 8)
        span_s = self.jobs[-1].submit_s
        durations_s = sorted(job.duration_s for job in self.jobs)
        sizes = Counter(job.gpus for job in self.jobs)
        return {
            "recipe": self.recipe.name,
            "seed": self.seed,
            "jobs": len(self.jobs),
            "span_s": span_s,
            "gpu_hours": round(gpu_s / 3600, 3),
            "cluster_gpus": self.cluster_gpus,
            "load": round(gpu_s / (self.cluster_gpus * span_s), 4) if span_s else None,
            "gpu_hours_over_8": round(large_s / gpu_s, 4),
            "duration_p50_s": durations_s[len(durations_s) // 2],
            "duration_p90_s": durations_s[len(durations_s) * 9 // 10],
            "users": len({job.user for job in self.jobs}),
            "names": len({job.name for job in self.jobs}),
            **({"queues": len({job.queue for job in self.jobs})} if self.jobs[0].queue else {}),
            "jobs_by_gpus": {str(gpus): sizes[gpus] for gpus in sorted(sizes)},
            "jobs_by_status": dict(sorted(Counter(job.status for job in self.jobs).items())),
        }


def generate(recipe: Recipe, request: WorkloadRequest) -> GeneratedWorkload:
    """A workload after the recipe; the same request gives the same jobs on every machine."""
    _check(recipe, request)
    gpus = request.gpus if request.gpus is not None else recipe.cluster_gpus
    work = _work(recipe, request, gpus)
    bursts = draw_bursts(recipe, work, request.seed)
    queues = [""] * len(bursts)
    if request.users is not None or request.teams:
        bursts, queues = shared_out(bursts, request.users or recipe.users, request.teams, request.seed, recipe.name)
    window_s = _window_s(recipe, request, work, gpus)
    times_s = draw_arrivals(recipe, bursts, window_s, request.seed)
    rows = [
        (submit_s, place, duration_s)
        for place, (burst, own_s) in enumerate(zip(bursts, times_s, strict=True))
        for submit_s, duration_s in zip(own_s, burst.durations_s, strict=True)
    ]
    rows.sort()
    _move_to_ends(rows, int(window_s))
    ends = Stream(request.seed, recipe.name, "ends")
    jobs = []
    for number, (submit_s, place, duration_s) in enumerate(rows):
        burst = bursts[place]
        status = _end(recipe, duration_s, ends.point())
        facts = (f"j{number}", burst.user, burst.name, submit_s, burst.gpus, duration_s, status, queues[place])
        jobs.append(GeneratedJob(*facts))
    return GeneratedWorkload(recipe, request.seed, gpus, jobs)


def _move_to_ends(rows: list[tuple[int, int, int]], last_s: int) -> None:
    """Let a job come at 0 and one at the window's end: a trace lasts from first to last, and the load counts on it.

    They are taken from the same hour of the day if it has any, which keeps the hours' quotas.
    """
    but_the_last = range(max(1, len(rows) - 1))
    for places, time_s in ((range(len(rows) - 1, -1, -1), last_s), (but_the_last, 0)):
        hour = time_s // HOUR_S % 24
        chosen = next((place for place in places if rows[place][0] // HOUR_S % 24 == hour), places[0])
        rows[chosen] = (time_s, *rows[chosen][1:])
        rows.sort()


def _end(recipe: Recipe, duration_s: int, point: float) -> str:
    """How a job ends: short ones fail more often, or as the recipe's quarters say."""
    quarter = bisect_right(recipe.ends_below_s, duration_s)
    left = point * 100.0
    for status, shares in recipe.ends.items():
        left -= shares[quarter]
        if left < 0.0:
            return status
    return PASSED


def _work(recipe: Recipe, request: WorkloadRequest, gpus: int) -> dict[int, list[int]]:
    """Sizes and durations of as many jobs as asked for, or as many as fill the days to the load."""
    if request.load is not None and request.days is not None:
        return _work_to_fill(recipe, request.load * gpus * request.days * DAY_S, gpus, request.seed)
    jobs = request.jobs if request.jobs is not None else recipe.jobs
    if request.days is not None and request.jobs is None:
        jobs = max(1, round(request.days * recipe.jobs / recipe.days))
    return draw_work(recipe, jobs, gpus, request.seed)


def _work_to_fill(recipe: Recipe, target_s: float, gpus: int, seed: int) -> dict[int, list[int]]:
    """As many jobs as ask for so many GPU-seconds on average, drawn again until they do so nearly.

    The few longest decide how much it is, so a single draw may be far off.
    """
    jobs = round(target_s / mean_gpu_seconds(recipe, gpus))
    if not 1 <= jobs <= MOST_JOBS:
        raise InputError(f"--load and --days take {jobs} jobs; 1 to {MOST_JOBS} are possible")
    best: dict[int, list[int]] = {}
    for attempt in range(ATTEMPTS):
        work = draw_work(recipe, jobs, gpus, seed, attempt)
        best = min(best, work, key=lambda drawn: abs(gpu_seconds(drawn) - target_s))
        if abs(gpu_seconds(best) - target_s) <= NEAR * target_s:
            break
    return best


def _window_s(recipe: Recipe, request: WorkloadRequest, work: dict[int, list[int]], gpus: int) -> float:
    """How long jobs keep coming, in seconds."""
    if recipe.arrivals == "batch":
        return 0.0
    if request.days is not None:
        return request.days * DAY_S
    if request.load is not None:
        return max(1.0, gpu_seconds(work) / (request.load * gpus))
    return max(1.0, recipe.days * DAY_S * sum(map(len, work.values())) / recipe.jobs)


def _check(recipe: Recipe, request: WorkloadRequest) -> None:
    if request.jobs is not None and not 1 <= request.jobs <= MOST_JOBS:
        raise InputError(f"--jobs {request.jobs}: must be from 1 to {MOST_JOBS}")
    if request.days is not None and not 0.01 <= request.days <= 10_000:
        raise InputError(f"--days {request.days:g}: must be from 0.01 to 10000")
    if request.load is not None and not 0.001 <= request.load <= 1000:
        raise InputError(f"--load {request.load:g}: must be from 0.001 to 1000; 0.9 is 90 % of the cluster")
    if request.gpus is not None and request.gpus < 1:
        raise InputError(f"--gpus {request.gpus}: must be at least 1")
    if request.users is not None and not 1 <= request.users <= MOST_PEOPLE:
        raise InputError(f"--users {request.users}: must be from 1 to {MOST_PEOPLE}")
    if not 0 <= request.teams <= (request.users or recipe.users):
        raise InputError(
            f"--teams {request.teams}: must be from 1 to the number of users, {request.users or recipe.users}"
        )
    if request.jobs is not None and request.days is not None and request.load is not None:
        raise InputError("--jobs, --days and --load: give two of them, the third follows")
    if recipe.arrivals == "batch" and (request.days is not None or request.load is not None):
        raise InputError(f"{recipe.name}: all jobs come at once, so --days and --load have no meaning")


def write_workload(path: Path, workload: GeneratedWorkload) -> None:
    """Write csv, or csv.gz by the name; the file appears only when it is complete."""
    write_pieces(path, _lines(workload))


def _lines(workload: GeneratedWorkload) -> Iterator[str]:
    columns = len(GeneratedJob._fields) - (not workload.jobs[0].queue)  # the last is the queue
    yield ",".join(GeneratedJob._fields[:columns]) + "\n"
    for job in workload.jobs:
        yield ",".join(map(str, job[:columns])) + "\n"
