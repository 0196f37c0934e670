"""How the queues of teams stand after a cycle: guarantee, GPUs held and due, past use, what is borrowed."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

from dally.policies.base import Policy
from dally.policies.gate.gate_ledger import GateLedger
from dally.policies.gate.tenants import Tenant
from dally.quotas.tree import ANY_TYPE

HOUR_S = 3600.0


@dataclass(frozen=True)
class TeamStatus:
    """One queue. GPUs of all types together."""

    path: str
    depth: int  # 0: below no other
    guarantee: float
    limit: float | None  # None: none is stated over all types
    held: int
    due: float
    waiting_gpus: int
    used_gpu_h: float  # past use, decayed with the half-life
    weight: float
    leaf: bool

    @property
    def borrowed(self) -> float:
        """GPUs that it holds above its guarantee."""
        return max(0.0, self.held - self.guarantee)

    @property
    def lent(self) -> float:
        """GPUs of its guarantee that it does not hold."""
        return max(0.0, self.guarantee - self.held)


def teams_of(policy: Policy) -> tuple[TeamStatus, ...]:
    """The queues behind the gate, parents before children; none without a gate."""
    if not isinstance(policy, GateLedger):
        return ()
    order: list[Tenant] = []
    open_ones = list(reversed(policy.tenants.root.children))
    while open_ones:
        tenant = open_ones.pop()
        order.append(tenant)
        open_ones += reversed(tenant.children)
    teams = [_team(tenant) for tenant in order]
    other = policy.tenants.other.path  # of jobs that no queue takes: shown if there are any
    return tuple(team for team in teams if team.path != other or team.held or team.waiting_gpus)


def _team(tenant: Tenant) -> TeamStatus:
    limit = float(tenant.limit)
    quotas = tenant.written.quotas
    if isinf(limit) and quotas and ANY_TYPE not in quotas:
        limit = sum(quota.limit for quota in quotas.values())  # a GPU has one type
    return TeamStatus(
        path=tenant.path,
        depth=int(tenant.depth) - 1,
        guarantee=sum(quota.guarantee for quota in quotas.values()),
        limit=None if isinf(limit) else limit,
        held=int(tenant.held_in_all),
        due=float(tenant.due),
        waiting_gpus=_waiting(tenant),
        used_gpu_h=float(tenant.used_gpu_s) / HOUR_S,
        weight=float(tenant.weight),
        leaf=not tenant.children,
    )


def _waiting(tenant: Tenant) -> int:
    own = sum(int(gpus) for gpus in tenant.demanded)
    return own + sum(_waiting(child) for child in tenant.children)
