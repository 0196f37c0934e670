"""Slurm's fair tree (PriorityFlags' default since 19.05): who of all leaves has used least of what is his.

Siblings are ordered by their share among siblings over their use among siblings. Whoever stands under a better one
comes before all that stand under a worse. Queues that tie share their children, as if these were siblings; leaves
that tie have the same rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log
from typing import NamedTuple

from dally.model import INFINITY
from dally.quotas.tree import QueueTree


class FairShare(NamedTuple):
    """Where a leaf, or a queue above leaves, stands."""

    level: float  # share among siblings / use among siblings: above 1, it has used less than its share
    factor: float  # from 1 for the first of all leaves down to 1 / leaves; 0 for a queue that is no leaf


def fair_tree(shares: Mapping[str, float], used: Mapping[str, float]) -> dict[str, FairShare]:
    """By path: shares of all queues, those above before those below, and what each leaf has used so far.

    What is above leaves has used what they have. A queue without shares comes last, one without use first.
    """
    children = _children(shares)
    total_used = _added_up(shares, used)
    levels = _levels(shares, children, total_used)
    ranking = _Ranking(children, levels)
    ranking.walk(children[""], False)
    return {path: FairShare(levels[path], ranking.factors.get(path, 0.0)) for path in shares}


def fair_tree_of(tree: QueueTree, used: Mapping[str, float]) -> dict[str, FairShare]:
    """The same for a tree of queues, whose weights are its shares."""
    return fair_tree({path: node.weight for path, node in tree.nodes.items()}, used)


def decayed(used: float, elapsed_s: float, half_life_s: float) -> float:
    """What is left of use after a time in which none was added."""
    return float(used * 0.5 ** (elapsed_s / half_life_s))


def decayed_use(gpus: float, start_s: float, end_s: float, now_s: float, half_life_s: float) -> float:
    """GPU-seconds of GPUs held from start to end, each faded since its own instant, as counted now."""
    if half_life_s == INFINITY:
        return gpus * (end_s - start_s)
    held = decayed(1.0, now_s - end_s, half_life_s) - decayed(1.0, now_s - start_s, half_life_s)
    return gpus * held * half_life_s / log(2.0)


def _children(paths: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"": []}
    for path in paths:
        found[path.rpartition("/")[0]].append(path)
        found[path] = []
    return found


def _added_up(paths: Iterable[str], used: Mapping[str, float]) -> dict[str, float]:
    """Use by path; that of all under the empty one."""
    found = {"": 0.0} | {path: used.get(path, 0.0) for path in paths}
    for path in reversed(list(found)[1:]):
        found[path.rpartition("/")[0]] += found[path]
    return found


def _levels(
    shares: Mapping[str, float], children: Mapping[str, list[str]], used: Mapping[str, float]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for above, paths in children.items():
        all_shares = sum(shares[path] for path in paths)
        for path in paths:
            if shares[path] <= 0.0:
                found[path] = 0.0
            elif used[path] <= 0.0:
                found[path] = INFINITY
            else:
                found[path] = (shares[path] / all_shares) / (used[path] / used[above])
    return found


class _Ranking:
    """Goes down the tree, best first, and gives each leaf its factor."""

    def __init__(self, children: Mapping[str, list[str]], levels: Mapping[str, float]) -> None:
        self._children = children
        self._levels = levels
        self._leaves = sum(not below for path, below in children.items() if path)
        self._rank = self._tied_rank = self._leaves
        self.factors: dict[str, float] = {}

    def walk(self, siblings: list[str], tied: bool) -> None:
        """Rank all leaves under these. `tied`: the first of them ties with the leaf ranked last."""
        ordered = sorted(siblings, key=lambda path: (-self._levels[path], bool(self._children[path])))
        place = 0
        while place < len(ordered):
            path = ordered[place]
            tied = tied if place == 0 else self._levels[path] == self._levels[ordered[place - 1]]
            place += 1
            if not self._children[path]:
                self._rank_one(path, tied)
                continue
            merged = [*self._children[path]]
            while place < len(ordered) and self._levels[ordered[place]] == self._levels[path]:
                merged += self._children[ordered[place]]  # leaves that tie stand before queues that do
                place += 1
            self.walk(merged, tied)

    def _rank_one(self, path: str, tied: bool) -> None:
        if not tied:
            self._tied_rank = self._rank
        self.factors[path] = self._tied_rank / self._leaves
        self._rank -= 1
