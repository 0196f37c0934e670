"""The course of a run: which jobs were there at a moment, and what last happened to each.

Everything that happens to a job is an act, numbered in the order of the log. Where an act says that the job got
GPUs, the act also says which; so one number per job tells all of it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from dally.metrics.record import Record

NONE: Final = -1


class Latest:
    """Rows of a table by the value of one column, each value's in the order of time."""

    def __init__(self, rows: pl.DataFrame, key: str, *values: str) -> None:
        """`rows` have `time_s`, which ascends; `values` are kept as lists in the order of `last`'s numbers."""
        ordered = rows.sort(key, maintain_order=True)
        self._times = array("d", ordered["time_s"].to_list())
        self.values: dict[str, list[Any]] = {name: ordered[name].to_list() for name in values}
        self._bounds: dict[Any, tuple[int, int]] = {}
        first = 0
        for name, count in ordered.group_by(key, maintain_order=True).len().iter_rows():
            self._bounds[name] = (first, first + count)
            first += count

    def __iter__(self) -> Iterator[Any]:
        """Everything of which anything was ever told."""
        return iter(self._bounds)

    def __len__(self) -> int:
        return len(self._bounds)

    def last(self, key: Any, at_s: float) -> int:
        """The number of the last row of that key up to a moment; NONE: there is none."""
        bounds = self._bounds.get(key)
        if bounds is None:
            return NONE
        result = bisect_right(self._times, at_s, *bounds) - 1
        return result if result >= bounds[0] else NONE


# What an act makes of a job.
WAITS: Final = 0
HELD: Final = 1
RUNS: Final = 2
GONE: Final = 3
MAKES: Final = {
    "submit": WAITS, "preempt": WAITS, "evict": WAITS, "release": WAITS, "start_failed": WAITS,
    "hold": HELD, "start": RUNS, "migrate": RUNS, "resize": RUNS, "adopt": RUNS, "finish": GONE, "cancel": GONE,
}  # fmt: skip
WAITS_ON: Final = ("release", "start_failed", "hold")  # it lost its GPUs earlier
MOST_MARKS: Final = 256
LEAST_APART: Final = 1024  # acts between marks
GONE_MACHINE: Final = -1  # one that a live cluster no longer has


class Course:
    """The acts of a run in columns, and marks: which jobs were there before every so many of them."""

    def __init__(self, run: Record) -> None:
        rows = _acts(run)
        self.times = array("d", rows["time_s"].to_list())
        self.jobs = array("l", rows["job"].to_list())
        self.makes = array("b", rows["makes"].to_list())
        self.tiers = array("b", rows["number"].to_list())  # of the GPUs it got; -1: it got none
        self.part_ends = array("l", rows["parts"].cum_sum().to_list())  # where its GPUs end in the two below
        parts = (
            rows.filter(pl.col("parts") > 0).select("machines", "machine_gpus").explode("machines", "machine_gpus")
        )
        numbers = {name: number for number, name in enumerate(run.topology.names[0])}
        self.part_machines = array("l", (numbers.get(name, GONE_MACHINE) for name in parts["machines"].to_list()))
        self.part_gpus = array("l", parts["machine_gpus"].to_list())
        self.before = array(
            "l", range(len(self.times))
        )  # the job's act before, or the act itself if it is the first
        self.since = array("d", self.times)  # it waits or runs
        self.preempted = array("l", bytes(self.times.itemsize * len(self.times)))  # so often up to the act
        self.moved = array("l", self.preempted)
        self._held = array("d", bytes(8 * len(self.times)))  # seconds with GPUs up to the act
        self.end_s = run.end_s
        self.last: dict[int, int] = {}  # act of each job in the whole run
        self._link(rows["kind"].to_list())
        self._apart = max(LEAST_APART, len(self.times) // MOST_MARKS)
        self._marks: list[dict[int, int]] = [{}]
        self._mark()
        failing = run.all_events.filter(pl.col("kind").is_in(["fail", "repair"]))
        self._machines = Latest(failing.with_columns(pl.col("machine").cast(pl.String)), "machine", "kind")
        self._numbers = numbers

    def _link(self, kinds: list[str]) -> None:
        """Hand on from act to act of a job what adds up."""
        last = self.last
        for act, (job, kind) in enumerate(zip(self.jobs, kinds, strict=True)):
            before = last.get(job)
            last[job] = act
            if before is None:
                continue
            self.before[act] = before
            self._held[act] = self.held_s(before, self.times[act])
            if kind in WAITS_ON:
                self.since[act] = self.since[before] if self.makes[before] != RUNS else self.times[act]
            self.preempted[act] = self.preempted[before] + (kind == "preempt")
            self.moved[act] = self.moved[before] + (kind == "migrate")

    def _mark(self) -> None:
        there: dict[int, int] = {}
        for first in range(self._apart, len(self.times) + 1, self._apart):
            self._walk(there, first - self._apart, first)
            self._marks.append(dict(there))

    def _walk(self, there: dict[int, int], first: int, end: int) -> None:
        for act in range(first, end):
            if self.makes[act] == GONE:
                there.pop(self.jobs[act], None)
            else:
                there[self.jobs[act]] = act

    def number_at(self, at_s: float) -> int:
        """How many acts there were up to a moment."""
        return bisect_right(self.times, at_s)

    def there(self, end: int) -> dict[int, int]:
        """The last act of every job that was submitted and had not ended after so many acts."""
        mark = end // self._apart
        result = dict(self._marks[mark])
        self._walk(result, mark * self._apart, end)
        return result

    def act_of(self, job: int, at_s: float) -> int | None:
        """What had last happened to a job by then; None: nothing, or there is no such job."""
        act = self.last.get(job)
        while act is not None and self.times[act] > at_s:
            act = self.before[act] if self.before[act] != act else None
        return act

    def parts(self, act: int) -> list[tuple[int, int]]:
        """(machine, GPUs) pairs that the act gave."""
        first, end = self.part_ends[act - 1] if act else 0, self.part_ends[act]
        return [
            (self.part_machines[part], self.part_gpus[part])
            for part in range(first, end)
            if self.part_machines[part] != GONE_MACHINE
        ]

    def acts_of(self, job: int) -> list[int]:
        """All acts of a job, the first first."""
        acts: list[int] = []
        act = self.last.get(job)
        while act is not None:
            acts.append(act)
            act = self.before[act] if self.before[act] != act else None
        return acts[::-1]

    def held_s(self, act: int, at_s: float) -> float:
        """Seconds for which the job whose last act that was had GPUs up to a moment."""
        return self._held[act] + (at_s - self.times[act] if self.makes[act] == RUNS else 0.0)

    def down(self, at_s: float) -> set[int]:
        """The machines that were down."""
        result = {name: self._machines.last(name, at_s) for name in self._machines}
        kinds = self._machines.values["kind"]
        return {self._numbers[name] for name, row in result.items() if row != NONE and kinds[row] == "fail"}

    def near(self, at_s: float) -> tuple[float | None, float | None]:
        """The last moment before, and the first after, at which anything happened to a job."""
        before, after = bisect_left(self.times, at_s), bisect_right(self.times, at_s)
        return (
            self.times[before - 1] if before else None,
            self.times[after] if after < len(self.times) else None,
        )


def _acts(run: Record) -> pl.DataFrame:
    """The events that change what a job does, with numbers for words."""
    index = run.jobs.select("job_id").with_row_index("job")
    tiers = {name: number for number, name in enumerate(run.tiers)}
    got = pl.col("makes") == RUNS
    placed = pl.col("machines").is_not_null()
    return (
        run.events.filter(pl.col("kind").is_in(list(MAKES)))
        .with_columns(pl.col("kind").replace_strict(MAKES, return_dtype=pl.Int8).alias("makes"))
        .with_columns(makes=pl.when(got & ~placed).then(WAITS).otherwise("makes"))  # adopted while it waits
        .with_columns(
            number=pl.when(got)
            .then(pl.col("tier").cast(pl.String).replace_strict(tiers, default=-1, return_dtype=pl.Int8))
            .otherwise(-1),
            parts=pl.when(got).then(pl.col("machines").list.len()).otherwise(0).cast(pl.Int64),
            machines=pl.col("machines").list.eval(pl.element().cast(pl.String)),
        )
        .join(index, on="job_id", how="inner", maintain_order="left")
    )
