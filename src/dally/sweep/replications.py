"""Replications: the same run again with restarts a microsecond longer or shorter, to measure what chance moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dally.errors import InputError
from dally.metrics.comparison import REPLICATION
from dally.runs.key import keyed
from dally.sweep.run import Run, check_count

REPLICATIONS = 5  # unless told


def replicated(runs: Sequence[Run], count: int, option: str = "--replications") -> list[Run]:
    """Each run so many times; the first is the run itself. Only that one leaves a folder."""
    if count < 1:
        raise InputError(f"{option} {count}: must be 1 or more")
    check_count(len(runs) * count)
    digests: dict[str, str] = {}
    return [_replication(run, number, digests) for run in runs for number in range(count)]


def _replication(run: Run, number: int, digests: dict[str, str]) -> Run:
    labels = {**run.labels, REPLICATION: number}
    if number == 0:
        return replace(run, labels=labels)
    scenario, key = keyed(replace(run.scenario, jitter=run.scenario.jitter + number), digests)
    return Run(scenario, labels, key)
