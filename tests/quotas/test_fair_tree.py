"""Slurm's fair tree on trees worked out by hand; `python -m benchmarks.slurm_fair_tree` does it on a real Slurm."""

from __future__ import annotations

from math import inf

import pytest
from benchmarks.fair_tree import decayed, decayed_use, fair_tree, fair_tree_of

from dally.quotas.tree import QueueNode, QueueTree

Shares = dict[str, float]

# Shares, what leaves used, levels by hand, leaves from the first to the last, those that tie together.
TREES: dict[str, tuple[Shares, Shares, Shares, list[str]]] = {
    "less used comes first": (
        {"a": 1, "b": 1},
        {"a": 30, "b": 10},
        {"a": 0.5 / 0.75, "b": 0.5 / 0.25},
        ["b", "a"],
    ),
    "use in proportion to shares ties": (
        {"a": 3, "b": 1},
        {"a": 30, "b": 10},
        {"a": 1.0, "b": 1.0},
        ["a b"],
    ),
    "who used nothing is before all, who has no shares behind": (
        {"a": 1, "b": 1, "c": 0, "d": 2},
        {"a": 10, "c": 1, "d": 9},
        {"a": 0.25 / 0.5, "b": inf, "c": 0.0, "d": 0.5 / 0.45},
        ["b", "d", "a", "c"],
    ),
    "under a better account, a worse user still comes first": (
        {"a": 1, "a/u": 1, "a/v": 1, "b": 1, "b/w": 1, "b/x": 1},
        {"a/u": 19, "a/v": 1, "b/w": 40, "b/x": 40},
        {"a": 0.5 / 0.2, "a/u": 0.5 / 0.95, "a/v": 0.5 / 0.05, "b": 0.5 / 0.8, "b/w": 1.0, "b/x": 1.0},
        ["a/v", "a/u", "b/w b/x"],
    ),
    "a user is a sibling of accounts": (
        {"a": 2, "a/u": 1, "x": 1, "b": 1, "b/v": 1},
        {"a/u": 40, "x": 10, "b/v": 50},
        {"a": 0.5 / 0.4, "a/u": 1.0, "x": 0.25 / 0.1, "b": 0.25 / 0.5, "b/v": 1.0},
        ["x", "a/u", "b/v"],
    ),
    "accounts that tie share their users": (
        {"a": 1, "a/u": 1, "a/v": 1, "b": 1, "b/w": 1, "b/x": 3},
        {"a/u": 5, "a/v": 15, "b/w": 10, "b/x": 10},
        {"a": 1.0, "b": 1.0, "a/u": 0.5 / 0.25, "a/v": 0.5 / 0.75, "b/w": 0.25 / 0.5, "b/x": 0.75 / 0.5},
        ["a/u", "b/x", "a/v", "b/w"],
    ),
    "a user that ties with an account ties with its best user": (
        {"x": 1, "a": 1, "a/u": 1, "a/v": 1},
        {"x": 10, "a/u": 4, "a/v": 6},
        {"x": 1.0, "a": 1.0, "a/u": 0.5 / 0.4, "a/v": 0.5 / 0.6},
        ["x a/u", "a/v"],
    ),
    "nothing used yet: all tie": (
        {"a": 7, "a/u": 1, "a/v": 5, "b": 1, "b/w": 1},
        {},
        {"a": inf, "a/u": inf, "a/v": inf, "b": inf, "b/w": inf},
        ["a/u a/v b/w"],
    ),
    "users that tie across accounts that tie": (
        {"a": 1, "a/u": 1, "a/v": 1, "b": 1, "b/w": 1, "b/x": 1},
        {"a/u": 5, "a/v": 15, "b/w": 15, "b/x": 5},
        {"a": 1.0, "b": 1.0, "a/u": 2.0, "a/v": 0.5 / 0.75, "b/w": 0.5 / 0.75, "b/x": 2.0},
        ["a/u b/x", "a/v b/w"],
    ),
    "three levels": (
        {"r": 40, "r/n": 3, "r/n/u": 2, "r/n/v": 1, "r/x": 1, "p": 60, "p/y": 1},
        {"r/n/u": 10, "r/n/v": 10, "r/x": 20, "p/y": 60},
        {"r": 1.0, "p": 1.0, "r/n": 0.75 / 0.5, "r/x": 0.25 / 0.5, "p/y": 1.0, "r/n/u": 4 / 3, "r/n/v": 2 / 3},
        ["r/n/u", "r/n/v", "p/y", "r/x"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_worked_by_hand(name: str) -> None:
    shares, used, levels, order = TREES[name]
    found = fair_tree(shares, used)
    assert {path: share.level for path, share in found.items()} == pytest.approx(levels)
    leaves = sum(len(group.split()) for group in order)
    rank = leaves
    expected: dict[str, float] = {}
    for group in order:
        expected |= dict.fromkeys(group.split(), rank / leaves)
        rank -= len(group.split())
    assert {path: share.factor for path, share in found.items() if share.factor} == pytest.approx(expected)


def test_of_a_tree_of_queues() -> None:
    tree = QueueTree([QueueNode("a", weight=3.0), QueueNode("b")])
    assert fair_tree_of(tree, {"a": 2.0, "b": 2.0})["a"] == (1.5, 1.0)


def test_use_fades() -> None:
    assert decayed(8.0, 20.0, 10.0) == 2.0
    assert decayed_use(4.0, 0.0, 30.0, 99.0, inf) == 120.0
    # As the sum over short pieces, each faded since it was used.
    pieces = sum(decayed(4.0 * 0.01, 50.0 - (second + 0.5) * 0.01, 10.0) for second in range(3000))
    assert decayed_use(4.0, 0.0, 30.0, 50.0, 10.0) == pytest.approx(pieces, rel=1e-6)
    # What ran for ever counts as its GPUs over half_life / ln 2.
    assert decayed_use(4.0, -1e6, 0.0, 0.0, 10.0) == pytest.approx(40.0 / 0.6931471805599453)
