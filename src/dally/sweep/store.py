"""What many runs leave in a folder: a journal of finished rows as they come, and one table at the end."""

from __future__ import annotations

import fcntl
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dally.errors import InputError
from dally.input_file import read_bytes
from dally.metrics.summary import Row
from dally.runs.folder import prepare_folder
from dally.runs.run_files import SUMS, sums_text
from dally.sweep.run import Run
from dally.whole_file import write_whole

if TYPE_CHECKING:
    import polars as pl

JOURNAL = "runs.jsonl"
RESULTS = "results.parquet"
LOCK = ".lock"
MEASURED = ("cpu_s",)  # differ when a run is repeated: they stay in the journal


class Store:
    """Finished rows by key. One process at a time may hold a folder; a killed one lets go of it."""

    def __init__(self, folder: Path) -> None:
        self._new = not os.path.lexists(folder)
        prepare_folder(folder)
        self.folder = folder
        self._lock = self._locked()
        self.rows: dict[str, Row] = {}
        self._owners: dict[str, str] = {}  # whose outputs lie in a run's folder: the key of the last one there
        try:
            self._read()
        except InputError:
            self._lock.close()
            raise
        self._journal: IO[bytes] = (folder / JOURNAL).open("ab")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, problem: object, *_: object) -> None:
        self._journal.close()
        if problem is InputError and self._new and not self.rows:
            self._leave_nothing()
        self._lock.close()

    def has(self, run: Run) -> bool:
        """Whether the run is finished, its own folder included."""
        if run.folder is None or run.key not in self.rows:
            return run.key in self.rows
        return self._owners.get(run.folder.name) == run.key and (run.folder / "summary.json").exists()

    def add(self, run: Run, row: Row) -> None:
        """Keep the row, on the disk before this returns."""
        entry = {"key": run.key, "labels": run.labels, "folder": run.folder.name if run.folder else "", "row": row}
        self._take(entry)
        try:
            self._journal.write(json.dumps(entry).encode() + b"\n")
            self._journal.flush()
            os.fsync(self._journal.fileno())
        except OSError as error:
            raise InputError(f"{self.folder / JOURNAL}: cannot be written: {error.strerror}") from None

    def write_results(self, rows: Iterable[Row]) -> None:
        """Write results.parquet: these rows in their order, without what was measured."""
        remaining = [{name: value for name, value in row.items() if name not in MEASURED} for row in rows]
        buffer = io.BytesIO()
        frame_of(remaining).write_parquet(buffer)
        path = self.folder / RESULTS
        write_whole(path, buffer.getvalue())
        write_whole(self.folder / SUMS, sums_text({RESULTS: path}).encode())

    def _leave_nothing(self) -> None:
        """Take the folder away again if nothing but our own empty files is in it."""
        if {path.name for path in self.folder.iterdir()} <= {JOURNAL, LOCK}:
            (self.folder / JOURNAL).unlink()
            (self.folder / LOCK).unlink()
            self.folder.rmdir()

    def _locked(self) -> IO[bytes]:
        file = (self.folder / LOCK).open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InputError(
                f"{self.folder}: another dally is at work in it; wait, or name another --out"
            ) from None
        return file

    def _read(self) -> None:
        """Take in the journal; a last line that was cut short is taken off it."""
        path = self.folder / JOURNAL
        text = read_bytes(path) if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, RecursionError):
                raise InputError(f"{path}:{number}: is not a row of a sweep; name another --out") from None
        if whole != text:
            os.truncate(path, len(whole))

    def _take(self, entry: dict[str, Any]) -> None:
        self.rows[str(entry["key"])] = dict(entry["row"])
        self._owners[str(entry["folder"])] = str(entry["key"])


def frame_of(rows: list[Row]) -> pl.DataFrame:
    """The rows as a table: columns as they first appear, empty where a row lacks one."""
    import polars as pl

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pl.DataFrame([pl.Series(name, *_typed(values)) for name, values in columns.items()])


def _typed(values: list[Any]) -> tuple[list[Any], Any]:
    """The values and their type: numbers as numbers, anything mixed as text."""
    import polars as pl

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return values, pl.Boolean
    if kinds == {int}:
        return values, pl.Int64
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values], pl.Float64
    return [None if value is None else str(value) for value in values], pl.String
