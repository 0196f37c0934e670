"""Fitted regression trees as flat arrays: what it takes to evaluate them at every submission."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.pickles import picklable


class Trees:
    """Binary trees, one after the other; `values` count at the leaves, whose `lefts` are -1."""

    __slots__ = ("features", "lefts", "rights", "roots", "thresholds", "values")

    def __init__(self) -> None:
        self.roots: vec[i64] = vec[i64]()
        self.features: vec[i64] = vec[i64]()
        self.thresholds: vec[float] = vec[float]()
        self.lefts: vec[i64] = vec[i64]()
        self.rights: vec[i64] = vec[i64]()
        self.values: vec[float] = vec[float]()

    def begin_tree(self) -> i64:
        """The nodes added from now on are a new tree's, its root first; returns the root's number."""
        root: i64 = len(self.features)
        self.roots = append(self.roots, root)
        return root

    def add(self, feature: i64, threshold: float, left: i64, right: i64, value: float) -> None:
        """Add a node: at most `threshold` goes left."""
        self.features = append(self.features, feature)
        self.thresholds = append(self.thresholds, threshold)
        self.lefts = append(self.lefts, left)
        self.rights = append(self.rights, right)
        self.values = append(self.values, value)

    def evaluate(self, row: list[float]) -> list[float]:
        """What each tree says of these features, in order of value."""
        facts = vec[float]()
        for fact in row:
            facts = append(facts, fact)
        features = self.features
        thresholds = self.thresholds
        lefts = self.lefts
        rights = self.rights
        values: list[float] = []
        for root in self.roots:
            node = root
            while lefts[node] >= 0:
                node = lefts[node] if facts[features[node]] <= thresholds[node] else rights[node]
            values.append(self.values[node])
        values.sort()
        return values


picklable(Trees)
