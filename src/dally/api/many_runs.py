"""Carrying out the runs of a call."""

from __future__ import annotations

from pathlib import Path

from dally.errors import InputError
from dally.metrics.row import Row
from dally.sweep.batch import carry_out
from dally.sweep.progress import bar_of_runs
from dally.sweep.run import Run
from dally.sweep.store import Store
from dally.sweep.workers import Workers


def rows_of_runs(runs: list[Run], folder: Path, workers: Workers, progress: bool) -> list[Row]:
    """A row per run; finished ones are kept in the folder. InputError if one failed, once all others are done."""
    with Store(folder) as store, bar_of_runs(progress) as show:
        outcome = carry_out(runs, workers, store, show)
    if outcome.bad_input:
        raise InputError(outcome.bad_input)
    if outcome.failures:
        count = len(outcome.failures)
        raise InputError(f"{count} run{'s' * (count > 1)} failed: {'; '.join(outcome.failures)}")
    return outcome.rows


def workers_for(count: int, everywhere: bool) -> Workers:
    """This process for one worker, or where a policy is known to it alone; else that many, 0: one per core."""
    if count < 0:
        raise InputError(f"workers: {count}: must be 0 (one per core), 1 (this process) or more")
    if count == 1 or not everywhere:
        from dally.sweep.workers.this_process import ThisProcess

        return ThisProcess()
    from dally.sweep.workers.local import LocalWorkers

    return LocalWorkers(count)
