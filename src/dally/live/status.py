"""How things stand, as one plain value that the daemon puts up after each cycle and everybody else reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dally.engine.state import State
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import ObservedJob, Placement
from dally.live.cycle import CycleResult, Scheduler
from dally.live.facts import placement_of
from dally.live.overrides import DELAY, FIRST, HOLD, Overrides
from dally.live.reconcile.roster import Roster
from dally.live.store.log_rows import queue_of
from dally.live.team_status import TeamStatus, teams_of
from dally.live.wall_clock import WallClock
from dally.model import HELD, RUNNING, STATUS_NAMES, WAITING, Job
from dally.policies.delay_timers import Timers
from dally.report.explanation.waiting import Moment, Offer, WaitRecords, Why
from dally.sizes import rate_here

UNSCHEDULABLE: Final = "unschedulable"
ProgressValues = tuple[int | None, int | None, float | None, float | None, float | None]
NO_PROGRESS: Final[ProgressValues] = (None, None, None, None, None)
NOT_OFFERED: Final = ("held", base.BLOCKED, UNSCHEDULABLE)  # states of jobs that wait and are offered no GPUs


class JobStatus(NamedTuple):
    """One job that has not ended. Times are seconds since 1970, lengths seconds of the engine's clock.

    A tuple, as every cycle makes one of every job: a frozen dataclass takes four times as long to make.
    """

    job_id: str
    spec: JobSpec
    state: str  # waiting, held, blocked, unschedulable, starting, running, stopping
    managed: bool
    submit_s: float
    since_s: float  # it waits or runs
    place: int | None  # in the order, 1 is first
    placement: dict[str, int]
    tier: str
    work_s: float  # done so far, at full speed
    slowdown: float | None  # at present
    preemptions: int
    migrations: int
    why: str  # it waits
    reason: str  # of `why`, as explanation.waiting names them
    next_s: float | None  # when it takes a farther place
    held_by: str = ""  # who put it on hold here; empty: nobody did
    first_by: str = ""  # who put it first in the queue
    delay_by: str = ""  # who said how long it delays for closer places,
    delay_until_s: float | None = None  # and until when
    non_preemptible: str = ""  # why it cannot be stopped while it runs; empty: it can be
    step: int | None = None  # steps of training done, as the job says,
    total_steps: int | None = None  # of so many
    end_s: float | None = None  # when it ends by its own progress,
    end_low_s: float | None = None  # and between which moments it does 80 times out of 100
    end_high_s: float | None = None


@dataclass(frozen=True)
class NodeStatus:
    """One machine."""

    name: str
    domains: tuple[str, ...]  # above it, closest first
    gpus: int
    free: int
    state: str
    reason: str
    jobs: tuple[str, ...]


@dataclass(frozen=True)
class ClusterStatus:
    """The cluster after one cycle."""

    at_s: float = 0.0  # of the engine's clock
    wall_s: float = 0.0
    cycle: int = 0
    jobs: tuple[JobStatus, ...] = ()  # waiting ones in their order, then the rest
    nodes: tuple[NodeStatus, ...] = ()
    tiers: tuple[str, ...] = ()
    gpus: int = 0
    free_gpus: int = 0
    free: tuple[tuple[int, ...], ...] = ()  # GPUs of every domain, by tier
    offers: tuple[Offer, ...] = ()
    timers_s: dict[int, tuple[float, ...]] = field(default_factory=dict)  # of the tuner: by GPUs, then by tier
    problems: tuple[str, ...] = ()  # of the latest cycle
    by_id: dict[str, JobStatus] = field(default_factory=dict)
    teams: tuple[TeamStatus, ...] = ()  # parents before children; none without queues

    @property
    def busy_gpus(self) -> int:
        """GPUs that jobs hold; one that a job leaves for another counts once."""
        return min(sum(sum(line.placement.values()) for line in self.jobs), self.gpus - self.free_gpus)


def status_of(
    scheduler: Scheduler, reasons: WaitRecords, result: CycleResult, number: int, before: ClusterStatus
) -> ClusterStatus:
    """The status after a cycle. Jobs of which nothing has changed have the same objects as before.

    That is most of the queue in most cycles, and the garbage collector would walk over thousands of new ones.
    """
    state, roster, clock, now = scheduler.state, scheduler.roster, scheduler.clock, result.now
    order = sorted(
        (job for job in roster if job.status == WAITING),
        key=lambda job: (state.queue.key(job), state.queue.tie(job), job.index),
    )
    free = int(state.cluster.free_gpus)
    overrides = scheduler.overrides
    known, policy = before.by_id, state.policy

    def progress_of(job: Job) -> ProgressValues:
        return _progress_of(scheduler, job, now)

    lines = [
        _line(
            known, job, roster, clock, now, place, reasons, free, overrides, progress_of(job), queue_of(policy, job)
        )
        for place, job in enumerate(order, start=1)
    ]
    others = sorted((job for job in roster if job.status != WAITING), key=lambda job: job.index)
    others += [roster.job_of(observed) for observed, _ in roster.unschedulable.values()]
    lines += [
        _line(known, job, roster, clock, now, None, reasons, free, overrides, progress_of(job)) for job in others
    ]
    return ClusterStatus(
        at_s=now,
        wall_s=clock.wall_s(now),
        cycle=number,
        jobs=tuple(lines),
        nodes=tuple(_nodes(state, roster)),
        tiers=tuple(roster.topology.tiers),
        gpus=int(roster.topology.total_gpus()),
        free_gpus=free,
        free=tuple(tuple(int(gpus) for gpus in tier) for tier in state.cluster.free),
        offers=tuple(reasons.offers()),
        timers_s=_timers(state, {line.spec.gpus for line in lines}, now),
        problems=tuple(result.problems),
        by_id={line.job_id: line for line in lines},
        teams=teams_of(state.policy),
    )


def _timers(state: State, sizes: set[int], now: float) -> dict[int, tuple[float, ...]]:
    """How long gangs of each size delay for closer than each tier above the machine; {}: no such timers."""
    timers = getattr(getattr(state.policy, "placement", None), "timers", None)
    if not isinstance(timers, Timers):
        return {}
    last = state.cluster.root
    return {
        gpus: tuple(timers.wait_s(tier, last, gpus, now) for tier in range(1, last + 1)) for gpus in sorted(sizes)
    }


def _line(
    known: dict[str, JobStatus],
    job: Job,
    roster: Roster,
    clock: WallClock,
    now: float,
    place: int | None,
    reasons: WaitRecords,
    free: int,
    overrides: Overrides,
    progress: ProgressValues,
    queue: str = "",
) -> JobStatus:
    job_id = job.job_id
    observed, unschedulable = roster.unschedulable.get(job_id) or (roster.observed[job_id], "")
    if place is not None:
        unschedulable = roster.outgrown.get(job_id, "")
    running = job.status == RUNNING
    held = overrides.of(HOLD).get(job_id) if overrides.by_kind else None
    if unschedulable:
        why = Why(unschedulable, "")
    elif held is not None:
        why = Why(f"held {held.by()}", "")
    elif place is not None:
        why = reasons.why(job, Moment(now, free, place, queue=queue))
    else:
        why = Why(observed.reason or roster.blocked_by(job_id) or "", "")
    values = (  # in the order of the fields: a call with their names would take three times as long
        job_id,
        observed.spec,
        UNSCHEDULABLE if unschedulable else _state(job, observed, roster),
        observed.managed,
        clock.wall_s(job.submit_s),
        clock.wall_s(job.placed_s if running else job.lost_s),
        place,
        observed.placement or _promised(job, roster),
        roster.topology.tiers[job.tier] if running else "",
        job.done_s(now),
        1.0 / rate_here(job) if running and job.rate > 0.0 else None,
        job.preemptions,
        job.migrations,
        why.text,
        why.reason,
        None if why.until_s is None else clock.wall_s(why.until_s),
        "" if held is None else held.who,
        overrides.author(FIRST, job_id) if overrides.by_kind else "",
        overrides.author(DELAY, job_id) if overrides.by_kind else "",
        clock.wall_s(job.delay_until_s) if job.delay_until_s >= 0.0 else None,
        roster.non_preemptible.get(job_id, "") if running else "",
        *progress,
    )
    line = known.get(job_id)
    return line if line is not None and line == values else JobStatus(*values)


def _progress_of(scheduler: Scheduler, job: Job, now: float) -> ProgressValues:
    """The last five fields of its status: how far it is and when it ends, if it says so."""
    progress = scheduler.progress.of(job, now)
    if progress is None:
        return NO_PROGRESS
    if progress.end is None:
        return (progress.step, progress.total, None, None, None)
    wall_s, end = scheduler.clock.wall_s, progress.end
    low_s, middle_s, high_s = (round(wall_s(at_s), 1) for at_s in (end.low_s, end.middle_s, end.high_s))
    return (progress.step, progress.total, middle_s, low_s, high_s)


def _promised(job: Job, roster: Roster) -> Placement:
    """Where a job is about to start, of which the backend does not say yet where it is."""
    if job.status != RUNNING or job.allocation is None:
        return {}
    return placement_of(roster.topology, job.allocation)


def _state(job: Job, observed: ObservedJob, roster: Roster) -> str:
    """The engine's name for it, unless the backend is on the way from one to the other, or blocks it."""
    if observed.state in (base.STARTING, base.STOPPING):
        return observed.state
    if job.status == RUNNING and observed.state == base.QUEUED:
        return base.STARTING
    if job.status == WAITING and observed.state == base.RUNNING:  # it is to be preempted, and holds its GPUs still
        return base.STOPPING
    if job.status == HELD and observed.state != base.HELD and roster.blocked_by(job.job_id) is not None:
        return base.BLOCKED
    return STATUS_NAMES[job.status]


def _nodes(state: State, roster: Roster) -> list[NodeStatus]:
    topology, cluster = roster.topology, state.cluster
    nodes = []
    for machine in roster.snapshot.machines:
        number = roster.machines.get(machine.name)
        if number is None:
            continue
        above = [
            topology.names[tier][topology.domain_of(tier, number)] for tier in range(1, len(topology.tiers) - 1)
        ]
        nodes.append(
            NodeStatus(
                machine.name,
                tuple(above),
                machine.gpus,
                int(cluster.free[0][number]),
                machine.state,
                machine.reason,
                tuple(job.job_id for job in cluster.jobs_on[number]),
            )
        )
    return nodes
