"""Queues at work: what each holds, asks for and has used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dally.model import INFINITY
from dally.quotas.fair_tree import decayed, decayed_use
from dally.quotas.tree import ANY_TYPE, QueueNode, QueueTree, Quota

NOTHING = Quota()
HOUR_S = 3600.0


class Team:
    """One queue, or one priority class of a queue: its own books, by pool."""

    def __init__(self, number: int, written: QueueNode, parent: Team | None, pools: list[str]) -> None:
        self.number = number
        self.written = written
        self.parent = parent
        self.children: list[Team] = []
        self.held = [0] * len(pools)  # GPUs its jobs run on
        self.asked = [0] * len(pools)  # GPUs its waiting jobs want
        self.quotas = [written.quotas.get(pool, NOTHING) if pool else NOTHING for pool in pools]
        self.over_all = written.quotas.get(ANY_TYPE, NOTHING)
        self.used_gpu_s = 0.0  # past use, decayed
        self.gpu_s = 0.0  # the same, not decayed
        self.borrowed_gpu_s = 0.0  # the part of it above what is guaranteed
        self.spent_gpu_s = 0.0  # in the budget's present window
        self._window = -1
        self._now = -INFINITY

    @property
    def path(self) -> str:
        return self.written.path

    def up(self) -> Iterator[Team]:
        """Itself and those above it."""
        team: Team | None = self
        while team is not None:
            yield team
            team = team.parent

    def guarantee(self, pool: int, part: float) -> float:
        """GPUs of a pool it is guaranteed; of a guarantee over all types, that part of it."""
        return self.quotas[pool].guarantee + self.over_all.guarantee * part

    def lends_all_but(self, pool: int, part: float) -> float:
        """GPUs of its guarantee that nobody else may use, whether it does or not."""
        own, over_all = self.quotas[pool], self.over_all
        return max(0.0, own.guarantee - own.lend_limit) + part * max(0.0, over_all.guarantee - over_all.lend_limit)

    def room(self, pool: int) -> float:
        """GPUs of a pool that its limits still let it have."""
        if self.written.hold:
            return 0.0
        room = min(self.quotas[pool].limit - self.held[pool], self.over_all.limit - sum(self.held))
        return room if self.budget_left_gpu_s() > 0.0 else 0.0

    def bring_up(self, now: float) -> None:
        """Integrate what it held since the last time."""
        if self._now == -INFINITY:
            self._now = now
        passed_s = now - self._now
        held = float(sum(self.held))
        half_life_s = self.written.half_life_s
        if passed_s > 0.0:
            self.used_gpu_s = decayed(self.used_gpu_s, passed_s, half_life_s)
            self.used_gpu_s += decayed_use(held, 0.0, passed_s, passed_s, half_life_s)
            self.gpu_s += held * passed_s
            due = sum(quota.guarantee for quota in self.quotas) + self.over_all.guarantee
            self.borrowed_gpu_s += max(0.0, held - due) * passed_s
        budget = self.written.budget
        if budget is not None:
            window = int(now // budget.window_s)
            if window != self._window:  # what it held in the new window; a wake-up stands at its beginning
                self.spent_gpu_s = held * (now - max(self._now, window * budget.window_s))
                self._window = window
            else:
                self.spent_gpu_s += held * passed_s
        self._now = now

    def save(self) -> dict[str, float]:
        """What it has used, as plain values."""
        return {"used_gpu_s": self.used_gpu_s, "spent_gpu_s": self.spent_gpu_s, "window": self._window}

    def load(self, saved: dict[str, float]) -> None:
        """Go on with what `save` gave."""
        self.used_gpu_s = float(saved["used_gpu_s"])
        self.spent_gpu_s = float(saved["spent_gpu_s"])
        self._window = int(saved["window"])

    def budget_left_gpu_s(self) -> float:
        """GPU-seconds it may still use in this window."""
        budget = self.written.budget
        if budget is None:
            return INFINITY
        left_gpu_s = budget.gpu_hours * HOUR_S * (1.0 - 1e-9) - self.spent_gpu_s
        return left_gpu_s if left_gpu_s > 1e-3 else 0.0  # what rounding leaves is no budget

    def budget_turns_s(self, now: float) -> float:
        """When its budget is used up as things stand, or the next window begins; infinity: nobody asks for any."""
        budget = self.written.budget
        if budget is None or not any(sum(team.held) + sum(team.asked) for team in below(self)):
            return INFINITY
        turns_s = (now // budget.window_s + 1.0) * budget.window_s
        held = float(sum(self.held))
        left_gpu_s = self.budget_left_gpu_s()
        if held > 0.0 and left_gpu_s > 0.0:
            turns_s = min(turns_s, now + left_gpu_s / held)
        return turns_s


def for_priority(leaf: Team, priority: float) -> Team:
    """Where a job of that priority belongs: the highest class it reaches, or the lowest; the leaf without any."""
    for child in leaf.children:
        if priority >= child.written.priority:
            return child
    return leaf.children[-1] if leaf.children else leaf


def below(team: Team) -> Iterator[Team]:
    """The team and all below it."""
    yield team
    for child in team.children:
        yield from below(child)


def make_teams(tree: QueueTree, pools: list[str]) -> tuple[Team, dict[str, Team]]:
    """The root, and the teams that have jobs by path; jobs that belong to no queue are those of "other"."""
    root = Team(0, QueueNode("", half_life_s=_longest_half_life(tree)), None, pools)
    by_path = {"": root}
    count = 1
    for path, node in tree.nodes.items():
        team = Team(count, node, by_path[node.parent], pools)
        by_path[path] = team
        by_path[node.parent].children.append(team)
        count += 1
    leaves = {path: by_path[path] for path in tree.leaves()}
    other = Team(count, QueueNode("other"), root, pools)
    root.children.append(other)
    leaves[""] = other
    for leaf in leaves.values() if len(tree.classes) > 1 else ():
        for name, least in sorted(tree.classes.items(), key=lambda row: -row[1]):
            count += 1
            written = replace(
                leaf.written, path=f"{leaf.path}#{name}", quotas={}, budget=None, weight=1.0, priority=least
            )
            leaf.children.append(Team(count, written, leaf, pools))
    return root, leaves


def _longest_half_life(tree: QueueTree) -> float:
    return max([node.half_life_s for node in tree.nodes.values()], default=QueueNode("").half_life_s)
