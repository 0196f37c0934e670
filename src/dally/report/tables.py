"""The tables of a run's folder, each read when it is first asked for."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cached_property
from json import loads
from pathlib import Path
from typing import Any

import polars as pl

from dally.cluster.spec import read_topology
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.report.time_text import stamp
from dally.scenario import Scenario, read_scenario

RUN_FILES = ("jobs.csv", "events.parquet", "decisions.parquet", "summary.json", "scenario.toml")
SECONDS = ("submit_s", "start_s", "finish_s", "jct_s", "queue_s", "run_s", "compute_s", "comm_s", "slowdown")


class RunTables:
    """What a run left in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in RUN_FILES:
            if not (folder / name).exists():
                raise InputError(f"{folder}: holds no {name}; give the folder that `dally simulate --out` wrote")
        try:
            self.summary: dict[str, Any] = loads((folder / "summary.json").read_text(encoding="utf-8"))
            self.tiers: list[str] = list(self.summary["tier_starts"])
        except (ValueError, KeyError) as error:
            raise InputError(f"{folder / 'summary.json'}: is not a run's summary: {error}") from None

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """jobs.csv."""
        names = {"job_id": pl.String, "model": pl.String, "tier": pl.String}
        try:
            return pl.read_csv(
                self.folder / "jobs.csv", schema_overrides={**names, **dict.fromkeys(SECONDS, pl.Float64)}
            )
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{self.folder / 'jobs.csv'}: cannot be read: {_first_line(error)}") from None

    @cached_property
    def all_events(self) -> pl.DataFrame:
        """events.parquet, those of machines and links included."""
        return self._parquet("events").with_columns(pl.col("kind").cast(pl.String))

    @cached_property
    def events(self) -> pl.DataFrame:
        """The events of jobs."""
        return self.all_events.filter(pl.col("job_id").is_not_null())

    @cached_property
    def decisions(self) -> pl.DataFrame:
        """The policy's reasons."""
        return self._parquet("decisions").with_columns(pl.col("kind").cast(pl.String))

    @cached_property
    def slots(self) -> pl.DataFrame:
        """Samples of what could start; no rows where an older run left none."""
        if not (self.folder / "slots.parquet").exists():
            return pl.DataFrame(schema={"time_s": pl.Float64, "free_gpus": pl.Int32, "fragmentation": pl.Float64})
        return self._parquet("slots")

    @cached_property
    def scenario(self) -> Scenario:
        """scenario.toml."""
        return read_scenario(self.folder / "scenario.toml")

    @cached_property
    def topology(self) -> Topology:
        """The cluster of the run."""
        return read_topology(self.scenario.cluster)

    def stamp(self, seconds: float) -> str:
        """An instant of the run, with the trace's own date if it has dates."""
        return stamp(seconds, self.summary.get("epoch_s"), self.scenario.zone)

    def job(self, job_id: str) -> dict[str, Any]:
        """The job's row of jobs.csv, or an InputError that suggests the nearest name."""
        found = self.jobs.filter(pl.col("job_id") == job_id)
        if found.is_empty():
            near = get_close_matches(job_id, self.jobs["job_id"].to_list(), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(f"job {job_id!r}: not in {self.folder / 'jobs.csv'}{hint}")
        return found.row(0, named=True)

    def _parquet(self, name: str) -> pl.DataFrame:
        path = self.folder / f"{name}.parquet"
        try:
            return pl.read_parquet(path)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"{path}: cannot be read: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
