"""How things stand, as one plain value that the daemon puts up after each cycle and everybody else reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dally.cluster.topology import Topology
from dally.engine.state import State
from dally.live.backends import base
from dally.live.cycle import CycleResult, Scheduler
from dally.live.job_lines import JobLines
from dally.live.job_status import UNSCHEDULABLE, JobStatus
from dally.live.reconcile.roster import Roster
from dally.live.team_status import TeamStatus, teams_of
from dally.policies.delay_timers import Timers
from dally.report.explanation.waiting import Offer, WaitRecords

NOT_OFFERED: Final = ("held", base.BLOCKED, UNSCHEDULABLE)  # states of jobs that wait and are offered no GPUs


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
    of: Topology | None = field(default=None, repr=False, compare=False)  # in which it has these domains


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
    free = int(state.cluster.free_gpus)
    lines = JobLines(
        roster, clock, state.queue, state.policy, scheduler.overrides, scheduler.progress, reasons, free, now,
        before.by_id,
    ).lines()  # fmt: skip
    return ClusterStatus(
        at_s=now,
        wall_s=clock.wall_s(now),
        cycle=number,
        jobs=tuple(lines),
        nodes=_nodes(state, roster, before.nodes),
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


def _nodes(state: State, roster: Roster, before: tuple[NodeStatus, ...]) -> tuple[NodeStatus, ...]:
    """Machines; those of which nothing has changed have the same objects as before."""
    topology, cluster, numbers = roster.topology, state.cluster, roster.machines
    free, jobs_on = cluster.free[0], cluster.jobs_on
    known = {node.name: node for node in before}
    nodes = []
    for machine in roster.snapshot.machines:
        number = numbers.get(machine.name)
        if number is None:
            continue
        name, gpus, jobs = machine.name, int(free[number]), tuple([job.job_id for job in jobs_on[number]])
        node = known.get(name)
        if (
            node is None
            or (node.jobs, node.free, node.gpus) != (jobs, gpus, machine.gpus)
            or (node.state, node.reason) != (machine.state, machine.reason)
            or node.of is not topology
        ):
            above = _domains(topology, number)
            node = NodeStatus(name, above, machine.gpus, gpus, machine.state, machine.reason, jobs, topology)
        nodes.append(node)
    return tuple(nodes)


def _domains(topology: Topology, number: int) -> tuple[str, ...]:
    tiers = range(1, len(topology.tiers) - 1)
    return tuple(topology.names[tier][topology.domain_of(tier, number)] for tier in tiers)
