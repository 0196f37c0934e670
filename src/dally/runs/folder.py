"""The folder a run leaves behind: written whole or not at all, and read back if SHA256SUMS agrees."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import signal
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dally.cluster.spec import read_topology
from dally.cluster.topology import Topology
from dally.errors import InputError, at
from dally.extras import need
from dally.input_file import decode, read_bytes, read_text, shown
from dally.metrics.jobs_csv import JOB_COLUMNS, jobs_csv
from dally.metrics.record import OF_QUEUES, TABLES, Record
from dally.metrics.simulated import Simulated
from dally.metrics.tables import COLUMNS, of_queues, read_jobs
from dally.parsed_text import parse_json
from dally.runs.scenario import Scenario, parse_scenario
from dally.whole_file import remove_stale, temporary_name

if TYPE_CHECKING:
    import polars as pl


SUMS = "SHA256SUMS"  # as `sha256sum -c` reads it; without it, as in older folders, files are taken as they are


def sums_text(files: Mapping[str, Path]) -> str:
    """The text of SHA256SUMS: a line for each file, under the name that it will have."""
    lines = []
    for name, path in files.items():
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


def checked_bytes(path: Path) -> bytes:
    """What the file holds, or an InputError if that is not what was written."""
    content = read_bytes(path)
    sums = path.with_name(SUMS)
    if os.path.lexists(sums) and _noted(sums, path.name) != hashlib.sha256(content).hexdigest():
        raise InputError(f"{path}: is damaged or was changed: {SUMS} beside it has another digest")
    return content


def checked_parquet(path: Path, columns: Iterable[str]) -> pl.DataFrame:
    """The table in the file, which has these columns."""
    import polars as pl

    content = checked_bytes(path)
    try:
        result = pl.read_parquet(io.BytesIO(content))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise at(path, None, None, f"cannot be read: {str(error).splitlines()[0]}") from None
    check_columns(path, result, columns)
    return result


def check_columns(path: Path, table: pl.DataFrame, columns: Iterable[str]) -> None:
    """InputError unless the table has these columns."""
    for name in columns:
        if name not in table.columns:
            raise at(path, None, name, f"this column is missing; it has {', '.join(table.columns)}")


def _noted(path: Path, name: str) -> str:
    """The digest that SHA256SUMS has for the file of that name."""
    result: dict[str, str] = {}
    for line, text in enumerate(read_text(path).splitlines(), 1):
        match = re.fullmatch(r"([0-9a-f]{64})  (.+)", text)
        if match is None:
            raise at(
                path, line, None, "must be a SHA-256 and a name; nothing is checked in a folder without this file"
            )
        result[match[2]] = match[1]
    if name not in result:
        raise at(path, None, name, "is missing; nothing is checked in a folder without this file")
    return result[name]


FILES = {name: "jobs.csv" if name == "jobs" else f"{name}.parquet" for name in TABLES}
WRITTEN = (*FILES.values(), "scenario.toml", "summary.json", SUMS)  # SHA256SUMS last: it vouches for the others
FIGURES = (
    "jobs", "finished", "makespan_s", "jct_mean_s", "jct_p50_s", "jct_p95_s", "jct_p99_s", "queue_mean_s",
    "queue_p99_s", "comm_s", "comm_floor_s", "utilization", "goodput", "preemptions", "renewals",
    "makespan_bound_s", "jct_bound_s",
)  # fmt: skip
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
        self.summary = _summary(folder / "summary.json")
        self.tiers = list(self.summary["tier_starts"])

    @cached_property
    def scenario(self) -> Scenario:
        """scenario.toml."""
        path = self.folder / "scenario.toml"
        return parse_scenario(path, decode(path, checked_bytes(path)))

    @cached_property
    def topology(self) -> Topology:
        """The cluster of the run."""
        result = read_topology(self.scenario.cluster)
        if result.tiers != self.tiers:
            problem = f"{', '.join(self.tiers)}: the cluster of scenario.toml has {', '.join(result.tiers)}"
            raise at(self.folder / "summary.json", None, "tier_starts", problem)
        return result

    @cached_property
    def end_s(self) -> float:
        """When the clock stopped: with the last event, or at `until_s` if jobs were left then."""
        events = self.all_events
        last_s = float(events["time_s"][-1]) if len(events) else 0.0
        unfinished = self.summary["finished"] < self.summary["jobs"]
        stopped = unfinished and self.scenario.until_s < float("inf")
        return max(last_s, self.scenario.until_s) if stopped else last_s

    def table(self, name: str) -> pl.DataFrame:
        """One of TABLES, from its file; no slots where an older run left none, no shares where nobody shares."""
        import polars as pl

        path = self.folder / FILES[name]
        if name == "slots" and not path.exists():
            return pl.DataFrame(schema={"time_s": pl.Float64, "free_gpus": pl.Int32, "fragmentation": pl.Float64})
        if name in OF_QUEUES and not path.exists():
            return of_queues(name, [])
        return self._jobs(path) if name == "jobs" else checked_parquet(path, COLUMNS[name])

    def _jobs(self, path: Path) -> pl.DataFrame:
        import polars as pl

        content = checked_bytes(path)
        decode(path, content)
        try:
            result = read_jobs(io.BytesIO(content))
        except (pl.exceptions.PolarsError, OSError) as error:
            raise at(path, None, None, f"cannot be read: {str(error).splitlines()[0]}") from None
        check_columns(path, result, JOB_COLUMNS)
        if len(result) != self.summary["jobs"]:
            problem = f"{len(result):,} rows, where summary.json says {self.summary['jobs']:,}"
            raise at(path, None, "job_id", f"{problem}: it was cut short, or is of another run")
        return result


def _summary(path: Path) -> dict[str, Any]:
    """summary.json, as far as pages and stories need it."""
    result = parse_json(path, decode(path, checked_bytes(path)))
    for name in FIGURES:
        value = result.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise at(path, None, name, f"{shown(value)}: must be a number; is this a run's summary?")
    starts = result.get("tier_starts")
    if not isinstance(starts, dict) or not all(type(count) is int for count in starts.values()):
        raise at(path, None, "tier_starts", f"{shown(starts)}: must be numbers by tier")
    if not isinstance(result.get("policy"), str):
        raise at(path, None, "policy", f"{shown(result.get('policy'))}: must be a name")
    return result


def prepare_folder(folder: Path, own: bool = True) -> None:
    """Make the folder, and find out now rather than after the run whether it can be written.

    `own`: it gets many files, so it must not be the one we are in, nor one above that.
    """
    need("polars", f"tables in {folder}")
    probe = temporary_name(folder / "probe")
    try:
        if own and _above_us(folder):
            problem = "is the folder you are in, or above it; name one for this alone, such as run1"
            raise InputError(f"{folder}: {problem}")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            probe.touch()
        finally:  # also on Ctrl-C
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{shown(str(folder))}: is not the name of a folder") from None
    remove_stale(folder)


def _above_us(folder: Path) -> bool:
    real = os.path.realpath(folder)
    return os.path.commonpath([real, os.path.realpath(".")]) == real


def check_inputs(folder: Path, scenario: Scenario) -> None:
    """InputError if what the run writes would take the place of what it reads."""
    for name in scenario.files():
        path = Path(os.path.realpath(name))
        if path.name in WRITTEN and str(path.parent) == os.path.realpath(folder):
            raise InputError(
                f"{name}: the run reads this file and would write another in its place; name another --out"
            )


def write_run(folder: Path, record: Simulated) -> None:
    """Write all files under temporary names, then rename them; Ctrl-C waits for the renaming."""
    alone = [] if record.sharing else [FILES[table] for table in OF_QUEUES]
    written = [name for name in WRITTEN if name not in alone]
    temporary = {name: temporary_name(folder / name) for name in written}
    try:
        _write(temporary["jobs.csv"], jobs_csv(record))
        for table, name in FILES.items():
            if table != "jobs" and name in written:
                record.table(table).write_parquet(temporary[name])
        _write(temporary["scenario.toml"], [record.scenario.to_toml()])
        _write(temporary["summary.json"], [json.dumps(record.summary, indent=2), "\n"])
        _write(temporary[SUMS], [sums_text({name: temporary[name] for name in written if name != SUMS})])
        _rename(temporary, folder)
        for name in alone:  # of an earlier run
            (folder / name).unlink(missing_ok=True)
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


def _write(path: Path, pieces: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(pieces)
