"""When machines will be free: running jobs end at their time limits, planned jobs book whole machines."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job

FIRST_STEP_S = 30.0  # between the first two moments that are looked at; each later one is twice as far


class Booking:
    """A machine is a planned job's from start to end."""

    __slots__ = ("end_s", "start_s")

    def __init__(self, start_s: float, end_s: float) -> None:
        self.start_s: float = start_s
        self.end_s: float = end_s


class MachinePlan:
    """Free GPUs of every machine now and at moments ahead, and what is booked.

    Moments are ends of running jobs, the last of each step; steps double, as those of Slurm's own look ahead do.
    """

    __slots__ = ("_bookings", "_free", "moments_s")

    def __init__(self, cluster: Cluster, ends: list[tuple[float, Job]], now: float, window_s: float) -> None:
        """`ends`: running jobs by when their limits run out, first first."""
        free = cluster.free[0]
        here: vec[i64] = vec[i64]([0] * len(free))
        for machine in range(len(free)):
            here[machine] = free[machine]
        self.moments_s: list[float] = [now]
        self._free: list[vec[i64]] = [here]
        self._bookings: list[list[Booking]] = [[] for _ in range(len(free))]
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

    def machines_for(self, job: Job, moment: i64, length_s: float, one_machine: bool) -> vec[i64]:
        """Machines on which the job could run from that moment for so long; none if it could not.

        One that leaves least free if it must be one machine, else those with the most free.
        """
        start_s = self.moments_s[moment]
        end_s = start_s + length_s
        free = self._free[moment]
        found: vec[i64] = vec[i64]()
        if one_machine:
            best: i64 = -1
            for machine in range(len(free)):
                fits = free[machine] >= job.gpus and (best < 0 or free[machine] < free[best])
                if fits and self.is_open(machine, start_s, end_s):
                    best = machine
            return append(found, best) if best >= 0 else found
        open_: list[tuple[int, int]] = []
        room: i64 = 0
        for machine in range(len(free)):
            gpus = free[machine] // job.group * job.group
            if gpus > 0 and self.is_open(machine, start_s, end_s):
                open_.append((-int(gpus), int(machine)))
                room += gpus
        if room < job.gpus:
            return found
        open_.sort()
        left = job.gpus
        for gpus_less, machine_at in open_:
            found = append(found, machine_at)
            left += gpus_less
            if left <= 0:
                break
        return found

    def book(self, machines: vec[i64], start_s: float, end_s: float) -> None:
        """These machines are a planned job's, whole."""
        for machine in machines:
            self._bookings[machine].append(Booking(start_s, end_s))

    def is_open(self, machine: i64, start_s: float, end_s: float) -> bool:
        """Whether nobody booked the machine for a time that overlaps."""
        for booking in self._bookings[machine]:  # noqa: SIM110  # compiled, a loop is faster than a generator
            if booking.start_s < end_s and start_s < booking.end_s:
                return False
        return True

    def take(self, allocation: Allocation, until_s: float) -> None:
        """A job starts now on these GPUs and keeps them until its limit runs out."""
        for moment in range(len(self.moments_s)):
            if self.moments_s[moment] < until_s:
                for part in range(len(allocation.machines)):
                    self._free[moment][allocation.machines[part]] -= allocation.gpus[part]


def _copy(values: vec[i64]) -> vec[i64]:
    found: vec[i64] = vec[i64]([0] * len(values))
    for place in range(len(values)):
        found[place] = values[place]
    return found


def _give_back(free: vec[i64], job: Job) -> None:
    allocation = job.allocation
    assert allocation is not None
    for part in range(len(allocation.machines)):
        free[allocation.machines[part]] += allocation.gpus[part]
