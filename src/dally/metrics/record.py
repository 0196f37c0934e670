"""A record: what a run left, as metrics, reports and `explain` read it, wherever it came from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from dally.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from dally.cluster.topology import Topology

TABLES = ("jobs", "events", "decisions", "slots", "shares", "reclaims", "stalls")
OF_QUEUES = ("shares", "reclaims", "stalls")  # of runs with queues or several types of GPU alone


class Inputs(Protocol):
    """What a record tells of its run's inputs; a Scenario is one."""

    trace: str
    cluster: str
    policy: str
    settings: dict[str, str]
    seed: int
    until_s: float
    network: str
    network_settings: dict[str, str]
    congestion: str
    network_at: str
    gpu: str
    zone: str
    profiles: str

    def to_toml(self) -> str:
        """The text that repeats the run."""
        ...


class Record(ABC):
    """One run: its summary, and its jobs, events, decisions and slots as tables, each made when first asked for."""

    origin: str  # simulation, folder or live
    name: str  # what errors call it
    summary: dict[str, Any]  # as in summary.json
    tiers: list[str]  # closest first

    @property
    @abstractmethod
    def scenario(self) -> Inputs:
        """What was run."""

    @property
    @abstractmethod
    def topology(self) -> Topology:
        """The cluster of the run."""

    @property
    @abstractmethod
    def end_s(self) -> float:
        """When the clock stopped, in seconds of the trace."""

    @abstractmethod
    def table(self, name: str) -> pl.DataFrame:
        """One of TABLES, as its file holds it."""

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """jobs.csv: a row per job."""
        return self.table("jobs")

    @cached_property
    def all_events(self) -> pl.DataFrame:
        """events.parquet: a row per event, those of machines and links included."""
        return _named_kinds(self.table("events"))

    @cached_property
    def events(self) -> pl.DataFrame:
        """The events of jobs."""
        return self.all_events.filter(self.all_events["job_id"].is_not_null())

    @cached_property
    def decisions(self) -> pl.DataFrame:
        """decisions.parquet: the policy's reasons."""
        return _named_kinds(self.table("decisions"))

    @cached_property
    def slots(self) -> pl.DataFrame:
        """slots.parquet: samples of what could start."""
        return self.table("slots")

    @cached_property
    def shares(self) -> pl.DataFrame:
        """shares.parquet: what queues held, hour by hour, and what they were due; empty in runs without queues."""
        return self.table("shares")

    @cached_property
    def reclaims(self) -> pl.DataFrame:
        """reclaims.parquet: who was stopped for whose share; empty in runs without queues."""
        return self.table("reclaims")

    @cached_property
    def stalls(self) -> pl.DataFrame:
        """stalls.parquet: what the first job of a queue waits for; empty in runs without queues."""
        return self.table("stalls")

    def job(self, job_id: str) -> dict[str, Any]:
        """The job's row of jobs.csv, or an InputError that suggests the nearest name."""
        result = self.jobs.filter(self.jobs["job_id"] == job_id)
        if result.is_empty():
            near = get_close_matches(job_id, self.jobs["job_id"].to_list(), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(f"job {job_id!r}: not in {self.name}{hint}")
        return result.row(0, named=True)


def _named_kinds(table: pl.DataFrame) -> pl.DataFrame:
    """The table with kinds as text."""
    import polars as pl

    return table.with_columns(pl.col("kind").cast(pl.String))
