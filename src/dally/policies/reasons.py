"""Why a policy did what it did, as records that say only what changed."""

from __future__ import annotations

from typing import Final, NamedTuple

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.model import (
    ACCEPT,
    ADMIT,
    DEFER,
    HEAD,
    INFINITY,
    LOSE,
    MOVE,
    NEVER,
    OFFER,
    RESERVE,
    ROUND,
    WAITING,
    Decision,
    Job,
)
from dally.pickles import picklable
from dally.policies.queue import DemandClass

RESERVED: Final = "the GPUs that are reserved for it"
ENDS: Final = "running jobs end or are preempted"
NO_HEAD: Final = (-1, INFINITY, False)


class Reason(NamedTuple):
    """Why a job waits: for what, until when as far as that is known, and what would change it."""

    waits_for: str
    until_s: float = INFINITY  # infinity: nothing but what would change it ends the wait
    changed_by: str = ENDS


class Reasons:
    """A policy's record of its decisions; the engine collects it after every pass.

    Which jobs began to wait, under which rank, and how ranks moved is recorded by the engine itself.
    """

    __slots__ = ("_deferred", "_first", "_offers", "_round_s", "_rows", "tenant")

    def __init__(self) -> None:
        self._rows: list[Decision] = []
        self.tenant: i64 = 0  # in whose turn things are recorded (policies/gate)
        # By tenant the first job as last recorded, from when on GPUs are reserved for it, or whether it blocks.
        self._first: dict[int, tuple[int, float, bool]] = {}
        self._round_s: float = NEVER
        self._offers: dict[int, DemandClass] = {}  # by number of the class, where the latest offer is recorded
        self._deferred: dict[int, bool] = {}  # jobs that are not offered anything yet

    def collect(self) -> list[Decision]:
        """What was recorded since the last call."""
        rows = self._rows
        if rows:
            self._rows = []
        return rows

    def extend(self, rows: list[Decision]) -> None:
        """What others recorded, too."""
        self._rows += rows

    def accepted(self, job: Job, tier: i64, patience_s: float) -> None:
        """The job takes that tier, for which it had to wait so long."""
        row = Decision(ACCEPT, job)
        row.tier = tier
        row.value = patience_s
        self._rows.append(row)

    def lost(self, loser: Job, winner: Job) -> None:
        """The loser's GPUs go to the winner."""
        row = Decision(LOSE, loser)
        row.other = winner.index
        self._rows.append(row)

    def lost_at(
        self,
        loser: Job,
        winner: Job,
        winner_rank: float,
        loser_rank: float,
        restart_s: float,
        at_risk_s: float,
        idle_gpu_s: float = 0.0,
    ) -> None:
        """The same, with both ranks and what the loser pays: its restart, and its work since its checkpoint.

        `idle_gpu_s`: where a domain is drained whatever the ranks, what stood idle beside the winner.
        """
        row = Decision(LOSE, loser)
        row.other = winner.index
        row.timers_s = vec[float]([winner_rank, loser_rank, restart_s, at_risk_s])
        if idle_gpu_s > 0.0:
            row.timers_s = append(row.timers_s, idle_gpu_s)
        self._rows.append(row)

    def moved(self, job: Job, winner: Job | None, cost_s: float, saved_s: float) -> None:
        """A running job moves, out of somebody's way or to a faster place; what that costs and saves it."""
        row = Decision(MOVE, job)
        if winner is not None:
            row.other = winner.index
        row.timers_s = vec[float]([cost_s, saved_s])
        self._rows.append(row)

    def gave_up(self, job: Job) -> None:
        """The job's lease ended, and it wants its GPUs back no more: they are farther apart than it takes now."""
        self._rows.append(Decision(LOSE, job))

    def placed_anew(self, job: Job) -> None:
        """The job's lease ended, and it goes where it fits better: it makes way for itself."""
        self.lost(job, job)

    def offered(self, group: DemandClass, demand_kind: i64, tier: i64, timers_s: vec[float]) -> None:
        """The closest tier with room for such gangs, or -1; how long they decline each tier above the machine."""
        if tier == group.offered_tier and same(timers_s, group.offered_timers_s):
            return
        self._offers[int(group.number)] = group
        group.offered_tier = tier
        group.offered_timers_s = timers_s
        row = Decision(OFFER, None, group.gpus, group.group, demand_kind)
        row.tier = tier
        row.timers_s = timers_s
        self._rows.append(row)

    def offered_to(self, job: Job, group: DemandClass, tier: i64, timers_s: vec[float], slack: float = 0.0) -> None:
        """The same for one job with delays of its own; `slack`: the share by which the record may be off."""
        known = tier == group.offered_tier and job.index == group.offered_job
        if known and same(timers_s, group.offered_timers_s, slack):
            return
        self._offers[int(group.number)] = group
        group.offered_tier = tier
        group.offered_job = job.index
        group.offered_timers_s = timers_s
        row = Decision(OFFER, job)
        row.tier = tier
        row.timers_s = timers_s
        self._rows.append(row)

    def blocks(self, job: Job) -> None:
        """The job is first in the queue and does not fit: nobody behind it is offered anything."""
        if int(job.index) != self._first.get(int(self.tenant), NO_HEAD)[0]:
            self._first[int(self.tenant)] = (int(job.index), INFINITY, True)
            self._rows.append(Decision(HEAD, job))

    def reserved(self, job: Job | None, from_s: float) -> None:
        """GPUs are kept for the job from then on; infinity: as soon as there are enough."""
        first = (int(job.index) if job is not None else -1, from_s, False)
        if first != self._first.get(int(self.tenant), NO_HEAD):
            self._first[int(self.tenant)] = first
            row = Decision(RESERVE, job)
            row.value = from_s
            self._rows.append(row)

    def next_round(self, at_s: float) -> None:
        """GPUs are shared out next at that moment."""
        if at_s != self._round_s:
            self._round_s = at_s
            row = Decision(ROUND, None)
            row.value = at_s
            self._rows.append(row)

    def deferred(self, job: Job) -> None:
        """The job is not offered anything until it is admitted."""
        self._deferred[int(job.index)] = True
        self._rows.append(Decision(DEFER, job))

    def admitted(self, job: Job) -> None:
        """From now on the job is offered GPUs."""
        self._deferred.pop(int(job.index), None)
        self._rows.append(Decision(ADMIT, job))

    def why(self, job: Job) -> Reason:
        """What the job waits for, from the latest records."""
        if job.status != WAITING:
            return Reason("nothing: it does not wait", NEVER, "")
        if int(job.index) in self._deferred:
            return Reason("the policy to admit it", INFINITY, "jobs before it leave")
        first, from_s, blocks = self._first.get(int(job.tenant), NO_HEAD)
        if job.index == first:
            return Reason("enough free GPUs, and blocks the others" if blocks else RESERVED, from_s)
        group = self._offers.get(int(job.slot_class))
        if group is not None and group.offered_job in (-1, job.index):
            return _declined(job, group)
        if first >= 0 and blocks:
            return Reason("the first in the queue to start, which does not fit")
        if self._round_s >= 0.0:
            return Reason("the next round", self._round_s)
        return Reason("the jobs ahead of it, and enough free GPUs")


picklable(Reasons)


def _declined(job: Job, group: DemandClass) -> Reason:
    """What a job waits for that was offered GPUs of some tier, or of none."""
    tier = group.offered_tier
    if tier < 0:
        return Reason("enough free GPUs in one place")
    delay_s = group.offered_timers_s[tier - 1] if tier > 0 else 0.0
    until_s = job.delay_until_s if job.delay_until_s >= 0.0 else job.lost_s + delay_s
    if until_s <= job.lost_s:
        return Reason(f"the jobs ahead of it; then GPUs of one domain of tier {int(tier)}")
    return Reason(f"closer GPUs than one domain of tier {int(tier)}", until_s, "closer GPUs become free")


def same(one: vec[float], other: vec[float], slack: float = 0.0) -> bool:
    """Whether these are the same numbers, but for so small a share of them."""
    equal = len(one) == len(other)
    for place in range(len(one)):
        equal = equal and (one[place] == other[place] or abs(one[place] - other[place]) < slack * other[place])
    return equal
