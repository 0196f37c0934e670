"""How well jobs' own statements of their durations hold, by user."""

from __future__ import annotations

from typing import Any, Final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from dally.model import Job
from dally.pickles import picklable
from dally.policies.prediction.hazard import HazardTable

# Prior: most statements hold within so much, and of the rest half of those alive at an age end by twice that.
PRIOR_HOLD: Final = 0.85
PRIOR_SPREAD: Final = 0.3
WEIGHT: Final = 4.0  # jobs that a wider class counts for in a narrower one
FORGET: Final = 0.03


def relative_edges() -> vec[float]:
    """Where the bins of age ÷ stated duration begin: narrow where statements that hold end."""
    edges = vec[float]([0.0, 0.02, 0.05])
    edge = 0.1
    while edge < 1.5:
        edges = append(edges, edge)
        edge += 0.05
    while edge < 40.0:
        edges = append(edges, edge)
        edge *= 1.15
    return edges


class Trust:
    """How often, in one class, statements foretold an end better than what is known without them."""

    __slots__ = ("better", "met", "parent")

    def __init__(self, parent: i64) -> None:
        self.parent: i64 = parent
        self.better: float = 0.0
        self.met: float = 0.0


picklable(Trust, -1)


@mypyc_attr(allow_interpreted_subclasses=True)
class StatementTable(HazardTable):
    """Hazards by age ÷ stated duration, for all jobs and for those of a user, and how much they are worth.

    An age of 1 is the end that the job stated. A user whose jobs end at half of what they state is as predictable
    as one whose statements hold: what counts is what was seen. The worth of statements is their share in a
    mixture with the hazards by age alone, raised or lowered at every end by which of the two foretold it better.
    """

    def __init__(self) -> None:
        super().__init__(WEIGHT, FORGET, 0.0, 0.0, 0.0)
        self.edges_s = relative_edges()
        self.bins = len(self.edges_s)
        self._first_end = self.bins
        self.prior = vec[float]([0.0] * int(self.bins))
        for place in range(self.bins):
            alive = _prior_alive(self.edges_s[place])
            later = _prior_alive(self.edges_s[place + 1]) if place + 1 < self.bins else 0.5 * alive
            self.prior[place] = 1.0 - later / alive
        self._trusts: list[Trust] = []

    def class_of(self, job: Job) -> i64:
        """The number of the narrowest class: its user's jobs, or all."""
        number = self._number("", -1)
        if job.user:
            number = self._number(job.user, number)
        while len(self._trusts) < len(self._classes):
            self._trusts.append(Trust(self._classes[len(self._trusts)].parent))
        return number

    def any(self) -> bool:
        """Whether any job has made a statement."""
        return len(self._trusts) > 0

    def worth(self, number: i64) -> float:
        """The share of statements of that class in the mixture."""
        if number < 0:
            return PRIOR_HOLD
        trust = self._trusts[number]
        return (trust.better + WEIGHT * self.worth(trust.parent)) / (trust.met + WEIGHT)

    def judge(self, number: i64, density: float, other_density: float) -> None:
        """A job ended: how likely its statement made that, and how likely it was without."""
        share = self.worth(number)
        mixed = share * density + (1.0 - share) * other_density
        better = share * density / mixed if mixed > 0.0 else 0.0
        while number >= 0:
            trust = self._trusts[number]
            trust.better = trust.better * self.keep + better
            trust.met = trust.met * self.keep + 1.0
            number = trust.parent

    def saved(self) -> dict[str, Any]:
        return super().saved() | {"trusts": [[trust.better, trust.met] for trust in self._trusts]}

    def restore(self, saved: dict[str, Any]) -> None:
        super().restore(saved)
        self._trusts = []
        for group, (better, met) in zip(self._classes, saved["trusts"], strict=True):
            trust = Trust(group.parent)
            trust.better, trust.met = better, met
            self._trusts.append(trust)


def _prior_alive(age: float) -> float:
    """The share of jobs that live so many times as long as they stated, before anything is known."""
    low, high = 1.0 - PRIOR_SPREAD, 1.0 + PRIOR_SPREAD
    within = (age - low) / (high - low)
    held = 1.0 - min(max(within, 0.0), 1.0)
    return PRIOR_HOLD * held + (1.0 - PRIOR_HOLD) / (1.0 + age)
