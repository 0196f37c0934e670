"""How things stood at one instant of a run: who held GPUs, what was free, who waited in which order, and why."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import polars as pl

from dally.metrics.record import Record
from dally.report.by_hand import ACT
from dally.report.stall_words import stall_words
from dally.report.time_text import run_stamp

BEGINS_TO_WAIT = ("submit", "preempt", "evict")
WAITS_ON = (*BEGINS_TO_WAIT, "release", "start_failed")  # as long as nothing else happens
ASIDE = ("renew", ACT)  # what changes nothing about that
PLACED = ("start", "migrate", "adopt")
ENDS = (*PLACED, "finish", "preempt", "evict", "cancel", "start_failed")  # of a placement
NAMED = 3  # jobs that a sentence names


class Occupancy:
    """Who held which GPUs before each row of the event log."""

    def __init__(self, run: Record) -> None:
        self.run = run
        self.events = run.all_events.with_row_index("row")
        acts = self.events.filter(pl.col("kind").is_in(ENDS)).with_columns(
            end=pl.col("row").shift(-1).over("job_id"), gpus=pl.col("machine_gpus").list.sum()
        )
        self.placements = acts.filter(pl.col("kind").is_in(PLACED), pl.col("machines").is_not_null())
        self.machines = self.events.filter(pl.col("machine").is_not_null())

    def row_at(self, at_s: float) -> int:
        """The first row after an instant."""
        return int(self.events["time_s"].search_sorted(at_s, side="right"))

    def held(self, row: int) -> pl.DataFrame:
        """The placements that stood before a row."""
        return self.placements.filter(pl.col("row") < row, pl.col("end").fill_null(row) >= row)

    def free(self, row: int) -> list[int]:
        """Free GPUs of every machine before a row."""
        topology = self.run.topology
        free = {name: int(gpus) for name, gpus in zip(topology.names[0], topology.gpus[0], strict=True)}
        down = self.machines.filter(pl.col("row") < row).group_by("machine").agg(pl.col("kind").last())
        for name in down.filter(pl.col("kind") == "fail")["machine"]:
            free[name] = 0
        for machines, gpus in self.held(row).select("machines", "machine_gpus").iter_rows():
            for name, count in zip(machines, gpus, strict=True):
                free[name] -= count
        return list(free.values())

    def closest_with_room(self, row: int, gpus: int) -> int:
        """The closest tier of which a domain had that many GPUs free before a row; -1: none."""
        topology = self.run.topology
        free = self.free(row)
        for tier in range(len(topology.tiers)):
            if max(free) >= gpus:
                return tier
            if tier + 1 < len(topology.tiers):
                above = [0] * len(topology.names[tier + 1])
                for domain, count in enumerate(free):
                    above[int(topology.parents[tier][domain])] += count
                free = above
        return -1


class Instant:
    """One instant: everything that happened at it is over."""

    def __init__(self, occupancy: Occupancy, at_s: float) -> None:
        self.run = occupancy.run
        self.at_s = at_s
        self.row = occupancy.row_at(at_s)
        self._occupancy = occupancy
        self._told = self.run.decisions.filter(pl.col("time_s") <= at_s)

    @cached_property
    def waiting(self) -> list[dict[str, Any]]:
        """The waiting jobs with their ranks, first in order first."""
        last = (
            self.run.events.filter(pl.col("time_s") <= self.at_s, ~pl.col("kind").is_in(ASIDE))
            .group_by("job_id", maintain_order=True)
            .agg(
                pl.col("kind").last(),
                since_s=pl.col("time_s").filter(pl.col("kind").is_in(BEGINS_TO_WAIT)).last(),
            )
            .filter(pl.col("kind").is_in(WAITS_ON))
        )
        order = self.run.jobs.select("job_id", "gpus").with_row_index("index")
        asked = (
            self._told.filter(pl.col("rank").is_not_null())
            .group_by("job_id")
            .agg(pl.col("rank", "tie", "group", "demand_kind").last())
        )
        rows = last.join(order, on="job_id").join(asked, on="job_id", how="left")
        return rows.sort("rank", "tie", "index", nulls_last=True).to_dicts()

    @cached_property
    def free_gpus(self) -> int:
        """GPUs that nobody held."""
        return sum(self._occupancy.free(self.row))

    @cached_property
    def holders(self) -> list[tuple[str, int]]:
        """Who held GPUs and how many, most first."""
        held = self._occupancy.held(self.row).sort("gpus", descending=True, maintain_order=True)
        return list(held.select("job_id", "gpus").iter_rows())

    def last(self, *kinds: str, job_id: str | None = None) -> dict[str, Any] | None:
        """The latest record of these kinds, of a job or of the whole."""
        rows = self._told.filter(pl.col("kind").is_in(kinds))
        if job_id is not None:
            rows = rows.filter(pl.col("job_id") == job_id)
        return rows.tail(1).row(0, named=True) if not rows.is_empty() else None

    @cached_property
    def first_in_line(self) -> dict[str, Any] | None:
        """The record of the job that holds up the others, as long as that waits."""
        found = self.last("head", "reserve")
        names = {row["job_id"] for row in self.waiting}
        return found if found is not None and found["job_id"] in names else None

    @cached_property
    def round_s(self) -> float | None:
        """When GPUs were to be shared out next."""
        found = self.last("round")
        return found["until_s"] if found is not None and found["until_s"] > self.at_s else None

    # In words.

    def why(self, place: int, declined: str = "") -> str:
        """Why the job at that place of the order, 0 is first, did not run; `declined`: what it was offered."""
        job = self.waiting[place]
        ahead = [row["job_id"] for row in self.waiting[:place]]
        begin = f"{len(ahead)} ahead of it: {_names(ahead)}" if ahead else "first in line"
        return f"{begin}; {self._cause(job, declined)}"

    def _stalled(self, job: dict[str, Any]) -> str:
        """What its queue has to do with it; empty: nothing."""
        if self.run.stalls.is_empty():
            return ""
        queue = self.run.job(job["job_id"])["queue"]
        rows = self.run.stalls.filter(pl.col("queue") == queue, pl.col("time_s") <= self.at_s)
        last = rows.tail(1).row(0, named=True) if not rows.is_empty() else {"cause": ""}
        return stall_words(last)

    def _cause(self, job: dict[str, Any], declined: str) -> str:
        stalled = self._stalled(job)
        return f"{stalled}; {self._place_cause(job, declined)}" if stalled else self._place_cause(job, declined)

    def _place_cause(self, job: dict[str, Any], declined: str) -> str:
        admitted = self.last("defer", "admit", job_id=job["job_id"])
        if admitted is not None and admitted["kind"] == "defer":
            return "not admitted yet: the policy's virtual machine still works on it"
        first = self.first_in_line
        other = first is not None and first["job_id"] != job["job_id"]
        if first is not None and other and first["kind"] == "head":
            return f"{first['job_id']} does not fit, and nobody behind it is offered GPUs"
        if self.free_gpus < job["gpus"]:
            return self._too_few(job, first)
        if declined:
            return declined
        if first is not None and other and first["until_s"] < float("inf"):
            kept = f"GPUs are kept for {first['job_id']} from {run_stamp(self.run, first['until_s'])} on"
            return f"{_free(self.free_gpus)}, but {kept}, which it would delay"
        if self.round_s is not None:
            return f"{_free(self.free_gpus)}, shared out next at {run_stamp(self.run, self.round_s)}"
        return f"{_free(self.free_gpus)}, but not where it takes them"

    def _too_few(self, job: dict[str, Any], first: dict[str, Any] | None) -> str:
        holders = [f"{name} ({gpus})" for name, gpus in self.holders]
        text = f"{_free(self.free_gpus)}, it asks for {job['gpus']}"
        text += f"; held by {_names(holders)}" if holders else "; machines are down"
        if first is not None and first["kind"] == "reserve" and first["until_s"] < float("inf"):
            whose = "it" if first["job_id"] == job["job_id"] else str(first["job_id"])
            text += f"; kept for {whose} from {run_stamp(self.run, first['until_s'])} on"
        if self.round_s is not None:
            text += f"; shared out next at {run_stamp(self.run, self.round_s)}"
        return text


def _free(gpus: int) -> str:
    return f"{gpus or 'no'} {'GPU' if gpus == 1 else 'GPUs'} free"


def _names(names: list[str]) -> str:
    """The first few, and how many more."""
    shown = ", ".join(names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown
