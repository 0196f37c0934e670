"""When machines will be free: running jobs end at their time limits, planned jobs book whole machines."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.cluster.topology import Topology
from dally.model import Allocation, Job

FIRST_STEP_S = 30.0  # between the first two moments that are looked at; each later one is twice as far


class PlannedUse:
    """A machine is a planned job's from start to end."""

    __slots__ = ("end_s", "start_s")

    def __init__(self, start_s: float, end_s: float) -> None:
        self.start_s: float = start_s
        self.end_s: float = end_s


class MachinePlan:
    """Free GPUs of every machine now and at moments ahead, and what is booked.

    Moments are ends of running jobs, the last of each step; steps double, as those of Slurm's own look ahead do.
    """

    __slots__ = ("_cluster", "_ended", "_free", "_free_for", "_planned_uses", "_topology", "moments_s")

    def __init__(self, cluster: Cluster, ends: list[tuple[float, Job]], now: float, window_s: float) -> None:
        """`ends`: running jobs by when their limits run out, first first."""
        self._cluster: Cluster = cluster
        self._topology: Topology = cluster.topology
        self._ended: list[tuple[float, Job]] = ends  # and those that have started since
        self._free_for: dict[int, list[vec[i64]]] = {}  # by signature, where jobs have constraints
        here = _copy(cluster.free[0])
        self.moments_s: list[float] = [now]
        self._free: list[vec[i64]] = [here]
        self._planned_uses: list[list[PlannedUse]] = [[] for _ in range(len(here))]
        step_s = FIRST_STEP_S
        at: i64 = 0
        while at < len(ends) and ends[at][0] <= now + window_s:
            until_s = ends[at][0] + step_s
            then = _copy(here)
            last_s = now
            while at < len(ends) and ends[at][0] <= until_s:
                last_s = ends[at][0]
                _give_back(then, ends[at][1])
                at += 1
            self.moments_s.append(last_s)
            self._free.append(then)
            here = then
            step_s *= 2.0

    def machines_for(self, job: Job, moment: i64, length_s: float) -> vec[i64]:
        """Machines on which the job could run from that moment for so long; none if it could not.

        Of the closest domains that have room, the one that is left fullest.
        """
        topology = self._topology
        near = self._cluster.closest_tier(job)
        if near < 0:
            return vec[i64]()
        room = self._room(job, moment, length_s)
        for tier in range(near, len(topology.gpus)):
            best: i64 = -1
            least: i64 = 0
            for domain in range(len(topology.gpus[tier])):
                gpus = _room_in(topology, room, tier, domain)
                if gpus >= job.gpus and (best < 0 or gpus < least):
                    best = domain
                    least = gpus
            if best >= 0:
                machines: list[int] = []
                _fill(topology, room, tier, best, job.gpus, machines)
                return vec[i64](machines)
        return vec[i64]()

    def _room(self, job: Job, moment: i64, length_s: float) -> vec[i64]:
        """GPUs that the job could have on each machine."""
        start_s = self.moments_s[moment]
        room = _copy(self._free_at(job, moment))
        group = self._cluster.group_of(job)
        for machine in range(len(room)):
            if room[machine] > 0 and not self.is_open(machine, start_s, start_s + length_s):
                room[machine] = 0
            room[machine] = room[machine] // group * group
        return room

    def _free_at(self, job: Job, moment: i64) -> vec[i64]:
        """GPUs of every machine that the job could have at that moment, bookings aside."""
        if self._cluster.feasibility is None:
            return self._free[moment]
        rows = self._free_for.get(int(job.signature))
        if rows is None:
            rows = self._tried(job)
            self._free_for[int(job.signature)] = rows
        return rows[moment]

    def _tried(self, job: Job) -> list[vec[i64]]:
        """The same at every moment: running jobs end, as if, one after the other."""
        cluster = self._cluster
        cluster.focus(job)
        trial = cluster.trial()
        rows: list[vec[i64]] = []
        at: i64 = 0
        for moment_s in self.moments_s:
            while at < len(self._ended) and self._ended[at][0] <= moment_s:
                held = self._ended[at][1].allocation
                if held is not None:
                    trial.release(held)
                at += 1
            rows.append(_copy(cluster.free[0]))
        trial.undo()
        return rows

    def reserve(self, machines: vec[i64], start_s: float, end_s: float) -> None:
        """These machines are a planned job's, whole."""
        for machine in machines:
            self._planned_uses[machine].append(PlannedUse(start_s, end_s))

    def is_open(self, machine: i64, start_s: float, end_s: float) -> bool:
        """Whether nobody booked the machine for a time that overlaps."""
        for use in self._planned_uses[machine]:  # noqa: SIM110  # compiled, a loop is faster than a generator
            if use.start_s < end_s and start_s < use.end_s:
                return False
        return True

    def take(self, job: Job, allocation: Allocation, until_s: float) -> None:
        """A job starts now on these GPUs and keeps them until its limit runs out."""
        if self._cluster.feasibility is not None:
            self._ended.append((until_s, job))
            self._ended.sort(key=_by_end)
            self._free_for.clear()
            return
        for moment in range(len(self.moments_s)):
            if self.moments_s[moment] < until_s:
                for part in range(len(allocation.machines)):
                    self._free[moment][allocation.machines[part]] -= allocation.gpus[part]


def _room_in(topology: Topology, room: vec[i64], tier: i64, domain: i64) -> i64:
    first, last = topology.machines_of(tier, domain)
    gpus: i64 = 0
    for machine in range(first, last):
        gpus += room[machine]
    return gpus


def _fill(topology: Topology, room: vec[i64], tier: i64, domain: i64, gpus: i64, machines: list[int]) -> None:
    """Add machines of a domain that has so much room, as Slurm does: whole children with the most room first,

    the rest from the child that it fits best.
    """
    if tier == 0:
        machines.append(int(domain))
        return
    first = topology.first_children[tier][domain]
    rooms: list[tuple[int, int]] = []
    for child in range(topology.child_counts[tier][domain]):
        rooms.append((int(_room_in(topology, room, tier - 1, first + child)), int(child)))
    while gpus > 0:
        best = (0, -1)
        for pair in rooms:
            if pair[0] >= gpus:
                if best[0] < gpus or pair[0] < best[0]:
                    best = pair  # holds the rest, and is left fullest
            elif best[0] < gpus and pair[0] > best[0]:
                best = pair
        rooms.remove(best)
        part = gpus if best[0] >= gpus else best[0]
        _fill(topology, room, tier - 1, first + best[1], part, machines)
        gpus -= part


def _by_end(row: tuple[float, Job]) -> tuple[float, int]:
    return row[0], int(row[1].index)


def _copy(values: vec[i64]) -> vec[i64]:
    copy: vec[i64] = vec[i64]([0] * len(values))
    for place in range(len(values)):
        copy[place] = values[place]
    return copy


def _give_back(free: vec[i64], job: Job) -> None:
    allocation = job.allocation
    assert allocation is not None
    for part in range(len(allocation.machines)):
        free[allocation.machines[part]] += allocation.gpus[part]
