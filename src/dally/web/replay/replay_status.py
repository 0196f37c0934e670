"""A status for any moment of a finished run, as a daemon would have put it up then."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import polars as pl

from dally.live.job_status import JobStatus
from dally.live.status import ClusterStatus, NodeStatus
from dally.metrics.record import Record
from dally.report.explanation.course import GONE, HELD, RUNS, WAITS, Course
from dally.report.explanation.instant import Instant, Timeline
from dally.report.explanation.waiting import Why
from dally.runs.assemble import TierSlowdowns
from dally.web.routes.bodies import Spent


class Progress:
    """Work of every job, act by act: how far it was at a moment, and how fast it went there.

    The log has no rates. A job's work over the whole run is known, and how much slower each tier is for it alone:
    the work is spread over its stays by these, so that the end agrees with jobs.csv.
    """

    def __init__(self, run: Record, course: Course) -> None:
        self._course = course
        self.slowdowns = TierSlowdowns(run.scenario, run.topology)
        self._jobs = run.jobs.select(
            "submit_s",
            "model",
            "gpus",
            "status",
            "slowdown",
            "run_s",
            worked_s=pl.col("compute_s") + pl.col("comm_s"),
        ).to_dicts()
        self._paces = [self._pace_by_tier(job) for job in self._jobs]
        self._done = array("d", bytes(8 * len(course.times)))  # at each act, at the pace of the closest place alone
        self._whole = [0.0] * len(self._jobs)
        self._add_up()

    def _pace_by_tier(self, job: dict[str, Any]) -> list[float]:
        alone = self.slowdowns(job["model"] or "", int(job["gpus"]))
        return [1.0 / slowdown if slowdown > 0.0 else 1.0 for slowdown in alone]

    def _pace(self, act: int) -> float:
        """Against the closest place alone, as far as the tier goes."""
        paces = self._paces[self._course.jobs[act]]
        return paces[self._course.tiers[act]] if paces else 1.0

    def _add_up(self) -> None:
        course = self._course
        for act, before in enumerate(course.before):
            if before != act:
                self._done[act] = self._done_at(before, course.times[act])
        for job, act in course.last.items():
            self._whole[job] = self._done_at(act, course.end_s)

    def _done_at(self, act: int, at_s: float) -> float:
        course, done = self._course, self._done[act]
        return done + (at_s - course.times[act]) * self._pace(act) if course.makes[act] == RUNS else done

    def whole_s(self, job: int) -> float | None:
        """The job's work in seconds at full speed, once it has all been done; None: it never was."""
        row = self._jobs[job]
        return self._work_s(job) if row["status"] == "finished" else None

    def _work_s(self, job: int) -> float:
        """What it has done in the whole run."""
        row = self._jobs[job]
        return float(row["worked_s"] / row["slowdown"]) if row["slowdown"] else self._whole[job]

    def work_s(self, act: int, at_s: float) -> float:
        """Done at a moment by the job whose last act that was, in seconds at full speed."""
        done = self._done_at(act, at_s)
        if done <= 0.0:
            return 0.0
        job = self._course.jobs[act]
        return self._work_s(job) * done / self._whole[job]

    def slowdown(self, act: int) -> float:
        """Of a job that runs since that act, restarts aside, against the closest place alone."""
        job = self._course.jobs[act]
        row, pace, whole = self._jobs[job], self._pace(act), self._whole[job]
        if not row["slowdown"] or whole <= 0.0 or row["run_s"] <= 0.0:
            return 1.0 / pace
        share = float(row["worked_s"] / row["run_s"])
        return max(1.0, share * whole / (self._work_s(job) * pace))

    def spent(self, act: int, at_s: float) -> Spent:
        """Where the job's time went up to a moment; restarts are spread over all of it."""
        row = self._jobs[self._course.jobs[act]]
        held_s = self._course.held_s(act, at_s)
        useful_s = self.work_s(act, at_s)
        working_s = max(useful_s, held_s * row["worked_s"] / row["run_s"] if row["run_s"] else held_s)
        until_s = self._course.times[act] if self._course.makes[act] == GONE else at_s
        return Spent(
            waiting_s=max(0.0, until_s - row["submit_s"] - held_s),
            useful_s=useful_s,
            network_s=working_s - useful_s,
            other_s=max(0.0, held_s - working_s),
        )


class StatusHistory:
    """StatusHistory of one run."""

    def __init__(self, run: Record, timeline: Timeline) -> None:
        self._tiers = run.tiers
        self.topology = run.topology
        self._timeline = timeline
        self.course = timeline.course
        self.decisions = timeline.decisions
        self.progress = Progress(run, self.course)
        self.epoch_s = float(run.summary.get("epoch_s") or 0.0)  # of second 0, where the trace has dates
        self.jobs = timeline.jobs
        self._machines = self.topology.names[0]
        levels = range(1, len(self._tiers) - 1)
        self._idle = [
            NodeStatus(name, tuple(self._domain(tier, number) for tier in levels), gpus, gpus, "up", "", ())
            for number, (name, gpus) in enumerate(zip(self._machines, timeline.gpus, strict=True))
        ]

    def _domain(self, tier: int, machine: int) -> str:
        return self.topology.names[tier][self.topology.domain_of(tier, machine)]

    def at(self, at_s: float) -> ClusterStatus:
        """How things stood once everything of that moment was over."""
        instant = self._timeline.at(at_s)
        there, free = instant.there, instant.free
        lines = [
            self.line(job.act, at_s, place, instant.why(place))
            for place, job in enumerate(instant.waiting, start=1)
        ]
        nothing = Why("", "")
        lines += [
            self.line(there[job], at_s, None, nothing) for job in sorted(there) if not self._waits(there[job])
        ]
        return ClusterStatus(
            at_s=at_s,
            wall_s=self.wall_s(at_s),
            cycle=self.course.number_at(at_s),
            jobs=tuple(lines),
            nodes=tuple(self._nodes(instant)),
            tiers=tuple(self._tiers),
            gpus=sum(self._timeline.gpus),
            free_gpus=sum(free),
            free=tuple(tuple(gpus) for gpus in instant.free_by_tier),
            offers=tuple(instant.records.offers()),
            timers_s=self.decisions.timers_s({line.spec.gpus for line in lines}, at_s),
            by_id={line.job_id: line for line in lines},
        )

    def wall_s(self, at_s: float) -> float:
        """Seconds since 1970, where the trace has dates; else the moment itself."""
        return self.epoch_s + at_s

    def _waits(self, act: int) -> bool:
        return int(self.course.makes[act]) == WAITS

    def _nodes(self, instant: Instant) -> list[NodeStatus]:
        on: dict[int, list[str]] = {}
        for job, act in instant.there.items():
            for machine, _ in self.course.parts(act):
                on.setdefault(machine, []).append(self.jobs[job].job_id)
        nodes = list(self._idle)
        for machine in instant.down | set(on):
            state, why = ("down", "it has failed") if machine in instant.down else ("up", "")
            free, jobs = instant.free[machine], tuple(on.get(machine, ()))
            nodes[machine] = replace(self._idle[machine], free=free, state=state, reason=why, jobs=jobs)
        return nodes

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
            next_s=None if why.until_s is None else self.wall_s(why.until_s),
        )
