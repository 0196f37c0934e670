"""Where a call leaves its runs and files: in the folder that the caller names, else as long as the result is."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from functools import cached_property
from pathlib import Path

from dally.errors import InputError
from dally.metrics.summary import Row
from dally.runs.folder import prepare_folder
from dally.sweep.batch import RowStore, bar_of_runs, carry_out
from dally.sweep.run import Run
from dally.sweep.workers import Workers
from dally.whole_file import write_whole


class ResultFolder:
    """A folder, made when first needed. One that nobody named goes with the last result that needs it."""

    def __init__(self, out: str | Path | None) -> None:
        self.out = Path(out) if out is not None else None

    @cached_property
    def folder(self) -> Path:
        """The folder, there and writable."""
        if self.out is not None:
            prepare_folder(self.out)
            return self.out
        folder = Path(tempfile.mkdtemp(prefix="dally-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    def file(self, name: str, text: str) -> str:
        """The path of a new file in it."""
        path = self.folder / name
        write_whole(path, text.encode())
        return str(path)


def rows_of_runs(runs: list[Run], folder: Path, workers: Workers, progress: bool) -> list[Row]:
    """A row per run; finished ones are kept in the folder. InputError if one failed, once all others are done."""
    with RowStore(folder) as store, bar_of_runs(progress) as show:
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
        from dally.sweep.workers.local import ThisProcess

        return ThisProcess()
    from dally.sweep.workers.local import LocalWorkers

    return LocalWorkers(count)
