"""Workloads against a scheduler that serves short and narrow jobs first, drawn by seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import cos, log, pi
from pathlib import Path
from typing import Final, NamedTuple

from dally.benchmark.cells import DAY_S, HOUR_S
from dally.cluster.spec import read_topology
from dally.job_spec import JobSpec
from dally.sweep.run import Prepared
from dally.traces.changes import scaled
from dally.traces.reading import History
from dally.traces.rows import TraceRow
from dally.traces.writing import text_of

Ask = tuple[int, float, str]  # GPUs, seconds, user
Draw = Callable[[random.Random, int], Ask]  # of a job, on a cluster of so many GPUs
Arrivals = Callable[[random.Random, list[Ask]], list[float]]  # when the jobs come, up to a constant factor

CHOICE: Final = (1, 2, 3)  # seeds on which constants of `dally` were chosen, in rows that are not kept aside
ASIDE: Final = (11, 12, 13)  # seeds on which none was
FLOODER: Final = "flood"
FLOODS: Final = 6  # times that the user who floods does so
DAYS: Final = 7.0  # of the row in which load goes up and down


class Workload(NamedTuple):
    """One row of the page: jobs drawn one by one, when they come, and the cluster."""

    about: str
    cluster: str
    jobs: int
    load: float
    draw: Draw
    arrivals: Arrivals
    aside: bool = False  # no constant was chosen on it, whatever the seed


def heavy_tailed_s(rng: random.Random) -> float:
    """Seconds of a job: half take up to 20 minutes, one in a hundred more than 20 hours; three days at most."""
    return min(3 * DAY_S, max(10.0, rng.lognormvariate(log(1200.0), 1.8)))


def narrow(rng: random.Random, most: int) -> int:
    """GPUs of a job that is not a large gang: 1 in two of three cases, else 2, 4 or 8."""
    return min(most, rng.choices((1, 2, 4, 8), (60, 15, 15, 10))[0])


def whole_cluster(share: float) -> Draw:
    """That share of the jobs wants all GPUs; how long a job takes does not depend on its size."""

    def draw(rng: random.Random, gpus: int) -> Ask:
        size = gpus if rng.random() < share else narrow(rng, gpus // 2)
        return size, heavy_tailed_s(rng), ""

    return draw


def with_users(rng: random.Random, gpus: int) -> Ask:
    """Twelve users, some with many jobs: one job in five is short, which its user's other jobs do not show."""
    user = f"u{min(int(rng.expovariate(0.3)), 11):02}"
    if rng.random() < 0.2:
        return narrow(rng, gpus), rng.uniform(60.0, 600.0), user
    size = rng.choice((16, 32)) if rng.random() < 0.05 else narrow(rng, gpus)
    return size, min(2 * DAY_S, rng.lognormvariate(log(HOUR_S), 1.3)), user


def flooded(rng: random.Random, gpus: int) -> Ask:
    """Three jobs in five are one user's, who always takes 20 to 40 minutes; the others are as with users."""
    if rng.random() < 0.6:
        return rng.choice((1, 2, 4)), rng.uniform(1200.0, 2400.0), FLOODER
    return with_users(rng, gpus)


def one_to_two_hours(rng: random.Random, gpus: int) -> Ask:
    """Nothing tells a job's end before an hour."""
    return narrow(rng, gpus), rng.uniform(HOUR_S, 2 * HOUR_S), ""


def equal(rng: random.Random, gpus: int) -> Ask:
    """Four GPUs for an hour."""
    return 4, HOUR_S, ""


def full_racks(rack: int) -> Draw:
    """Two in five jobs want all GPUs of a rack, or of two; the others a machine or less."""

    def draw(rng: random.Random, gpus: int) -> Ask:
        size = rng.choice((rack, rack, 2 * rack)) if rng.random() < 0.4 else narrow(rng, 8)
        return size, heavy_tailed_s(rng), ""

    return draw


def poisson(rng: random.Random, jobs: list[Ask]) -> list[float]:
    """Arrivals that do not depend on each other."""
    now_s = 0.0
    times_s = []
    for _ in jobs:
        now_s += rng.expovariate(1.0)
        times_s.append(now_s)
    return times_s


def in_floods(rng: random.Random, jobs: list[Ask]) -> list[float]:
    """The flooding user's jobs come in a few bursts, all others one by one."""
    times_s = poisson(rng, jobs)
    bursts_s = [times_s[-1] * (number + 0.5) / FLOODS for number in range(FLOODS)]
    return [
        rng.choice(bursts_s) if user == FLOODER else time_s
        for time_s, (_, _, user) in zip(times_s, jobs, strict=True)
    ]


def by_day(rng: random.Random, jobs: list[Ask]) -> list[float]:
    """Nights with almost no arrivals and days with twice the mean."""
    times_s = []
    for _ in jobs:
        while True:
            place = rng.random()
            if rng.random() < 0.5 * (1.0 - cos(2.0 * pi * DAYS * place)):
                break
        times_s.append(place)
    return times_s


ROWS: Final[dict[str, Workload]] = {
    "lab-2x2x4": Workload("15 % gangs of the whole cluster", "2x2x4", 600, 0.95, whole_cluster(0.15), poisson),
    "lab-1x2x8": Workload("15 % gangs of the whole cluster", "1x2x8", 600, 0.7, whole_cluster(0.15), poisson),
    "wide-2x8x8": Workload("3 % gangs of the whole cluster", "2x8x8", 1500, 0.8, whole_cluster(0.03), poisson),
    "flood-4x4x8": Workload("one user floods", "4x4x8", 3000, 0.9, flooded, in_floods),
    "diurnal-4x4x8": Workload("days and nights, users", "4x4x8", 4000, 0.9, with_users, by_day),
    "uniform-4x4x8": Workload("all jobs take 1 to 2 h, overload", "4x4x8", 2000, 1.1, one_to_two_hours, poisson),
    "equal-2x4x8": Workload("all jobs equal, overload", "2x4x8", 800, 1.1, equal, poisson),
    "racks-4x4x8": Workload("gangs of full racks", "4x4x8", 1500, 0.8, full_racks(32), poisson),
    "lab-1x1x8": Workload("one machine, 15 % gangs of it", "1x1x8", 500, 0.8, whole_cluster(0.15), poisson, True),
    "lab-1x4x8": Workload("15 % gangs of the whole cluster", "1x4x8", 800, 0.8, whole_cluster(0.15), poisson, True),
    "lab-3x2x4": Workload("8 % gangs of the whole cluster", "3x2x4", 800, 0.9, whole_cluster(0.08), poisson, True),
    "wide-4x8x8": Workload(
        "2 % gangs of the whole cluster", "4x8x8", 2500, 0.8, whole_cluster(0.02), poisson, True
    ),
    "flood-2x4x8": Workload("one user floods, overload", "2x4x8", 2500, 1.05, flooded, in_floods, True),
    "diurnal-8x4x8": Workload("days and nights, users", "8x4x8", 6000, 0.8, with_users, by_day, True),
    "uniform-2x4x8": Workload("all jobs take 1 to 2 h", "2x4x8", 1500, 0.95, one_to_two_hours, poisson, True),
    "equal-4x4x8": Workload("all jobs equal", "4x4x8", 1500, 0.95, equal, poisson, True),
    "racks-6x4x8": Workload("gangs of full racks", "6x4x8", 2000, 0.85, full_racks(32), poisson, True),
}


def history_of(name: str, seed: int) -> History:
    """The row's jobs, at its load."""
    workload = ROWS[name]
    gpus = int(read_topology(workload.cluster).total_gpus())
    rng = random.Random(f"{name}/{seed}")
    jobs = [workload.draw(rng, gpus) for _ in range(workload.jobs)]
    rows = [
        TraceRow(0, f"{number:05}", time_s, JobSpec(size, user=user), round(length_s, 3))
        for number, (time_s, (size, length_s, user)) in enumerate(
            zip(workload.arrivals(rng, jobs), jobs, strict=True)
        )
    ]
    rows.sort(key=lambda row: (row.submit_s, row.job_id))
    history = scaled(History(rows, "duration_s", "csv", {}, {}, None), workload.load, gpus)
    return history._replace(rows=[row._replace(submit_s=round(row.submit_s, 3)) for row in history.rows])


def prepared(name: str, seed: int, folder: Path) -> Prepared:
    """The row as a trace in that folder, and its cluster."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{seed}.csv"
    path.write_text("".join(text_of(history_of(name, seed), "csv")), encoding="utf-8")
    return Prepared(path, ROWS[name].cluster)
