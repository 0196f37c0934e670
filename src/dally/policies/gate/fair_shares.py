"""Who is due how many GPUs now: guarantees first, then the surplus by priority and weight."""

from __future__ import annotations

import math
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.model import INFINITY
from dally.pickles import picklable
from dally.policies.gate.tenants import Tenant, is_present
from dally.quotas.tree import QueueNode

ZEAL: Final = 8.0  # how hard past use counts: a tenth too much halves a weight
FIRST_RUNS: Final = 4.0  # min_runtimes, and
LONG_S: Final = 30 * 86400.0  # half-lives above this, or none at all, count as this there
FIRST_PART: Final = 0.05  # of a half-life: what counts as used from the start
MOST_PAID_BACK: Final = 3.0  # times its weight, for one that used little; at least a third for one that used much


class FairShares:
    """By tenant, GPUs of one type that are due to it of what it holds and asks for, and how many are guaranteed."""

    def __init__(self, root: Tenant, count: int, kind: int, gpus: int, part: float) -> None:
        """`part`: of guarantees over all types, those of this one."""
        self.due: vec[float] = vec[float]([0.0] * count)
        self.guaranteed: vec[float] = vec[float]([0.0] * count)
        self._kind: i64 = kind
        self._gpus: float = float(gpus)
        self._part: float = part
        self._demands: vec[float] = vec[float]([0.0] * count)
        self._floors: vec[float] = vec[float]([0.0] * count)
        self._count_up(root)
        floors = 0.0
        for child in root.children:
            floors += self._floors[child.number]
        self._hand_down(root, float(gpus), min(float(gpus), floors))

    def _count_up(self, tenant: Tenant) -> None:
        """What it holds and could use within its limits, and what of that is guaranteed to it."""
        demand = 0.0
        below = 0.0
        for child in tenant.children:
            self._count_up(child)
            demand += self._demands[child.number]
            below += self._floors[child.number]
        held = float(tenant.held[self._kind])
        if not tenant.children:
            demand = float(tenant.demanded[self._kind]) + held
        demand = min(demand, held + max(0.0, tenant.room(self._kind)))
        self._demands[tenant.number] = demand
        self._floors[tenant.number] = min(demand, max(tenant.guarantee(self._kind, self._part), below))

    def _hand_down(self, tenant: Tenant, due: float, guaranteed: float) -> None:
        self.due[tenant.number] = due
        self.guaranteed[tenant.number] = guaranteed
        if not tenant.children:
            return
        children = [
            child for child in tenant.children if self._demands[child.number] > 0.0
        ]  # others are due nothing
        count = len(children)
        floors: vec[float] = vec[float]([0.0] * count)
        caps: vec[float] = vec[float]([0.0] * count)
        levels: vec[float] = vec[float]([0.0] * count)
        for place in range(count):
            child = children[place]
            floors[place] = self._floors[child.number]
            caps[place] = self._demands[child.number]
            levels[place] = child.priority
        weights = shrunk_weights(children, self._gpus)
        all_due = fill(due, floors, caps, weights, levels)
        all_guaranteed = fill(guaranteed, floors, caps, weights, levels) if guaranteed > 0.0 else all_due
        for place in range(count):
            sure = min(all_due[place], all_guaranteed[place]) if guaranteed > 0.0 else 0.0
            self._hand_down(children[place], all_due[place], sure)


def shrunk_weights(tenants: list[Tenant], gpus: float) -> vec[float]:
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
    result: vec[float] = vec[float]([0.0] * len(tenants))
    for place in range(len(tenants)):
        tenant = tenants[place]
        factor = 1.0
        if weight > 0.0 and tenant.weight > 0.0:
            part = tenant.weight / weight
            half_life_s = min(tenant.half_life_s, LONG_S)
            first = part * gpus * max(FIRST_RUNS * tenant.min_runtime_s, FIRST_PART * half_life_s)
            had = tenant.used_gpu_s + first
            ratio = (used * part + first) / had if had > 0.0 else 1.0
            factor = min(MOST_PAID_BACK, max(1.0 / MOST_PAID_BACK, math.pow(ratio, ZEAL)))
        result[place] = tenant.weight * factor
    return result


def fill(total: float, floors: vec[float], caps: vec[float], weights: vec[float], levels: vec[float]) -> vec[float]:
    """`total` shared out: the floors, then the rest by weight up to the caps, the highest level first."""
    base = 0.0
    for floor in floors:
        base += floor
    result: vec[float] = vec[float]([0.0] * len(floors))
    if base >= total:
        for i in range(len(floors)):
            result[i] = floors[i] * total / base if base > 0.0 else 0.0
        return result
    for i in range(len(floors)):
        result[i] = floors[i]
    left = total - base
    for level in _falling(levels):
        open_: vec[i64] = vec[i64]()
        for i in range(len(result)):
            if levels[i] == level and result[i] < caps[i] and weights[i] > 0.0:
                open_ = append(open_, i64(i))
        while len(open_) > 0 and left > 1e-9:
            left, open_ = _fill_evenly(left, open_, result, caps, weights)
    return result


def _fill_evenly(
    left: float, open_: vec[i64], result: vec[float], caps: vec[float], weights: vec[float]
) -> tuple[float, vec[i64]]:
    """By weight up to the surplus that fills the next cap, or uses up what is left: that, and whose cap is open."""
    weight = 0.0
    for i in open_:
        weight += weights[i]
    per_weight = left / weight
    not_full: vec[i64] = vec[i64]()
    for i in open_:
        part = caps[i] - result[i]
        if part <= per_weight * weights[i]:
            result[i] += part
            left -= part
        else:
            not_full = append(not_full, i)
    if len(not_full) == len(open_):
        for i in open_:
            result[i] += per_weight * weights[i]
        left = 0.0
    return left, not_full


def _falling(levels: vec[float]) -> list[float]:
    """Each of them once, the highest first."""
    for level in levels:
        if level != levels[0]:
            return sorted({float(each) for each in levels}, reverse=True)
    return [levels[0]] if len(levels) > 0 else []


def standing(tenant: Tenant) -> tuple[tuple[float, float, bool, int], ...]:
    """Its place in the fair order: at every branch higher priorities first, then who used least for its weight."""
    return tuple([_need(above) for above in reversed(tenant.up())])


def _need(tenant: Tenant) -> tuple[float, float, bool, int]:
    used = tenant.used_gpu_s / tenant.weight if tenant.weight > 0.0 else INFINITY
    return -tenant.priority, used, tenant.last, tenant.number


def comes_before(one: Tenant, other: Tenant) -> bool:
    """Whether it stands before the other, where neither is above the other: `standing` without its tuples."""
    while one.depth > other.depth and one.parent is not None:
        one = one.parent
    while other.depth > one.depth and other.parent is not None:
        other = other.parent
    while one.parent is not None and other.parent is not None and one.parent is not other.parent:
        one, other = one.parent, other.parent
    if one.priority != other.priority:
        return one.priority > other.priority
    used = one.used_gpu_s / one.weight if one.weight > 0.0 else INFINITY
    used_by_other = other.used_gpu_s / other.weight if other.weight > 0.0 else INFINITY
    if used != used_by_other:
        return used < used_by_other
    return other.last if one.last != other.last else one.number < other.number


picklable(FairShares, Tenant(0, QueueNode(""), None, [""]), 1, 0, 0, 0.0)
