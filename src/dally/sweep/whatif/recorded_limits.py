"""Limits that a record shows: the most GPUs an account or user held while its jobs waited beside free ones."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from dally.metrics.wait_fit import ROUNDED_S, WAITED_S, RecordedJob
from dally.toml import toml_text

KINDS = ("account", "user")  # accounts first: sites limit these
FEWEST_WAITS = 10  # beside free GPUs, of one account
# Share of these at which the account would have held more than it ever did with the largest of its waiting jobs:
# behind a gang that its limit keeps back, its small jobs wait, too.
EXPLAINED = 0.8
NO_RECLAIM = 'min_runtime = "3650d"\n'  # as in Slurm, where no limit takes GPUs from a running job
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class RecordedLimits(NamedTuple):
    """The most GPUs that each of these accounts, or users, held."""

    kind: str
    gpus: dict[str, int]

    def text(self) -> str:
        """Them in a few words."""
        return ", ".join(f"{owner} {gpus:,}" for owner, gpus in self.gpus.items())


class _Use:
    """GPUs in use over time."""

    def __init__(self, jobs: Sequence[RecordedJob]) -> None:
        changes: Counter[float] = Counter()
        for job in jobs:
            if job.end_s - ROUNDED_S > job.start_s:
                changes[job.start_s] += job.spec.gpus
                changes[job.end_s - ROUNDED_S] -= job.spec.gpus
        self._times = sorted(changes)
        self._gpus = list(accumulate(changes[time_s] for time_s in self._times))
        self.peak = max(self._gpus, default=0)

    def at(self, time_s: float) -> int:
        place = bisect_right(self._times, time_s) - 1
        return self._gpus[place] if place >= 0 else 0


class _LargestWaiting:
    """GPUs of the largest job that waits, over time."""

    def __init__(self, jobs: Sequence[RecordedJob]) -> None:
        changes = sorted(
            change
            for job in jobs
            for change in ((job.submit_s, job.spec.gpus, 1), (job.start_s, job.spec.gpus, -1))
            if job.start_s > job.submit_s
        )
        waiting: Counter[int] = Counter()
        self._times: list[float] = []
        self._gpus: list[int] = []
        for time_s, gpus, more in changes:
            waiting[gpus] += more
            if not waiting[gpus]:
                del waiting[gpus]
            self._times.append(time_s)
            self._gpus.append(max(waiting, default=0))

    def at(self, time_s: float) -> int:
        place = bisect_right(self._times, time_s) - 1
        return self._gpus[place] if place >= 0 else 0


def recorded_limits(jobs: Sequence[RecordedJob], cluster_gpus: int) -> RecordedLimits | None:
    """The limits by account, else by user, that explain waits beside free GPUs; None: nothing speaks for any.

    They are a guess: a replay with them has to fit the record better than one without.
    """
    in_all = _Use(jobs)
    beside_free = [
        job
        for job in jobs
        if job.start_s - job.submit_s > WAITED_S
        and cluster_gpus - in_all.at((job.submit_s + job.start_s) / 2) >= job.spec.gpus
    ]
    for kind in KINDS:
        gpus = _limited(jobs, beside_free, kind, cluster_gpus)
        if gpus:
            return RecordedLimits(kind, gpus)
    return None


def _limited(
    jobs: Sequence[RecordedJob], beside_free: Sequence[RecordedJob], kind: str, cluster_gpus: int
) -> dict[str, int]:
    by_owner: dict[str, list[RecordedJob]] = {}
    waits: dict[str, list[RecordedJob]] = {}
    for listed, result in ((jobs, by_owner), (beside_free, waits)):
        for job in listed:
            result.setdefault(getattr(job.spec, kind), []).append(job)
    limits: dict[str, int] = {}
    for owner in sorted(waits):
        use = _Use(by_owner[owner])
        if not owner or len(waits[owner]) < FEWEST_WAITS or use.peak >= cluster_gpus:
            continue
        largest = _LargestWaiting(by_owner[owner])
        middles = [(job.submit_s + job.start_s) / 2 for job in waits[owner]]
        beyond = sum(use.at(time_s) + largest.at(time_s) > use.peak for time_s in middles)
        if beyond >= EXPLAINED * len(waits[owner]):
            limits[owner] = use.peak
    return limits


def queues_text(limits: RecordedLimits) -> str:
    """A queues file in which these are limited, and all others are not."""
    tables = [
        f'[queues."{owner if PLAIN_NAME.fullmatch(owner) else f"{limits.kind}-{number}"}"]\n'
        f"{NO_RECLAIM}limit = {gpus}\nmatch = {{{limits.kind} = [{toml_text(owner)}]}}\n"
        for number, (owner, gpus) in enumerate(limits.gpus.items())
    ]
    return "\n".join([*tables, '[queues."all others"]\n' + NO_RECLAIM + "default = true\n"])
