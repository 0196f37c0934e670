"""Who is due how many GPUs now: guarantees first, then the surplus by priority and weight."""

from __future__ import annotations

from dally.model import INFINITY
from dally.pickles import picklable
from dally.policies.gate.tenants import Tenant, is_present
from dally.quotas.tree import QueueNode

ZEAL = 8.0  # how hard past use counts: a tenth too much halves a weight
FIRST_RUNS = 4.0  # min_runtimes, and
LONG_S = 30 * 86400.0  # half-lives above this, or none at all, count as this there
FIRST_PART = 0.05  # of a half-life: what counts as used from the start
MOST_PAID_BACK = 3.0  # times its weight, at most, for one that used little; at least a third for one that used much


class FairShares:
    """By tenant, GPUs of one type that are due to it of what it holds and asks for, and how many are guaranteed."""

    def __init__(self, root: Tenant, count: int, kind: int, gpus: int, part: float) -> None:
        """`part`: of guarantees over all types, those of this one."""
        self.due: list[float] = [0.0] * count
        self.guaranteed: list[float] = [0.0] * count
        self._kind: int = kind
        self._gpus: float = float(gpus)
        self._part: float = part
        self._wants: list[float] = [0.0] * count
        self._floors: list[float] = [0.0] * count
        self._count_up(root)
        floors = 0.0
        for child in root.children:
            floors += self._floors[child.number]
        self._hand_down(root, float(gpus), min(float(gpus), floors))

    def _count_up(self, tenant: Tenant) -> None:
        """What it holds and could use within its limits, and what of that is guaranteed to it."""
        wants = 0.0
        below = 0.0
        for child in tenant.children:
            self._count_up(child)
            wants += self._wants[child.number]
            below += self._floors[child.number]
        held = float(tenant.held[self._kind])
        if not tenant.children:
            wants = float(tenant.demanded[self._kind]) + held
        wants = min(wants, held + max(0.0, tenant.room(self._kind)))
        self._wants[tenant.number] = wants
        self._floors[tenant.number] = min(wants, max(tenant.guarantee(self._kind, self._part), below))

    def _hand_down(self, tenant: Tenant, due: float, guaranteed: float) -> None:
        self.due[tenant.number] = due
        self.guaranteed[tenant.number] = guaranteed
        if not tenant.children:
            return
        children = [child for child in tenant.children if self._wants[child.number] > 0.0]  # others are due nothing
        weights = shrunk_weights(children, self._gpus)
        floors = [self._floors[child.number] for child in children]
        caps = [self._wants[child.number] for child in children]
        levels = [child.priority for child in children]
        all_due = fill(due, floors, caps, weights, levels)
        all_guaranteed = fill(guaranteed, floors, caps, weights, levels)
        for place, child in enumerate(children):
            self._hand_down(child, all_due[place], min(all_due[place], all_guaranteed[place]))


def shrunk_weights(tenants: list[Tenant], gpus: float) -> list[float]:
    """Their weights: less for those that used more than their part of what all have used, more for the others.

    Only those count that have jobs: the absent are owed nothing. From the start it is as if they had used their
    parts of so many GPUs for a while: what the first minutes bring says little.
    """
    weight = 0.0
    used = 0.0
    for tenant in tenants:
        if is_present(tenant):
            weight += tenant.weight
            used += tenant.used_gpu_s
    result: list[float] = []
    for tenant in tenants:
        factor = 1.0
        if weight > 0.0 and tenant.weight > 0.0:
            part = tenant.weight / weight
            half_life_s = min(tenant.half_life_s, LONG_S)
            first = part * gpus * max(FIRST_RUNS * tenant.min_runtime_s, FIRST_PART * half_life_s)
            had = tenant.used_gpu_s + first
            ratio = (used * part + first) / had if had > 0.0 else 1.0
            factor = min(MOST_PAID_BACK, max(1.0 / MOST_PAID_BACK, ratio**ZEAL))
        result.append(tenant.weight * factor)
    return result


def fill(
    total: float, floors: list[float], caps: list[float], weights: list[float], levels: list[float]
) -> list[float]:
    """`total` shared out: the floors, then the rest by weight up to the caps, the highest level first."""
    base = sum(floors)
    if base >= total:
        return [floor * total / base if base > 0.0 else 0.0 for floor in floors]
    result = list(floors)
    left = total - base
    for level in sorted(set(levels), reverse=True):
        open_ = [i for i in range(len(result)) if levels[i] == level and result[i] < caps[i] and weights[i] > 0.0]
        while open_ and left > 1e-9:
            # The surplus level that fills the next cap, or uses up what is left.
            per_weight = left / sum([weights[i] for i in open_])
            full = [i for i in open_ if caps[i] - result[i] <= per_weight * weights[i]]
            for i in full or open_:
                part = caps[i] - result[i] if full else per_weight * weights[i]
                result[i] += part
                left -= part
            if not full:
                left = 0.0
            open_ = [i for i in open_ if i not in full]
    return result


def standing(tenant: Tenant) -> tuple[tuple[float, float, bool, int], ...]:
    """Its place in the fair order: at every branch higher priorities first, then who used least for its weight."""
    return tuple([_need(above) for above in reversed(tenant.up())])


def _need(tenant: Tenant) -> tuple[float, float, bool, int]:
    used = tenant.used_gpu_s / tenant.weight if tenant.weight > 0.0 else INFINITY
    return -tenant.priority, used, tenant.last, tenant.number


picklable(FairShares, Tenant(0, QueueNode(""), None, [""]), 1, 0, 0, 0.0)
