"""Who had a job run again: Dally, or an operator's requeue or a node's failure in the moment in which it ended.

Slurm itself runs such a job again, whoever schedules it. Dally requeues no job that it has not sent a signal to, so
slurmctld's log tells the two apart.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

JOB: Final = r"JobId=(\w+)"
LINE: Final = re.compile(
    rf"Allocate {JOB}|REQUEST_KILL_JOB {JOB}|requeue job {JOB}\S* due to failure of node|Requeuing {JOB}"
)
BEGINS, SIGNAL, FAILURE, REQUEUE = range(4)


def requeued_by_others(log: str) -> dict[str, set[int]]:
    """By job: runs, from 1, that it had since others requeued it. `log`: slurmctld's, whole."""
    runs: dict[str, int] = defaultdict(int)
    result: dict[str, set[int]] = defaultdict(set)
    signalled: set[str] = set()
    failed: set[str] = set()
    for found in LINE.finditer(log):
        kind, job = next((kind, name) for kind, name in enumerate(found.groups()) if name)
        if kind == REQUEUE:
            runs[job] += 1
            if job in failed or job not in signalled:
                result[job].add(runs[job])
        elif kind != BEGINS:
            (signalled if kind == SIGNAL else failed).add(job)
        if kind in (BEGINS, REQUEUE):
            signalled.discard(job)
            failed.discard(job)
    return dict(result)


def run_again(lines: Iterable[str], by_others: dict[str, set[int]]) -> tuple[list[str], list[str]]:
    """Jobs that began after their end, by Dally and by others; a line: its moment, job, `run`, number, …, word."""
    ended: dict[str, int] = {}  # in which run
    ours: dict[str, None] = {}
    others: dict[str, None] = {}
    for _, job, _, number, *_, word in map(str.split, lines):
        if word == "end":
            ended.setdefault(job, int(number))
        elif word == "begin" and job in ended:
            (others if ended[job] + 1 in by_others.get(job, ()) else ours)[job] = None
    return list(ours), list(others)
