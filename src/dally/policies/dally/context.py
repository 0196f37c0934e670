"""What the parts of the policy share in a run."""

from __future__ import annotations

from typing import Final

from dally.model import Allocation, Costs, Job, Migrate, Preempt, Resize
from dally.perf.base import SpeedModel
from dally.pickles import picklable
from dally.policies.dally.churn import Churn
from dally.policies.dally.ledger import Ledger
from dally.policies.dally.limits import Limits
from dally.policies.dally.movable import Movable, Move
from dally.policies.dally.pricing import Prices
from dally.policies.dally.reserved_domain import ReservedDomain
from dally.policies.dally.retries import Retries
from dally.policies.ordering.gittins import GittinsOrder
from dally.policies.prediction.hazard import HazardTable
from dally.policies.reasons import Reasons
from dally.policies.view import View


class Context:
    """Limits, ranks, prices, the ledger of running jobs, and where decisions are recorded."""

    __slots__ = ("churn", "ledger", "limits", "movable", "prices", "ranks", "reasons", "reserved", "retries")

    def __init__(self, limits: Limits, ranks: GittinsOrder, view: View) -> None:
        self.limits: Limits = limits
        self.ranks: GittinsOrder = ranks
        self.prices: Prices = Prices(view, limits)
        self.ledger: Ledger = Ledger()
        self.churn: Churn = Churn(limits)
        self.movable: Movable = Movable(self.churn, self.ledger)
        self.retries: Retries = Retries(limits.wake_s)
        self.reserved: ReservedDomain = ReservedDomain()
        self.reasons: Reasons = Reasons()

    def hold_s(self, job: Job) -> float:
        """Seconds for which the job keeps its GPUs at least."""
        limits = self.limits
        ages = self.ranks.ages
        alternates = ages is not None and ages.alternates(job)
        hold = max(limits.hold, limits.wide_hold) if alternates else limits.hold
        return max(limits.least_hold_s, hold * self.prices.restart_s(job))

    def migrate(self, move: Move, winner: Job | None, now: float) -> Migrate:
        """The move as an action, charged and recorded."""
        self.churn.spend(move.job, move.cost_s)
        self.churn.moved(move.job, now)
        self.reasons.moved(move.job, winner, self.prices.restart_s(move.job), move.saved_s)
        return Migrate(move.job, move.allocation)

    def resize(
        self, job: Job, allocation: Allocation, winner: Job | None, cost_s: float, saved_s: float, now: float
    ) -> Resize:
        """A change of size as an action, charged and recorded."""
        self.churn.spend_gpu_s(cost_s * float(allocation.total()))
        self.churn.moved(job, now)
        self.reasons.moved(job, winner, cost_s, saved_s)
        return Resize(job, allocation)

    def preempt(self, loser: Job, winner: Job, now: float, idle_gpu_s: float = 0.0) -> Preempt:
        """A preemption as an action, charged and recorded; `idle_gpu_s`: what stood idle and pays for it."""
        restart_s = self.prices.restart_s(loser)
        at_risk_s = self.prices.at_risk_s(loser, now)
        self.churn.spend(loser, restart_s + at_risk_s)
        ranks = (self.ranks.key(winner, now), self.ranks.key(loser, now))
        self.reasons.lost_at(loser, winner, ranks[0], ranks[1], restart_s, at_risk_s, idle_gpu_s)
        return Preempt(loser)


BLANK: Final = (Limits(), GittinsOrder(HazardTable()), View(SpeedModel(), Costs()))
picklable(Context, *BLANK)
