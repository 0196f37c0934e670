"""The folder a run leaves behind: written whole or not at all, and read back as a record."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dally.cluster.spec import read_topology
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.metrics.record import TABLES, Record
from dally.metrics.simulated import Simulated
from dally.metrics.tables import jobs_csv, read_jobs
from dally.runs.scenario import Scenario, read_scenario

if TYPE_CHECKING:
    import polars as pl

FILES = {name: "jobs.csv" if name == "jobs" else f"{name}.parquet" for name in TABLES}
NEEDED = ("jobs.csv", "events.parquet", "decisions.parquet", "summary.json", "scenario.toml")


class FolderRecord(Record):
    """What a run left in its folder, each file read when it is first asked for."""

    origin = "folder"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = str(folder / "jobs.csv")
        for name in NEEDED:
            if not (folder / name).exists():
                raise InputError(f"{folder}: holds no {name}; give the folder that `dally simulate --out` wrote")
        try:
            self.summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            self.tiers = list(self.summary["tier_starts"])
        except (ValueError, KeyError) as error:
            raise InputError(f"{folder / 'summary.json'}: is not a run's summary: {error}") from None

    @cached_property
    def scenario(self) -> Scenario:
        """scenario.toml."""
        return read_scenario(self.folder / "scenario.toml")

    @cached_property
    def topology(self) -> Topology:
        """The cluster of the run."""
        return read_topology(self.scenario.cluster)

    @cached_property
    def end_s(self) -> float:
        """When the clock stopped: with the last event, or at `until_s` if jobs were left then."""
        events = self.all_events
        last_s = float(events["time_s"][-1]) if len(events) else 0.0
        unfinished = self.summary["finished"] < self.summary["jobs"]
        stopped = unfinished and self.scenario.until_s < float("inf")
        return max(last_s, self.scenario.until_s) if stopped else last_s

    def table(self, name: str) -> pl.DataFrame:
        """One of TABLES, from its file; no slots where an older run left none."""
        import polars as pl

        path = self.folder / FILES[name]
        if name == "slots" and not path.exists():
            return pl.DataFrame(schema={"time_s": pl.Float64, "free_gpus": pl.Int32, "fragmentation": pl.Float64})
        try:
            return read_jobs(path) if name == "jobs" else pl.read_parquet(path)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None


def prepare_folder(folder: Path) -> None:
    """Make the folder, and find out now rather than after the run whether it can be written."""
    probe = _temporary(folder / "probe")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None


def write_run(folder: Path, record: Simulated) -> None:
    """Write all files under temporary names, then rename them; Ctrl-C waits for the renaming."""
    names = (*FILES.values(), "scenario.toml", "summary.json")
    temporary = {name: _temporary(folder / name) for name in names}
    try:
        _write(temporary["jobs.csv"], jobs_csv(record))
        for table in ("events", "decisions", "slots"):
            record.table(table).write_parquet(temporary[FILES[table]])
        _write(temporary["scenario.toml"], [record.scenario.to_toml()])
        _write(temporary["summary.json"], [json.dumps(record.summary, indent=2), "\n"])
        _rename(temporary, folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from None
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)


def _rename(temporary: dict[str, Path], folder: Path) -> None:
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for name, path in temporary.items():
            os.replace(path, folder / name)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _write(path: Path, pieces: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(pieces)
