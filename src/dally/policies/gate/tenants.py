"""Tenants: queues at work. What each holds, asks for, has used and may still have."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import Any, Final

from librt.vecs import vec
from mypy_extensions import i64

from dally.model import INFINITY, NEVER, Job
from dally.pickles import picklable
from dally.quotas.tree import ANY_TYPE, QueueNode, QueueTree, Quota

NOTHING: Final = Quota()
HOUR_S: Final = 3600.0
LN_2: Final = log(2.0)
OTHER: Final = "other"  # the tenant of jobs that belong to no queue


class Tenant:
    """One queue, or one priority class of a queue: its books, by type of GPU."""

    def __init__(self, number: int, written: QueueNode, parent: Tenant | None, kinds: list[str]) -> None:
        self.number: int = number
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.written: QueueNode = written
        self.path: str = written.path
        self.parent: Tenant | None = parent
        self.children: list[Tenant] = []
        self.last: bool = False  # of equals among its siblings
        self.held: vec[i64] = vec[i64]([0] * len(kinds))  # GPUs its jobs run on
        self.demanded: vec[i64] = vec[i64]([0] * len(kinds))  # GPUs its waiting jobs want
        self.held_in_all: i64 = 0
        quotas = [written.quotas.get(kind, NOTHING) if kind else NOTHING for kind in kinds]
        over_all = written.quotas.get(ANY_TYPE, NOTHING)
        self.limits: vec[float] = vec[float]([quota.limit for quota in quotas])
        self.limit: float = over_all.limit  # over all types together, as the next ones
        self._guarantees: vec[float] = vec[float]([quota.guarantee for quota in quotas])
        self._guarantee: float = over_all.guarantee
        self._unlent: vec[float] = vec[float]([max(0.0, quota.guarantee - quota.lend_limit) for quota in quotas])
        self._unlent_in_all: float = max(0.0, over_all.guarantee - over_all.lend_limit)
        self._guaranteed: float = sum([quota.guarantee for quota in quotas], 0.0) + self._guarantee
        self.weight: float = written.weight
        self.priority: float = written.priority
        self.half_life_s: float = written.half_life_s
        self.min_runtime_s: float = written.min_runtime_s
        self.hold: bool = written.hold
        self.window_s: float = written.budget.window_s if written.budget is not None else INFINITY
        self.budget_gpu_s: float = written.budget.gpu_hours * HOUR_S if written.budget is not None else INFINITY
        self.used_gpu_s: float = 0.0  # past use, decayed
        self.gpu_s: float = 0.0  # the same, not decayed
        self.borrowed_gpu_s: float = 0.0  # the part of it above what is guaranteed
        self.spent_gpu_s: float = 0.0  # in the budget's present window
        self._window: int = -1
        self._now: float = -INFINITY
        self.due: float = 0.0  # GPUs, since
        self._due_s: float = 0.0  # then,
        self._due_gpu_s: float = 0.0  # and what it was due until then
        self._away_s: float = INFINITY  # from when on what adopted jobs had is not in these books yet

    def up(self) -> list[Tenant]:
        """Itself and those above it."""
        result = [self]
        above = self.parent
        while above is not None:
            result.append(above)
            above = above.parent
        return result

    def guarantee(self, kind: i64, part: float) -> float:
        """GPUs of a type it is guaranteed; of a guarantee over all types, that part of it."""
        return self._guarantees[kind] + self._guarantee * part

    def lends_all_but(self, kind: i64, part: float) -> float:
        """GPUs of its guarantee that nobody else may use, whether it does or not."""
        return self._unlent[kind] + part * self._unlent_in_all

    def is_limited(self) -> bool:
        """Whether it may not hold all GPUs, of a type or in all."""
        result = self.limit < INFINITY
        for limit in self.limits:
            result = result or limit < INFINITY
        return result

    def is_closed(self) -> bool:
        """Whether none of its jobs may start, whoever stops: it is on hold, or its budget is used up."""
        return self.hold or (self.window_s < INFINITY and self.budget_left_gpu_s() <= 0.0)

    def room(self, kind: i64) -> float:
        """GPUs of a type that its limits still let it have."""
        if self.is_closed():
            return 0.0
        return min(self.limits[kind] - float(self.held[kind]), self.limit - float(self.held_in_all))

    def hold_more(self, kind: i64, gpus: i64, now: float) -> None:
        """Its jobs were given so many GPUs of a type; below 0: they gave them back."""
        self.bring_up(now)
        self.held[kind] += gpus
        self.held_in_all += gpus

    def bring_up(self, now: float) -> None:
        """Integrate what it held since the last time."""
        passed_s = self.behind_s(now)
        if passed_s != 0.0:
            self.go_on(now, faded(passed_s, self.half_life_s))

    def behind_s(self, now: float) -> float:
        """For how long what it held is not in these books yet."""
        if self._now == -INFINITY:
            self._now = now
        return now - self._now

    def go_on(self, now: float, left: float) -> None:
        """Integrate what it held up to now; `left` is what is left of 1 since the last time."""
        passed_s = now - self._now
        held = float(self.held_in_all)
        if passed_s > 0.0:
            self.used_gpu_s *= left
            self._use(held, passed_s, left)
        if self.window_s < INFINITY:
            self._spend(held, self._now, now)
        self._now = now

    def _use(self, held: float, had_s: float, left: float) -> None:
        """So many GPUs, for the last `had_s` seconds, each faded since its own instant."""
        if held > 0.0:
            lasting_s = had_s
            if self.half_life_s < INFINITY:
                lasting_s = (1.0 - left) * self.half_life_s / LN_2
            self.used_gpu_s += held * lasting_s
            self.gpu_s += held * had_s
            self.borrowed_gpu_s += max(0.0, held - self._guaranteed) * had_s

    def _spend(self, held: float, from_s: float, now: float) -> None:
        """Take what it held off the budget of the window that is now; a wake-up stands at its beginning."""
        window = int(now // self.window_s)
        if window != self._window:
            self.spent_gpu_s = 0.0
            self._window = window
        self.spent_gpu_s += held * max(0.0, now - max(from_s, float(window) * self.window_s))

    def charge(self, job: Job, now: float) -> None:
        """A job turns out to run since a while ago: what it had since these books were written is use, too."""
        from_s = max(job.placed_s, self._away_s)
        if from_s < now:
            self.bring_up(now)
            self._use(float(job.gpus), now - from_s, faded(now - from_s, self.half_life_s))
            if self.window_s < INFINITY:
                self._spend(float(job.gpus), from_s, now)

    def be_due(self, gpus: float, now: float) -> None:
        """From now on it is due so many GPUs."""
        if gpus != self.due:
            self._due_gpu_s = self.due_so_far(now)
            self.due = gpus
            self._due_s = now

    def due_so_far(self, now: float) -> float:
        """GPU-seconds that it was due up to now."""
        return self._due_gpu_s + self.due * (now - self._due_s)

    def save(self) -> dict[str, float]:
        """What it has used, as plain values."""
        at_s = self._now if self._now > -INFINITY else NEVER
        return {
            "used_gpu_s": self.used_gpu_s, "spent_gpu_s": self.spent_gpu_s, "window": self._window, "at_s": at_s,
        }  # fmt: skip

    def load(self, saved: dict[str, Any]) -> None:
        """Go on with what `save` gave."""
        self.used_gpu_s = float(saved["used_gpu_s"])
        self.spent_gpu_s = float(saved["spent_gpu_s"])
        self._window = int(saved["window"])
        at_s = float(saved.get("at_s", NEVER))
        if at_s != NEVER:
            self._now = self._away_s = at_s

    def budget_left_gpu_s(self) -> float:
        """GPU-seconds it may still use in this window."""
        if self.window_s == INFINITY:
            return INFINITY
        left_gpu_s = self.budget_gpu_s * (1.0 - 1e-9) - self.spent_gpu_s
        return left_gpu_s if left_gpu_s > 1e-3 else 0.0  # what rounding leaves is no budget

    def budget_changes_s(self, now: float) -> float:
        """When its budget is used up as things stand, or the next window begins; infinity: nobody asks for any."""
        if self.window_s == INFINITY or not is_present(self):
            return INFINITY
        changes_s = (now // self.window_s + 1.0) * self.window_s
        held = float(self.held_in_all)
        left_gpu_s = self.budget_left_gpu_s()
        if held > 0.0 and left_gpu_s > 0.0:
            changes_s = min(changes_s, now + left_gpu_s / held)
        return changes_s


def faded(passed_s: float, half_life_s: float) -> float:
    """What is left of 1 after that time."""
    return exp(-LN_2 * passed_s / half_life_s)


def is_present(tenant: Tenant) -> bool:
    """Whether it or one below it has jobs."""
    if tenant.held_in_all > 0:
        return True
    for gpus in tenant.demanded:
        if gpus > 0:
            return True
    return any(is_present(child) for child in tenant.children)


class Tenants:
    """The tree of them. One that `[accounts]` makes comes into being with its first job."""

    def __init__(self, tree: QueueTree, kinds: list[str]) -> None:
        self.tree: QueueTree = tree
        self._kinds: list[str] = kinds
        nodes = [*tree.nodes.values(), *([tree.makes.template] if tree.makes is not None else [])]
        longest_s = max([node.half_life_s for node in nodes], default=QueueNode("").half_life_s)
        self.root: Tenant = Tenant(0, QueueNode("", half_life_s=longest_s), None, kinds)
        self.all: list[Tenant] = [self.root]  # by number: those above before those below
        self.with_budgets: list[Tenant] = []
        self._by_path: dict[str, Tenant] = {"": self.root}
        self._saved: dict[str, dict[str, Any]] = {}  # of those that have not come yet
        for path in tree.nodes:
            self._enter(path)
        self.other: Tenant = self._add(QueueNode(OTHER), self.root)
        self.other.last = True
        for leaf in [*(self._by_path[path] for path in tree.leaves()), self.other]:
            self._part(leaf)

    def of(self, job: Job) -> Tenant:
        """Where the job belongs: the highest class of its queue that it reaches, or the lowest."""
        path = self.tree.leaf_for(job)
        leaf = self.other if not path else self._by_path.get(path)
        if leaf is None:
            leaf = self._enter(path)
            self._part(leaf)
        for child in leaf.children:
            if job.priority >= child.priority:
                return child
        return leaf.children[-1] if leaf.children else leaf

    def _enter(self, path: str) -> Tenant:
        """The tenant of that queue, those above it first."""
        result = self._by_path.get(path)
        if result is None:
            node = self.tree.nodes[path]
            result = self._by_path[path] = self._add(node, self._enter(node.parent))
        return result

    def _part(self, leaf: Tenant) -> None:
        """Into priority classes, if there are any."""
        classes = self.tree.classes
        for name in sorted(classes, key=lambda name: -classes[name]) if len(classes) > 1 else ():
            path = f"{leaf.path}#{name}"
            self._add(
                replace(leaf.written, path=path, quotas={}, budget=None, weight=1.0, priority=classes[name]), leaf
            )

    def _add(self, written: QueueNode, parent: Tenant) -> Tenant:
        result = Tenant(len(self.all), written, parent, self._kinds)
        self.all.append(result)
        place = len(parent.children)
        if place > 0 and parent.children[place - 1].last:
            place -= 1
        parent.children.insert(place, result)
        if result.window_s < INFINITY:
            self.with_budgets.append(result)
        if result.path in self._saved:
            result.load(self._saved.pop(result.path))
        return result

    def bring_up(self, now: float) -> None:
        """All of them; most are as far behind as the one before them, and what is left of a GPU-second as well."""
        since_s = half_life_s = 0.0
        left = 1.0
        for tenant in self.all:
            passed_s = tenant.behind_s(now)
            if passed_s == 0.0:
                continue
            if passed_s != since_s or tenant.half_life_s != half_life_s:
                since_s, half_life_s = passed_s, tenant.half_life_s
                left = faded(passed_s, half_life_s)
            tenant.go_on(now, left)

    def save(self) -> dict[str, Any]:
        """What each has used."""
        return {**self._saved, **{tenant.path: tenant.save() for tenant in self.all}}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on with that; what is known of one that has not come yet is kept for it."""
        self._saved = dict(saved)
        for tenant in self.all:
            if tenant.path in self._saved:
                tenant.load(self._saved.pop(tenant.path))


picklable(Tenant, 0, QueueNode(""), None, [""])
picklable(Tenants, QueueTree([]), [""])
