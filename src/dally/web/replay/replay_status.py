"""A status for any moment of a finished run, as a daemon would have put it up then."""

from __future__ import annotations

from dataclasses import replace

from dally.live.status import ClusterStatus, JobStatus, NodeStatus
from dally.metrics.record import Record
from dally.report.explanation.course import HELD, RUNS, WAITS
from dally.report.explanation.instant import Instant, Timeline
from dally.report.explanation.waiting import Why
from dally.web.replay.job_progress import Progress


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
