"""A status for any moment of a finished run, as a daemon would have put it up then."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from dally.job_spec import JobSpec
from dally.live.status import ClusterStatus, JobStatus, NodeStatus
from dally.metrics.record import Record
from dally.metrics.tables import USER
from dally.model import NEVER
from dally.report.explanation.course import HELD, RUNS, WAITS, Course
from dally.report.explanation.decisions import Told
from dally.report.explanation.waiting import Why
from dally.web.replay.job_progress import Progress


class Waiting(NamedTuple):
    """A job that waits; a Waiter."""

    job_id: str
    gpus: int
    group: int
    kind: int
    lost_s: float
    act: int
    delay_until_s: float = NEVER  # of what operators said nothing is recorded


@dataclass(frozen=True)
class ReplayedJob:
    """What jobs.csv says of a job that was so from the start."""

    job_id: str
    submit_s: float
    spec: JobSpec


class Boards:
    """Boards of one run."""

    def __init__(self, run: Record) -> None:
        self._tiers = run.tiers
        self.topology = run.topology
        self.course = Course(run)
        self.progress = Progress(run, self.course)
        self.told = Told(run)
        self.epoch_s = float(run.summary.get("epoch_s") or 0.0)  # of second 0, where the trace has dates
        self.jobs = _facts(run)
        self._machines = self.topology.names[0]
        self._gpus = [int(gpus) for gpus in self.topology.gpus[0]]
        levels = range(1, len(self._tiers) - 1)
        self._idle = [
            NodeStatus(name, tuple(self._domain(tier, number) for tier in levels), gpus, gpus, "up", "", ())
            for number, (name, gpus) in enumerate(zip(self._machines, self._gpus, strict=True))
        ]

    def _domain(self, tier: int, machine: int) -> str:
        return self.topology.names[tier][self.topology.domain_of(tier, machine)]

    def at(self, at_s: float) -> ClusterStatus:
        """How things stood once everything of that moment was over."""
        there = self.course.there(at_s)
        free, down, on = self._machines_at(there, at_s)
        free_gpus = sum(free)
        waiting = self._in_order(there, at_s)
        reasons = self.told.reasons([one.job_id for one in waiting], at_s)
        lines = []
        for place, one in enumerate(waiting, start=1):
            queue = self.jobs[self.course.jobs[one.act]].spec.queue
            why = self.told.why(reasons, one, queue, place, free_gpus, at_s)
            lines.append(self.line(one.act, at_s, place, why))
        nothing = Why("", "")
        lines += [
            self.line(there[job], at_s, None, nothing) for job in sorted(there) if not self._waits(there[job])
        ]
        return ClusterStatus(
            at_s=at_s,
            wall_s=self.wall_s(at_s),
            cycle=self.course.number_at(at_s),
            jobs=tuple(lines),
            nodes=tuple(self._nodes(free, down, on)),
            tiers=tuple(self._tiers),
            gpus=sum(self._gpus),
            free_gpus=free_gpus,
            free=self._by_tier(free),
            offers=tuple(reasons.offers()),
            timers_s=self.told.timers_s({line.spec.gpus for line in lines}, at_s),
            by_id={line.job_id: line for line in lines},
        )

    def wall_s(self, at_s: float) -> float:
        """Seconds since 1970, where the trace has dates; else the moment itself."""
        return self.epoch_s + at_s

    def _waits(self, act: int) -> bool:
        return int(self.course.makes[act]) == WAITS

    def _in_order(self, there: dict[int, int], at_s: float) -> list[Waiting]:
        """Those who wait, first in order first."""
        ranked = []
        for job, act in there.items():
            if self._waits(act):
                facts = self.jobs[job]
                asked = self.told.asked(facts.job_id, at_s)
                since_s = self.course.since[act]
                one = Waiting(facts.job_id, facts.spec.gpus, asked.group, asked.demand_kind, since_s, act)
                ranked.append((asked.rank, asked.tie, job, one))
        ranked.sort()
        return [one for *_, one in ranked]

    def _machines_at(self, there: dict[int, int], at_s: float) -> tuple[list[int], set[int], dict[int, list[str]]]:
        """Free GPUs of every machine, machines that are down, and who is on which."""
        free, down = list(self._gpus), self.course.down(at_s)
        on: dict[int, list[str]] = {}
        for machine in down:
            free[machine] = 0
        for job, act in there.items():
            for machine, gpus in self.course.parts(act):
                free[machine] -= gpus
                on.setdefault(machine, []).append(self.jobs[job].job_id)
        return free, down, on

    def _nodes(self, free: list[int], down: set[int], on: dict[int, list[str]]) -> list[NodeStatus]:
        found = list(self._idle)
        for machine in down | set(on):
            idle = self._idle[machine]
            state, why = ("down", "it has failed") if machine in down else ("up", "")
            jobs = tuple(on.get(machine, ()))
            found[machine] = NodeStatus(idle.name, idle.domains, idle.gpus, free[machine], state, why, jobs)
        return found

    def _by_tier(self, free: list[int]) -> tuple[tuple[int, ...], ...]:
        """GPUs that are free in every domain."""
        found = [tuple(free)]
        for tier in range(1, len(self._tiers)):
            above = [0] * len(self.topology.names[tier])
            for domain, gpus in enumerate(found[-1]):
                above[self.topology.parents[tier - 1][domain]] += gpus
            found.append(tuple(above))
        return tuple(found)

    def line(self, act: int, at_s: float, place: int | None, why: Why) -> JobStatus:
        """A job whose last act that was."""
        course, job = self.course, self.course.jobs[act]
        facts, runs = self.jobs[job], course.makes[act] == RUNS
        state = "running" if runs else "held" if course.makes[act] == HELD else "waiting"
        return JobStatus(
            job_id=facts.job_id,
            spec=replace(facts.spec, duration_s=self.progress.whole_s(job)),
            state=state,
            managed=True,
            submit_s=self.wall_s(facts.submit_s),
            since_s=self.wall_s(course.since[act]),
            place=place,
            placement={self._machines[machine]: gpus for machine, gpus in course.parts(act)} if runs else {},
            tier=self._tiers[course.tiers[act]] if runs else "",
            work_s=self.progress.work_s(act, at_s),
            slowdown=self.progress.slowdown(act) if runs else None,
            preemptions=course.preempted[act],
            migrations=course.moved[act],
            why=why.text,
            reason=why.reason,
            next_s=None if why.next_s is None else self.wall_s(why.next_s),
        )


def _facts(run: Record) -> list[ReplayedJob]:
    """In the order of jobs.csv."""
    columns = {"model": "model", "user": USER, "account": "account", "queue": "queue"}
    texts = {field: run.jobs[name].fill_null("").to_list() for field, name in columns.items() if name in run.jobs}
    given = zip(run.jobs["job_id"], run.jobs["submit_s"], run.jobs["gpus"], strict=True)
    return [
        ReplayedJob(job_id, submit_s, JobSpec(gpus, **{field: known[row] for field, known in texts.items()}))
        for row, (job_id, submit_s, gpus) in enumerate(given)
    ]
