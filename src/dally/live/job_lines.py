"""The lines of all jobs after a cycle. Compiled: every cycle looks at every job that has not ended."""

from __future__ import annotations

from dally.live.backends import base
from dally.live.backends.base import ObservedJob, Placement
from dally.live.facts import placement_of
from dally.live.job_progress import ProgressReader
from dally.live.job_status import NO_PROGRESS, UNSCHEDULABLE, JobStatus, ProgressValues
from dally.live.overrides import DELAY, FIRST, HOLD, Override, Overrides
from dally.live.reconcile.roster import Roster
from dally.live.wall_clock import WallClock
from dally.model import HELD, RUNNING, STATUS_NAMES, WAITING, Job
from dally.policies.base import Policy
from dally.policies.gate.gate import Gate
from dally.policies.queue import Queue
from dally.report.explanation.waiting import Moment, WaitRecords
from dally.sizes import rate_here


class JobLines:
    """Makes them. Jobs of which nothing has changed have the same objects as before.

    That is most of the queue in most cycles, and the garbage collector would walk over thousands of new ones.
    """

    def __init__(
        self,
        roster: Roster,
        clock: WallClock,
        queue: Queue,
        policy: Policy,
        overrides: Overrides,
        progress: ProgressReader,
        reasons: WaitRecords,
        free: int,
        now: float,
        known: dict[str, JobStatus],
    ) -> None:
        """`free`: GPUs; `known`: the lines before, by job."""
        self.roster = roster
        self.queue = queue
        self.overrides = overrides
        self.progress = progress
        self.reasons = reasons
        self.known = known
        self.now = now
        # Looked up once, and not once a job.
        self.gate = policy if isinstance(policy, Gate) else None
        self.moment = Moment(now, free, 1)
        self.followed = progress.followed()
        self.origin_s: float = clock.origin_s
        self.speed: float = clock.speed
        self.observed: dict[str, ObservedJob] = roster.observed
        self.unschedulable: dict[str, tuple[ObservedJob, str]] = roster.unschedulable
        self.tiers: list[str] = list(roster.topology.tiers)
        self.is_overridden = bool(overrides.by_kind)
        self.held: dict[str, Override] = overrides.of(HOLD)

    def lines(self) -> list[JobStatus]:
        """Of those that wait in their order, then of the rest as they came."""
        waiting: list[tuple[float, float, int, Job]] = []
        others: list[tuple[int, Job]] = []
        for job in self.roster.jobs.values():
            if job.status == WAITING:
                waiting.append((self.queue.key(job), self.queue.tie(job), int(job.index), job))
            else:
                others.append((int(job.index), job))
        waiting.sort()  # numbers differ: jobs are never compared
        others.sort()
        result: list[JobStatus] = []
        for place, (_, _, _, job) in enumerate(waiting, start=1):
            result.append(self.line(job, place))
        for _, job in others:
            result.append(self.line(job, 0))
        for observed, _ in self.roster.unschedulable.values():
            result.append(self.line(self.roster.job_of(observed), 0))
        return result

    def line(self, job: Job, place: int) -> JobStatus:
        """Of one job; `place`: in the queue, 1 is first; 0: it is not in it."""
        job_id, unschedulable, state = job.job_id, "", ""
        if place == 0 and job_id in self.unschedulable:
            observed, unschedulable = self.unschedulable[job_id]
        else:
            observed = self.observed[job_id]
            if place > 0:
                unschedulable = self.roster.outgrown.get(job_id, "")
        running = job.status == RUNNING
        held = self.held.get(job_id) if self.is_overridden else None
        why, reason = "", ""
        until_s: float | None = None
        if unschedulable:
            why, state = unschedulable, UNSCHEDULABLE
        elif held is not None:
            why = f"held {held.by()}"
        elif place > 0:
            queue = self.gate.queue_of(job) if self.gate is not None else ""
            why, reason, until_s = self.reasons.why_at(job, self.moment, place, queue)
        else:
            why = observed.reason or self.roster.blocked_by(job_id) or ""
        values = (  # in the order of the fields: a call with their names would take three times as long
            job_id,
            observed.spec,
            state or self._state(job, observed),
            observed.managed,
            self.wall_s(job.submit_s),
            self.wall_s(job.placed_s if running else job.lost_s),
            place or None,
            observed.placement or self._promised(job),
            self.tiers[job.tier] if running else "",
            job.done_s(self.now),
            1.0 / rate_here(job) if running and job.rate > 0.0 else None,
            job.preemptions,
            job.migrations,
            why,
            reason,
            None if until_s is None else self.wall_s(until_s),
            "" if held is None else held.who,
            self.overrides.author(FIRST, job_id) if self.is_overridden else "",
            self.overrides.author(DELAY, job_id) if self.is_overridden else "",
            self.wall_s(job.delay_until_s) if job.delay_until_s >= 0.0 else None,
            self.roster.non_preemptible.get(job_id, "") if running else "",
            *self._progress_of(job),
        )
        line = self.known.get(job_id)
        return line if line is not None and line == values else JobStatus._make(values)

    def wall_s(self, moment_s: float) -> float:
        """As the clock has it."""
        return self.origin_s + moment_s / self.speed

    def _progress_of(self, job: Job) -> ProgressValues:
        """The last five fields: how far it is and when it ends, if it says so."""
        if job.job_id not in self.followed:
            return NO_PROGRESS
        progress = self.progress.of(job, self.now)
        if progress is None:
            return NO_PROGRESS
        if progress.end is None:
            return (progress.step, progress.total, None, None, None)
        end = progress.end
        low_s, middle_s, high_s = (round(self.wall_s(s), 1) for s in (end.low_s, end.middle_s, end.high_s))
        return (progress.step, progress.total, middle_s, low_s, high_s)

    def _promised(self, job: Job) -> Placement:
        """Where a job is about to start, of which the backend does not say yet where it is."""
        if job.status != RUNNING or job.allocation is None:
            return {}
        return placement_of(self.roster.topology, job.allocation)

    def _state(self, job: Job, observed: ObservedJob) -> str:
        """The engine's name for it, unless the backend is on the way from one to the other, or blocks it."""
        state = observed.state
        if state == base.STARTING or state == base.STOPPING:
            return state
        if job.status == RUNNING and state == base.QUEUED:
            return base.STARTING
        if job.status == WAITING and state == base.RUNNING:  # it is to be preempted, and holds its GPUs still
            return base.STOPPING
        if job.status == HELD and state != base.HELD and self.roster.blocked_by(job.job_id) is not None:
            return base.BLOCKED
        return STATUS_NAMES[job.status]
