"""Who is due how many GPUs now: guarantees first, then the surplus by priority and weight."""

from __future__ import annotations

from dally.policies.sharing.teams import Team

ZEAL = 8.0  # how hard past use counts: a tenth too much halves a weight
FIRST_RUNS = 4.0  # min_runtimes, and
LONG_S = 30 * 86400.0  # half-lives above this, or none at all, count as this there
FIRST_PART = 0.05  # of a half-life: what counts as used from the start
MOST_PAID_BACK = 3.0  # times its weight, at most, for one that used little; at least a third for one that used much


class FairShares:
    """By team, GPUs of one pool that are due to it of what it holds and asks for, and how many are guaranteed."""

    def __init__(self, root: Team, pool: int, gpus: int, part: float) -> None:
        """`part`: of guarantees over all types, those of this pool."""
        self.due: dict[int, float] = {}
        self.guaranteed: dict[int, float] = {}
        self._pool = pool
        self._gpus = float(gpus)
        self._part = part
        self._wants: dict[int, float] = {}
        self._count_up(root)
        floors = sum(self._floor(child) for child in root.children)
        self._hand_down(root, float(gpus), min(float(gpus), floors))

    def _count_up(self, team: Team) -> float:
        """What it holds and could use, within its limits."""
        if team.children:
            wants = sum(self._count_up(child) for child in team.children)
        else:
            wants = float(team.asked[self._pool] + team.held[self._pool])
        wants = min(wants, team.held[self._pool] + max(0.0, team.room(self._pool)))
        self._wants[team.number] = wants
        return wants

    def _floor(self, team: Team) -> float:
        """What is guaranteed to it and wanted."""
        own = team.guarantee(self._pool, self._part)
        below = sum(self._floor(child) for child in team.children)
        return min(self._wants[team.number], max(own, below))

    def _hand_down(self, team: Team, due: float, guaranteed: float) -> None:
        self.due[team.number] = due
        self.guaranteed[team.number] = guaranteed
        if not team.children:
            return
        weights = shrunk_weights(team.children, self._gpus)
        floors = [self._floor(child) for child in team.children]
        caps = [self._wants[child.number] for child in team.children]
        levels = [child.written.priority for child in team.children]
        all_due = fill(due, floors, caps, weights, levels)
        all_guaranteed = fill(guaranteed, floors, caps, weights, levels)
        for child, part, sure in zip(team.children, all_due, all_guaranteed, strict=True):
            self._hand_down(child, part, min(part, sure))


def shrunk_weights(teams: list[Team], gpus: float) -> list[float]:
    """Their weights: less for those that used more than their part of what all have used, more for the others.

    Only those count that have jobs: the absent are owed nothing. From the start it is as if they had used their
    parts of so many GPUs for a while: what the first minutes bring says little.
    """
    present = [any(team.held) or any(team.asked) for team in teams]
    weight = sum(team.written.weight for team, here in zip(teams, present, strict=True) if here)
    used = sum(team.used_gpu_s for team, here in zip(teams, present, strict=True) if here)
    found: list[float] = []
    for team in teams:
        factor = 1.0
        if weight > 0.0 and team.written.weight > 0.0:
            part = team.written.weight / weight
            half_life_s = min(team.written.half_life_s, LONG_S)
            first = part * gpus * max(FIRST_RUNS * team.written.min_runtime_s, FIRST_PART * half_life_s)
            ratio = (used * part + first) / (team.used_gpu_s + first) if team.used_gpu_s + first > 0.0 else 1.0
            factor = min(MOST_PAID_BACK, max(1.0 / MOST_PAID_BACK, ratio**ZEAL))
        found.append(team.written.weight * factor)
    return found


def fill(
    total: float, floors: list[float], caps: list[float], weights: list[float], levels: list[float]
) -> list[float]:
    """`total` shared out: the floors, then the rest by weight up to the caps, the highest level first."""
    base = sum(floors)
    if base >= total:
        return [floor * total / base if base > 0.0 else 0.0 for floor in floors]
    found = list(floors)
    left = total - base
    for level in sorted(set(levels), reverse=True):
        open_ = [i for i in range(len(found)) if levels[i] == level and found[i] < caps[i] and weights[i] > 0.0]
        while open_ and left > 1e-9:
            # The surplus level that fills the next cap, or uses up what is left.
            per_weight = left / sum(weights[i] for i in open_)
            full = [i for i in open_ if caps[i] - found[i] <= per_weight * weights[i]]
            for i in full or open_:
                part = caps[i] - found[i] if full else per_weight * weights[i]
                found[i] += part
                left -= part
            if not full:
                left = 0.0
            open_ = [i for i in open_ if i not in full]
    return found


def fair_order(team: Team) -> list[Team]:
    """The teams that have jobs: at every branch higher priorities first, then who used least for its weight."""
    if not team.children:
        return [team]
    found: list[Team] = []
    for child in sorted(team.children, key=_need):
        found += fair_order(child)
    return found


def _need(team: Team) -> tuple[float, float, int]:
    weight = team.written.weight
    used = team.used_gpu_s / weight if weight > 0.0 else float("inf")
    return -team.written.priority, used, team.number
