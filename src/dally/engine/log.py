"""The event log: everything that happened, in columns."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i16, i32, i64, u8

from dally.model import Allocation, Decision, Job
from dally.pickles import picklable


class DecisionLog:
    """The policy's reasons, one row each; rows of kind offer also hold timers."""

    __slots__ = (
        "demand_kinds", "gpus", "groups", "jobs", "kinds", "others", "tiers", "ties", "timer_ends", "timers_s",
        "times", "values",
    )  # fmt: skip

    def __init__(self) -> None:
        self.times: vec[float] = vec[float]()
        self.kinds: vec[u8] = vec[u8]()
        self.jobs: vec[i32] = vec[i32]()
        self.gpus: vec[i32] = vec[i32]()
        self.groups: vec[i32] = vec[i32]()
        self.demand_kinds: vec[i32] = vec[i32]()
        self.tiers: vec[i16] = vec[i16]()
        self.values: vec[float] = vec[float]()  # the rank, in rows of kind wait and rank,
        self.ties: vec[float] = vec[float]()  # and what breaks equal ones
        self.others: vec[i32] = vec[i32]()
        self.timer_ends: vec[i32] = vec[i32]()  # where the row's timers end in timers_s
        self.timers_s: vec[float] = vec[float]()

    def __len__(self) -> int:
        return len(self.times)

    def add(self, time_s: float, decision: Decision) -> None:
        self.gpus = append(self.gpus, i32(decision.gpus))
        self.groups = append(self.groups, i32(decision.group))
        self.demand_kinds = append(self.demand_kinds, i32(decision.demand_kind))
        for timer_s in decision.timers_s:
            self.timers_s = append(self.timers_s, timer_s)
        self._row(time_s, decision.kind, decision.job, decision.tier, decision.value, 0.0, decision.other)

    def add_rank(self, time_s: float, kind: i64, job: Job, rank: float, tie: float) -> None:
        """From now on the job waits under that rank."""
        self.gpus = append(self.gpus, i32(job.gpus))
        self.groups = append(self.groups, i32(job.group))
        self.demand_kinds = append(self.demand_kinds, i32(job.kind))
        self._row(time_s, kind, job.index, -1, rank, tie, -1)

    def _row(self, time_s: float, kind: i64, job: i64, tier: i64, value: float, tie: float, other: i64) -> None:
        self.times = append(self.times, time_s)
        self.kinds = append(self.kinds, u8(kind))
        self.jobs = append(self.jobs, i32(job))
        self.tiers = append(self.tiers, i16(tier))
        self.values = append(self.values, value)
        self.ties = append(self.ties, tie)
        self.others = append(self.others, i32(other))
        self.timer_ends = append(self.timer_ends, i32(len(self.timers_s)))


picklable(DecisionLog)


class EventLog:
    """One row per event. Rows of kind start and migrate also say where: a run of parts."""

    __slots__ = (
        "decisions",
        "jobs",
        "kinds",
        "link_loads",
        "link_numbers",
        "link_times",
        "machines",
        "part_ends",
        "part_gpus",
        "part_machines",
        "reasons",
        "slot_counts",
        "slot_fragmentation",
        "slot_free",
        "slot_times",
        "tiers",
        "times",
    )

    def __init__(self) -> None:
        self.times: vec[float] = vec[float]()
        self.kinds: vec[u8] = vec[u8]()
        self.jobs: vec[i32] = vec[i32]()  # job index, or -1
        self.machines: vec[i32] = vec[i32]()  # machine that failed or was repaired, or -1
        self.tiers: vec[i16] = vec[i16]()  # of the new allocation, or -1
        self.part_ends: vec[i32] = vec[i32]()  # where the row's parts end in the two below
        self.part_machines: vec[i32] = vec[i32]()
        self.part_gpus: vec[i32] = vec[i32]()
        self.decisions: DecisionLog = DecisionLog()
        self.reasons: dict[int, str] = {}  # by row: why an action failed, in the backend's words
        # Loads of links, rows of their own: most runs have none, some have many.
        self.link_times: vec[float] = vec[float]()
        self.link_numbers: vec[i32] = vec[i32]()
        self.link_loads: vec[float] = vec[float]()
        # Samples of what could start: the counts of one sample are a run by size, then by tier.
        self.slot_times: vec[float] = vec[float]()
        self.slot_free: vec[i32] = vec[i32]()
        self.slot_fragmentation: vec[float] = vec[float]()
        self.slot_counts: vec[i32] = vec[i32]()

    def __len__(self) -> int:
        return len(self.times)

    def add(self, time_s: float, kind: i64, job: i64, machine: i64, allocation: Allocation | None) -> None:
        self.times = append(self.times, time_s)
        self.kinds = append(self.kinds, u8(kind))
        self.jobs = append(self.jobs, i32(job))
        self.machines = append(self.machines, i32(machine))
        tier: i64 = -1
        if allocation is not None:
            tier = allocation.tier
            for part in range(len(allocation.machines)):
                self.part_machines = append(self.part_machines, i32(allocation.machines[part]))
                self.part_gpus = append(self.part_gpus, i32(allocation.gpus[part]))
        self.tiers = append(self.tiers, i16(tier))
        self.part_ends = append(self.part_ends, i32(len(self.part_machines)))

    def add_failure(self, time_s: float, kind: i64, job: i64, reason: str) -> None:
        """An action on the job failed."""
        self.reasons[len(self.times)] = reason
        self.add(time_s, kind, job, -1, None)

    def add_load(self, time_s: float, link: i64, load: float) -> None:
        """From now on the link is busy for that share of the time."""
        self.link_times = append(self.link_times, time_s)
        self.link_numbers = append(self.link_numbers, i32(link))
        self.link_loads = append(self.link_loads, load)

    def add_slots(self, time_s: float, free_gpus: i64, fragmentation: float, counts: vec[i64]) -> None:
        """So many gangs of each size could start now, tier by tier."""
        self.slot_times = append(self.slot_times, time_s)
        self.slot_free = append(self.slot_free, i32(free_gpus))
        self.slot_fragmentation = append(self.slot_fragmentation, fragmentation)
        for count in counts:
            self.slot_counts = append(self.slot_counts, i32(count))

    def parts(self, row: i64) -> list[tuple[int, int]]:
        """(machine, GPUs) pairs of one row."""
        first = int(self.part_ends[row - 1]) if row > 0 else 0
        return [
            (int(self.part_machines[i]), int(self.part_gpus[i])) for i in range(first, int(self.part_ends[row]))
        ]


picklable(EventLog)
