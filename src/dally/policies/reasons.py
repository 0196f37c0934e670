"""Why a policy did what it did, as records that say only what changed."""

from __future__ import annotations

from librt.vecs import vec
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
    Decision,
    Job,
)
from dally.pickles import picklable
from dally.policies.queue import DemandClass


class Reasons:
    """What a policy tells of its decisions; the engine collects it after every pass.

    Who began to wait, under which rank, and how ranks moved is recorded by the engine itself.
    """

    __slots__ = ("_first", "_first_s", "_round_s", "_rows")

    def __init__(self) -> None:
        self._rows: list[Decision] = []
        self._first: i64 = -1  # the first in line as last told,
        self._first_s: float = INFINITY  # and from when on GPUs are kept for it
        self._round_s: float = NEVER

    def collect(self) -> list[Decision]:
        """What was told since this was last asked."""
        found = self._rows
        if found:
            self._rows = []
        return found

    def extend(self, rows: list[Decision]) -> None:
        """What others recorded, too."""
        self._rows += rows

    def accepted(self, job: Job, tier: i64, patience_s: float) -> None:
        """The job takes that tier, for which it had to wait so long."""
        told = Decision(ACCEPT, job)
        told.tier = tier
        told.value = patience_s
        self._rows.append(told)

    def lost(self, loser: Job, winner: Job) -> None:
        """The loser's GPUs go to the winner."""
        told = Decision(LOSE, loser)
        told.other = winner.index
        self._rows.append(told)

    def lost_at(
        self, loser: Job, winner: Job, winner_rank: float, loser_rank: float, restart_s: float, at_risk_s: float
    ) -> None:
        """The same, with both ranks and what the loser pays: its restart, and its work since its checkpoint."""
        told = Decision(LOSE, loser)
        told.other = winner.index
        told.timers_s = vec[float]([winner_rank, loser_rank, restart_s, at_risk_s])
        self._rows.append(told)

    def moved(self, job: Job, for_whom: Job | None, cost_s: float, saved_s: float) -> None:
        """A running job moves, out of somebody's way or to a faster place; what that costs and saves it."""
        told = Decision(MOVE, job)
        if for_whom is not None:
            told.other = for_whom.index
        told.timers_s = vec[float]([cost_s, saved_s])
        self._rows.append(told)

    def gave_up(self, job: Job) -> None:
        """The job's lease ended, and it wants its GPUs back no more: they are farther apart than it takes now."""
        self._rows.append(Decision(LOSE, job))

    def offered(self, group: DemandClass, demand_kind: i64, tier: i64, timers_s: vec[float]) -> None:
        """The closest tier with room for such gangs, or -1; how long they hold out before each tier above it."""
        if tier == group.told_tier and same(timers_s, group.told_timers_s):
            return
        group.told_tier = tier
        group.told_timers_s = timers_s
        told = Decision(OFFER, None, group.gpus, group.group, demand_kind)
        told.tier = tier
        told.timers_s = timers_s
        self._rows.append(told)

    def offered_to(self, job: Job, group: DemandClass, tier: i64, timers_s: vec[float]) -> None:
        """The same for one job that has a clock of its own."""
        if tier == group.told_tier and job.index == group.told_job and same(timers_s, group.told_timers_s):
            return
        group.told_tier = tier
        group.told_job = job.index
        group.told_timers_s = timers_s
        told = Decision(OFFER, job)
        told.tier = tier
        told.timers_s = timers_s
        self._rows.append(told)

    def blocks(self, job: Job) -> None:
        """The job is first in line and does not fit: nobody behind it is offered anything."""
        if job.index != self._first:
            self._first = job.index
            self._rows.append(Decision(HEAD, job))

    def reserved(self, job: Job | None, from_s: float) -> None:
        """GPUs are kept for the job from then on; infinity: as soon as there are enough."""
        first = job.index if job is not None else -1
        if first != self._first or from_s != self._first_s:
            self._first = first
            self._first_s = from_s
            told = Decision(RESERVE, job)
            told.value = from_s
            self._rows.append(told)

    def next_round(self, at_s: float) -> None:
        """GPUs are shared out next at that moment."""
        if at_s != self._round_s:
            self._round_s = at_s
            told = Decision(ROUND, None)
            told.value = at_s
            self._rows.append(told)

    def deferred(self, job: Job) -> None:
        """The job is not offered anything until it is admitted."""
        self._rows.append(Decision(DEFER, job))

    def admitted(self, job: Job) -> None:
        """From now on the job is offered GPUs."""
        self._rows.append(Decision(ADMIT, job))


picklable(Reasons)


def same(one: vec[float], other: vec[float]) -> bool:
    """Whether these are the same numbers."""
    equal = len(one) == len(other)
    for place in range(len(one)):
        equal = equal and one[place] == other[place]
    return equal
