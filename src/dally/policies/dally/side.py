"""What the policy keeps apart for each of those that share the machines: no job is stopped for another tenant's."""

from __future__ import annotations

from dally.model import INFINITY
from dally.pickles import picklable
from dally.policies.dally.churn import Churn
from dally.policies.dally.idle_credit import IdleCredit
from dally.policies.dally.ledger import Ledger
from dally.policies.dally.limits import Limits
from dally.policies.dally.movable import Movable
from dally.policies.dally.probes import Probes
from dally.policies.dally.reserved_domain import ReservedDomain
from dally.policies.dally.starvation import StarvationBound


class Side:
    """One tenant's running jobs, those of its waiting ones whose patience ends, idle GPUs, and its latest pass."""

    __slots__ = ("credit", "due_s", "ledger", "movable", "probes", "reserved", "seen", "shown", "starvation")

    def __init__(self, limits: Limits, churn: Churn, protected: dict[int, tuple[int, float]]) -> None:
        self.ledger: Ledger = Ledger()
        self.movable: Movable = Movable(churn, self.ledger)
        self.reserved: ReservedDomain = ReservedDomain()
        self.starvation: StarvationBound = StarvationBound(limits, protected)
        self.credit: IdleCredit = IdleCredit()
        self.probes: Probes = Probes(limits)
        self.seen: int = 0  # changes that had happened by its latest pass
        self.shown: float = INFINITY  # which jobs that saw: not always all
        self.due_s: float = INFINITY  # when the next is due even if nothing happens


picklable(Side, Limits(), Churn(Limits()), {})
