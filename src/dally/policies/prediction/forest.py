"""A random forest over a job's history."""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, Any, Final

from dally.extras import need
from dally.model import Job
from dally.policies.prediction.base import Predictor
from dally.policies.prediction.features import PastDurations, at_least_1
from dally.policies.prediction.history import HistoryPredictor, median
from dally.policies.prediction.trees import Trees

if TYPE_CHECKING:
    import numpy as np

REPETITIONS: Final = 3  # finished jobs of one user, name and size that speak for themselves
FIRST_FIT: Final = 100  # finished jobs before the first forest
GROWTH: Final = 1.2  # a new forest when so many times more jobs have finished
LATEST: Final = 4000  # finished jobs that a forest is grown from
TREES: Final = 20
LEAF: Final = 20  # finished jobs in a leaf at least
FEATURES: Final = 0.35  # share of the features that a split chooses from
MEMORY: Final = 0.99  # what remains of an old error with each job that finishes
SEED: Final = 1


class Forest(Predictor):
    """A random forest corrects the median of the same user and size, once it has shown that it can.

    Luo et al. (arXiv 2501.05563) predict iterations by random forest regression, as most jobs recur. Here
    it is log(duration ÷ the guess of `history`), from the user, the name, the model, the GPUs, the hour and
    how long the user's jobs took; a leaf says its median, and so do the trees together, as means suffer
    from the few very long jobs. Jobs that finished at least 3 times under the same user, name and size
    get their own median. Until forests have erred less than `history` of late, `history` is believed.
    Grown again whenever a fifth more jobs have finished.
    """

    def __init__(self) -> None:
        need("sklearn", "predictor forest")
        self._history = HistoryPredictor()
        self._past = PastDurations()
        self._rows: dict[
            int, tuple[float, float, list[float]]
        ] = {}  # guess, correction, features of the unfinished
        self._features: list[list[float]] = []
        self._corrections: list[float] = []
        self._finished = 0
        self._next_fit = float(FIRST_FIT)
        self._trees: Trees | None = None
        self._lead = 0.0  # recent error of `history` less that of the forests, faded

    def predict_s(self, job: Job, now: float) -> float:
        self._past.meet(job)
        guess_s = self._history.predict_s(job, now)
        if guess_s < 0.0:
            return guess_s
        row = self._past.row(job, guess_s)
        if self._finished >= self._next_fit:
            self._fit()
        correction = median(self._trees.evaluate(row)) if self._trees else 0.0
        self._rows[int(job.index)] = (guess_s, correction, row)
        repetitions = self._past.repetitions(job)
        if job.name and len(repetitions) >= REPETITIONS:
            return repetitions.median_s()
        return at_least_1(guess_s) * exp(correction) if self._lead > 0.0 else guess_s

    def learn(self, job: Job, now: float) -> None:
        self._history.learn(job, now)
        self._past.learn(job)
        self._finished += 1
        if int(job.index) not in self._rows:
            return  # submitted before any job had finished
        guess_s, correction, row = self._rows.pop(int(job.index))
        right = log(at_least_1(job.duration_s) / at_least_1(guess_s))
        if self._trees:
            self._lead = MEMORY * self._lead + abs(right) - abs(right - correction)
        self._features.append(row)
        self._corrections.append(right)
        if len(self._features) >= 2 * LATEST:
            del self._features[:LATEST]
            del self._corrections[:LATEST]

    def _fit(self) -> None:
        import numpy as np
        from sklearn.ensemble import RandomForestRegressor

        self._next_fit = GROWTH * self._finished
        if len(self._features) < LEAF:
            return
        features = np.array(self._features[-LATEST:], dtype=np.float32)
        corrections = np.array(self._corrections[-LATEST:])
        forest = RandomForestRegressor(
            n_estimators=TREES, min_samples_leaf=LEAF, max_features=FEATURES, random_state=SEED, n_jobs=1
        ).fit(features, corrections)
        self._trees = flattened(forest, features, corrections)


def flattened(forest: Any, features: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> Trees:
    """The forest's trees, each leaf with the median of the targets that fall into it."""
    import numpy as np

    trees = Trees()
    for grown in forest.estimators_:
        tree = grown.tree_
        values = np.zeros(tree.node_count)
        leaves = tree.apply(features)
        order = np.argsort(leaves, kind="stable")
        for here in np.split(order, np.flatnonzero(np.diff(leaves[order])) + 1):
            values[leaves[here[0]]] = np.median(targets[here])
        root = int(trees.begin_tree())
        for feature, threshold, left, right, value in zip(
            tree.feature.tolist(), tree.threshold.tolist(), tree.children_left.tolist(),
            tree.children_right.tolist(), values.tolist(), strict=True,
        ):  # fmt: skip
            below = left >= 0
            trees.add(feature, threshold, root + left if below else -1, root + right if below else -1, value)
    return trees
