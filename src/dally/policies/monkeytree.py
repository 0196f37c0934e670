"""MonkeyTree: gangs are placed as they come, and moved until no rack has more than two of them that leave it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mypy_extensions import mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import Action, Allocation, Job, Preempt, Start, make_allocation
from dally.policies import events
from dally.policies.base import Param, Policy
from dally.policies.composed import ComposedPolicy
from dally.policies.declaration import BEST_FIT, NOTHING, NamedPolicy
from dally.policies.events import PolicyEvent
from dally.policies.ordering.simple import SubmitOrder
from dally.policies.placement.best_fit import BestFit
from dally.policies.preemption.base import NoPreemption
from dally.policies.queue import Queue
from dally.policies.rack_shares import RackShares
from dally.policies.settings import Settings


@mypyc_attr(allow_interpreted_subclasses=True)
class MonkeyTree(ComposedPolicy):
    """First come, first served with backfill and best fit; then gangs move until every rack is bounded.

    Zabreyko et al., MonkeyTree (arXiv 2602.08296). A ring sends one flow out of each rack that it spans, so a rack
    whose gangs send at most `fragments` such flows has no congestion on as many uplinks. Whenever a rack has more,
    running gangs change places until none has, with as few GPUs moved as can be. A gang that moves stops for
    `move_s` seconds, whatever its size: its workers move side by side. Departures: the paper's integer program is
    solved by search (policies/rack_shares.py; the tests compare it with a solver), gangs change places at the next
    event instead of at fixed times, and a machine failure costs the run's restart.
    """

    def __init__(self, fragments: int, move_s: float) -> None:
        super().__init__(SubmitOrder(), BestFit(), NoPreemption())
        self.suspend_s = move_s
        self._fragments: int = fragments
        self._changed: bool = False  # since racks were last looked at

    def on(self, event: PolicyEvent) -> None:
        super().on(event)
        if event.kind in (events.STARTED, events.STOPPED, events.MACHINE_REPAIRED):
            self._changed = True

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        return self._offer_then_move(super().schedule(now, queue, cluster), cluster)

    def _offer_then_move(self, offers: Iterable[Action], cluster: Cluster) -> Iterator[Action]:
        yield from offers
        if not self._changed or cluster.root < 2:
            return
        self._changed = False
        moves = self._moves(cluster)
        for job, _ in moves:
            yield Preempt(job)
        for job, allocation in moves:
            yield Start(job, allocation)
        self._changed = False

    def _moves(self, cluster: Cluster) -> list[tuple[Job, Allocation]]:
        """Gangs with their new places, of which none overlaps what stays."""
        shares = RackShares([int(free) for free in cluster.free[1]], self._fragments)
        jobs: dict[int, Job] = {}
        for job in cluster.running.values():
            allocation = job.allocation
            if allocation is None:
                continue
            parts: dict[int, int] = {}
            for place in range(len(allocation.machines)):
                rack = int(cluster.topology.domain_of(1, allocation.machines[place]))
                parts[rack] = parts.get(rack, 0) + int(allocation.gpus[place])
            fixed = job.non_preemptible or job.non_migratable or cluster.feasibility is not None
            shares.add(int(job.index), parts, fixed)
            jobs[int(job.index)] = job
        moved = shares.bounded()
        if not moved:
            return []
        return _placed(cluster, [(jobs[index], shares.jobs[index]) for index in moved])


def _placed(cluster: Cluster, moved: list[tuple[Job, dict[int, int]]]) -> list[tuple[Job, Allocation]]:
    """Machines for the new shares: a gang keeps those of a rack that it stays in, as far as its share goes."""
    topology = cluster.topology
    free = [int(count) for count in cluster.free[0]]
    for job, _ in moved:
        assert job.allocation is not None
        for machine, gpus in job.allocation.parts():
            free[machine] += gpus
    result: list[tuple[Job, Allocation]] = []
    incomplete: list[tuple[Job, dict[int, int], dict[int, int]]] = []
    for job, shares in moved:
        left = dict(shares)
        parts: dict[int, int] = {}
        assert job.allocation is not None
        for machine, gpus in job.allocation.parts():
            rack = int(topology.domain_of(1, machine))
            remaining = min(gpus, left.get(rack, 0))
            if remaining > 0:
                parts[machine] = remaining
                left[rack] -= remaining
                free[machine] -= remaining
        incomplete.append((job, left, parts))
    for job, left, parts in incomplete:
        for rack in sorted(left):
            need = left[rack]
            first, after = topology.machines_of(1, rack)
            machines = sorted(range(int(first), int(after)), key=lambda machine: (-free[machine], machine))
            for machine in machines:
                room = min(need, free[machine])
                taken = room - room % int(job.group)
                if taken > 0:
                    parts[machine] = parts.get(machine, 0) + taken
                    free[machine] -= taken
                    need -= taken
            if need > 0:
                return []  # room in the rack, but not in whole groups: another time
        allocation = make_allocation(0, sorted(parts.items()))
        allocation.tier = topology.tier_of(allocation)
        result.append((job, allocation))
    return result


def _monkeytree(settings: Settings) -> Policy:
    return MonkeyTree(settings["fragments"], settings["move_s"])


PAPER: Final = "Zabreyko et al., MonkeyTree: Near-Minimal Congestion for Multi-tenant Training, arXiv 2602.08296"
MONKEYTREE: Final = NamedPolicy(
    "monkeytree", _monkeytree, "submit time", BEST_FIT, "moves that bound each rack's uplinks", NOTHING, PAPER,
    (
        Param("fragments", 2, "gangs of a rack that may leave it", 1),
        Param("move_s", 9.02, "seconds to move a gang of any size; inf: the run's own price"),
    ),
    in_all=False,
)  # fmt: skip
