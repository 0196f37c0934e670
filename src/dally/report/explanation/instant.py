"""One instant of a run: which jobs held GPUs, what was free, what the policy had decided, which waited, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import polars as pl

from dally.job_spec import JobSpec
from dally.metrics.jobs_csv import USER
from dally.metrics.record import Record
from dally.model import INFINITY, NEVER
from dally.report.explanation.course import NONE, RUNS, WAITS, Course, Latest
from dally.report.explanation.waiting import NAMED, Moment, WaitRecords, Why

DEMAND: Final = ["gpus", "group", "demand_kind"]
OFFERED: Final = (*DEMAND, "tier", "timers_s")


class Rank(NamedTuple):
    """How a job waits: its rank, what breaks equal ones, and what tells its demand from others of its size."""

    rank: float
    tie: float
    group: int  # GPUs that must share a machine
    demand_kind: int


UNRANKED: Final = Rank(INFINITY, INFINITY, 1, 0)


class DecisionIndex:
    """The decisions of a run, by what they are about."""

    def __init__(self, run: Record) -> None:
        decisions = run.decisions
        self._tiers = run.tiers
        self._ranked = Latest(decisions.filter(pl.col("rank").is_not_null()), "job_id", *Rank._fields)
        self._ranks = list(map(Rank, *(self._ranked.values[name] for name in Rank._fields)))
        offers = decisions.filter(pl.col("kind") == "offer").with_columns(
            demand=pl.concat_str([pl.col(name) for name in DEMAND], separator=" ")
        )
        self._to_all = Latest(offers.filter(pl.col("job_id").is_null()), "demand", "kind", *OFFERED)
        self._to_one = Latest(offers.filter(pl.col("job_id").is_not_null()), "job_id", "kind", *OFFERED)
        self._firsts = _of_all(decisions, "head", "reserve")
        self._rounds = _of_all(decisions, "round")
        self._admitted = Latest(decisions.filter(pl.col("kind").is_in(["defer", "admit"])), "job_id", "kind")
        stalls = run.stalls.with_columns(kind=pl.lit("stall"))
        self._stalls = Latest(stalls, "queue", "kind", *run.stalls.columns)

    def rank(self, job_id: str, at_s: float) -> Rank:
        """What the order and offers to the job go by; jobs without a rank come last."""
        row = self._ranked.last(job_id, at_s)
        return self._ranks[row] if row != NONE else UNRANKED

    def records(self, waiting: Iterable[str], at_s: float) -> WaitRecords:
        """What a daemon would know at that moment of these jobs."""
        names = set(waiting)
        records = WaitRecords(self._tiers)
        records.learn(_rows(self._to_all, self._to_all, at_s, named=False))
        for latest in (self._to_one, self._admitted):
            if len(latest):
                records.learn(_rows(latest, names, at_s))
        records.learn(_rows(self._stalls, self._stalls, at_s))
        records.learn(row for row in _rows(self._firsts, [0], at_s) if row["job_id"] in names)
        records.learn(_rows(self._rounds, [0], at_s))
        return records

    def timers_s(self, sizes: set[int], at_s: float) -> dict[int, tuple[float, ...]]:
        """Delays of gangs of each size before each tier above the machine, as last recorded for all of them."""
        rows = [row["told"] for row in _rows(self._to_all, self._to_all, at_s, named=False)]
        timers = {row["gpus"]: tuple(row["timers_s"]) for row in rows if row["timers_s"]}
        return {gpus: timers[gpus] for gpus in sorted(sizes & set(timers))}


def _of_all(decisions: pl.DataFrame, *kinds: str) -> Latest:
    """Decisions of which only the latest counts, whatever its job."""
    rows = decisions.filter(pl.col("kind").is_in(kinds)).with_columns(line=0)
    return Latest(rows, "line", "kind", "job_id", "until_s")


def _rows(latest: Latest, keys: Iterable[Any], at_s: float, named: bool = True) -> Iterable[dict[str, Any]]:
    """The last row of each key, as WaitRecords learn them."""
    for key in keys:
        row = latest.last(key, at_s)
        if row != NONE:
            record = {name: column[row] for name, column in latest.values.items()}
            yield {"kind": record["kind"], "job_id": record.get("job_id", key) if named else None, "told": record}


@dataclass(frozen=True)
class JobFacts:
    """What jobs.csv says of a job that was so from the start."""

    job_id: str
    submit_s: float
    spec: JobSpec


class Waiting(NamedTuple):
    """A job that waits; a Waiter."""

    job_id: str
    gpus: int
    group: int
    kind: int
    lost_s: float
    act: int
    queue: str
    ranked: bool
    delay_until_s: float = NEVER  # overrides of operators are not part of the record


class Timeline:
    """What any instant of a run is made from."""

    def __init__(self, run: Record) -> None:
        self.course = Course(run)
        self.decisions = DecisionIndex(run)
        self.jobs = _jobs(run)
        self.topology = run.topology
        self.gpus = [int(gpus) for gpus in run.topology.gpus[0]]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each job by its id."""
        return {facts.job_id: number for number, facts in enumerate(self.jobs)}

    def at(self, at_s: float) -> Instant:
        """Once everything of that instant was over."""
        return Instant(self, at_s, self.course.number_at(at_s))

    def before(self, act: int) -> Instant:
        """Right before something happened to a job."""
        return Instant(self, self.course.times[act], act)


class Instant:
    """The run after its first so many acts."""

    def __init__(self, timeline: Timeline, at_s: float, acts: int) -> None:
        self.at_s = at_s
        self.there = timeline.course.there(acts)  # the last act of every job that had not ended
        self._timeline = timeline

    @cached_property
    def waiting(self) -> list[Waiting]:
        """The waiting jobs, first in order first."""
        course, decisions, ranked = self._timeline.course, self._timeline.decisions, []
        for job, act in self.there.items():
            if course.makes[act] == WAITS:
                facts = self._timeline.jobs[job]
                rank = decisions.rank(facts.job_id, self.at_s)
                one = Waiting(
                    facts.job_id, facts.spec.gpus, rank.group, rank.demand_kind, course.since[act], act,
                    facts.spec.queue, rank is not UNRANKED,
                )  # fmt: skip
                ranked.append((rank.rank, rank.tie, job, one))
        ranked.sort()
        return [one for *_, one in ranked]

    @cached_property
    def down(self) -> set[int]:
        """The machines that were down."""
        return self._timeline.course.down(self.at_s)

    @cached_property
    def free(self) -> list[int]:
        """Free GPUs of every machine."""
        free = list(self._timeline.gpus)
        for machine in self.down:
            free[machine] = 0
        for act in self.there.values():
            for machine, gpus in self._timeline.course.parts(act):
                free[machine] -= gpus
        return free

    @cached_property
    def free_by_tier(self) -> list[list[int]]:
        """Free GPUs of every domain, by tier."""
        topology, levels = self._timeline.topology, [self.free]
        for tier in range(1, len(topology.tiers)):
            above = [0] * len(topology.names[tier])
            for domain, gpus in enumerate(levels[-1]):
                above[int(topology.parents[tier - 1][domain])] += gpus
            levels.append(above)
        return levels

    @cached_property
    def holders(self) -> list[tuple[str, int]]:
        """The jobs that held GPUs and how many, most first."""
        course, jobs = self._timeline.course, self._timeline.jobs
        acts = sorted(act for act in self.there.values() if course.makes[act] == RUNS)
        held = [(jobs[course.jobs[act]].job_id, sum(gpus for _, gpus in course.parts(act))) for act in acts]
        return sorted(held, key=lambda row: -row[1])

    @cached_property
    def records(self) -> WaitRecords:
        """The decisions by then."""
        return self._timeline.decisions.records((job.job_id for job in self.waiting), self.at_s)

    def why(self, place: int) -> Why:
        """Why the job at that place of the order, 1 is first, waited, other jobs by their names."""
        job = self.waiting[place - 1]
        jobs_before = [one.job_id for one in self.waiting[: min(place - 1, NAMED)]]
        moment = Moment(self.at_s, sum(self.free), place, jobs_before, self.holders, job.queue)
        return self.records.why(job, moment)


def _jobs(run: Record) -> list[JobFacts]:
    """In the order of jobs.csv."""
    columns = {"model": "model", "user": USER, "account": "account", "queue": "queue"}
    texts = {field: run.jobs[name].fill_null("").to_list() for field, name in columns.items() if name in run.jobs}
    rows = zip(run.jobs["job_id"], run.jobs["submit_s"], run.jobs["gpus"], strict=True)
    return [
        JobFacts(job_id, submit_s, JobSpec(gpus, **{field: known[row] for field, known in texts.items()}))
        for row, (job_id, submit_s, gpus) in enumerate(rows)
    ]
