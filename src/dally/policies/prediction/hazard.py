"""How likely a job of some age is to end soon, learnt from those that ended and from those still at work."""

from __future__ import annotations

import math
from typing import Any, Final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from dally.model import INFINITY, Job
from dally.pickles import picklable
from dally.policies.part import Part

FIRST_EDGE_S: Final = 30.0
GROWTH: Final = 1.3  # each age bin is so many times as long as the one before
LONGEST_S: Final = 60.0 * 86400.0
LARGEST_SIZE: Final = 128  # larger gangs share a class
LEAST_SURVIVAL: Final = 0.02  # a horizon is not extended beyond where so few get
ALL: Final = 0  # the class of all jobs
LEFT_OUT: Final = 0.01  # share of the jobs that may take longer than what counts as the longest
FEW: Final = 100  # finishes that do not show that


def age_edges() -> vec[float]:
    """Where the age bins begin, in seconds of work; the last one never ends."""
    edges = vec[float]([0.0])
    edge_s = FIRST_EDGE_S
    while edge_s <= LONGEST_S:
        edges = append(edges, edge_s)
        edge_s *= GROWTH
    return edges


def size_class(gpus: i64) -> int:
    """The next power of two, at most 128."""
    size: i64 = 1
    while size < gpus and size < LARGEST_SIZE:
        size *= 2
    return int(size)


class AgeClass:
    """What was seen of jobs alike: by age bin, how many met it, and how many of those ended in it."""

    __slots__ = ("ended", "hazards", "known_at", "lefts_s", "met", "orders", "parent", "ranks_s", "version")

    def __init__(self, parent: i64, bins: i64) -> None:
        self.parent: i64 = parent  # the wider class; -1: none
        self.met: vec[float] = vec[float]([0.0] * int(bins))
        self.ended: vec[float] = vec[float]([0.0] * int(bins))
        self.version: i64 = 0  # finishes in it so far
        # Worked out when asked for, from here on.
        self.known_at: i64 = -1  # how many jobs of all had finished then; -1: nothing is known
        self.hazards: vec[float] = vec[float]()
        self.lefts_s: vec[float] = vec[float]()
        self.ranks_s: vec[float] = vec[float]()  # -1: not yet
        self.orders: vec[float] = vec[float]()  # the same by weighted finishes


picklable(AgeClass, -1, 1)


@mypyc_attr(allow_interpreted_subclasses=True)
class HazardTable(Part):
    """Hazards by age for a chain of classes: all jobs, those of a size, those of a user and size.

    An age is seconds of work done. A job that outlives an age bin counts as met there, one that ends in it also as
    ended: jobs still in the system count as far as they got (Kaplan and Meier, 1958), or a burst would be judged
    by its short jobs alone. A class is shrunk towards the wider one as if `weight` jobs of that had been seen
    in it, the widest towards a prior: half of those alive at age a end by 2a. The narrowest class forgets.
    """

    def __init__(
        self,
        weight: float = 8.0,
        forget: float = 0.03,
        prior_first: float = 0.15,
        horizon_share: float = 0.5,
        least_horizon_s: float = 600.0,
        by_user: bool = True,
        length_power: float = 0.0,
    ) -> None:
        self.weight: float = weight
        self.keep: float = 1.0 - forget
        self.horizon_share: float = horizon_share
        self.least_horizon_s: float = least_horizon_s
        self.by_user: bool = by_user
        self.length_power: float = length_power
        self.edges_s: vec[float] = age_edges()
        self.bins: i64 = len(self.edges_s)
        self.finishes: i64 = 0
        self._recomputed_at: i64 = 0  # finishes when jobs alike were last recomputed
        self._longest_s: float = INFINITY  # how long jobs take, if all take about equally long
        self._first_end: i64 = self.bins  # the lowest age bin in which a job has ended,
        self._oldest: i64 = 0  # and the highest that one has reached
        self.prior: vec[float] = vec[float]([1.0 - 1.0 / GROWTH] * int(self.bins))
        self.prior[0] = prior_first
        self._classes: list[AgeClass] = []
        self._numbers: dict[str, int] = {}

    # Where a job belongs.

    def class_of(self, job: Job) -> i64:
        """The number of the narrowest class of the job."""
        size = size_class(job.gpus)
        number = self._number(f"{size}", self._number("", -1))
        if self.by_user and job.user:
            number = self._number(f"{size}/{job.user}", number)
        return number

    def _number(self, name: str, parent: i64) -> i64:
        number = self._numbers.get(name)
        if number is None:
            number = len(self._classes)
            self._numbers[name] = number
            self._classes.append(AgeClass(parent, self.bins))
        return number

    def bin_of(self, age_s: float) -> i64:
        """The age bin in which that many seconds of work lie."""
        low: i64 = 0
        high = self.bins
        while high - low > 1:
            middle = (low + high) // 2
            if self.edges_s[middle] <= age_s:
                low = middle
            else:
                high = middle
        return low

    def end_s(self, age_bin: i64) -> float:
        """Where an age bin ends; infinity for the last."""
        return self.edges_s[age_bin + 1] if age_bin + 1 < self.bins else INFINITY

    # What is learnt.

    def outlived(self, number: i64, age_bin: i64) -> None:
        """A job of that class crossed the upper edge of an age bin alive."""
        self._oldest = max(self._oldest, age_bin + 1)
        while number >= 0:
            group = self._classes[number]
            group.met[age_bin] += 1.0
            number = group.parent

    def ended(self, number: i64, age_bin: i64) -> None:
        """A job of that class finished in an age bin."""
        leaf = self._classes[number]
        while number >= 0:
            group = self._classes[number]
            group.met[age_bin] += 1.0
            group.ended[age_bin] += 1.0
            number = group.parent
        self._first_end = min(self._first_end, age_bin)
        self._oldest = max(self._oldest, age_bin)
        self.finishes += 1
        leaf.version += 1
        if self._longest_s == INFINITY:
            leaf.known_at = -1
        if self.keep < 1.0:
            for place in range(self.bins):
                leaf.met[place] *= self.keep
                leaf.ended[place] *= self.keep

    def distinguishes(self, times: float) -> bool:
        """Whether a job was seen to live so many times as long as one that ended; until then all may be alike."""
        if self._first_end >= self.bins:
            return False
        return self.edges_s[min(self._oldest, self.bins - 1)] >= times * self.end_s(self._first_end)

    # What follows from it.

    def density(self, number: i64, from_bin: i64, age_bin: i64) -> float:
        """How likely a job of that class that got to one age bin was to end in another, per length of that."""
        return (
            self.survival(number, from_bin, age_bin)
            * self._known(number).hazards[age_bin]
            / self._length_s(age_bin)
        )

    def survival(self, number: i64, from_bin: i64, age_bin: i64) -> float:
        """How likely a job of that class that got to one age bin was to get to another."""
        hazards = self._known(number).hazards
        survival = 1.0
        for place in range(from_bin, age_bin):
            survival *= 1.0 - hazards[place]
        return survival

    def left_s(self, number: i64, age_bin: i64) -> float:
        """Seconds of work that a job of that class and age has left on average."""
        return self._known(number).lefts_s[age_bin]

    def share_ending(self, number: i64, age_bin: i64, by_s: float) -> float:
        """The share of jobs of that class and age that were seen to end by an age; 0 where none was seen."""
        survival = 1.0
        for place in range(age_bin, self.bins):
            if self.end_s(place) > by_s:
                break
            survival *= 1.0 - self._seen_hazard(number, place)
        return 1.0 - survival

    def _seen_hazard(self, number: i64, place: i64) -> float:
        """The hazard of a class as it was seen, shrunk towards the wider ones, but without a prior."""
        if number < 0:
            return 0.0
        group = self._classes[number]
        weight = self.weight if group.parent >= 0 else 0.0
        met = group.met[place] + weight
        return (group.ended[place] + weight * self._seen_hazard(group.parent, place)) / met if met > 0.0 else 0.0

    def rank_s(self, number: i64, age_bin: i64) -> float:
        """The inverse of its Gittins index: expected seconds of service per finish, over the best horizon."""
        group = self._known(number)
        if group.ranks_s[age_bin] < 0.0:
            group.ranks_s[age_bin] = self._rank_s(group.hazards, age_bin, 0.0)
        return group.ranks_s[age_bin]

    def order(self, number: i64, age_bin: i64) -> float:
        """The same if a finish counts as the job's length in hours to `length_power`: what jobs are served by."""
        if self.length_power == 0.0:
            return self.rank_s(number, age_bin)
        group = self._known(number)
        if group.orders[age_bin] < 0.0:
            group.orders[age_bin] = self._rank_s(group.hazards, age_bin, self.length_power)
        return group.orders[age_bin]

    def is_stale(self, known_at: i64) -> bool:
        """Whether enough jobs finished since then for ranks to be worked out again: 20 and 2 %."""
        return self.finishes - known_at > 20 + self.finishes // 50

    def recompute(self, alike: float) -> float:
        """All ranks are worked out anew, from what is known by now: how long jobs take, if all are alike.

        They are if all but 1 % take less than `alike` times as long as half of them do; infinity where they differ
        by more, or few have ended. What is learnt of jobs alike then counts from the next time on, for all at once:
        they must not overtake each other because of it.
        """
        self._longest_s = self._longest(alike)
        if self._longest_s < INFINITY:
            self._recomputed_at = self.finishes
        return self._longest_s

    def _longest(self, alike: float) -> float:
        if self.finishes < FEW:
            return INFINITY
        survival = 1.0
        median_s = 0.0
        for place in range(self.bins):
            if median_s == 0.0 and survival <= 0.5:
                median_s = self.edges_s[place]
            if survival <= LEFT_OUT:
                return self.edges_s[place] if self.edges_s[place] <= alike * median_s else INFINITY
            survival *= 1.0 - self._seen_hazard(ALL, place)
        return INFINITY

    def _known(self, number: i64) -> AgeClass:
        """The class with its hazards worked out, not too long ago."""
        group = self._classes[number]
        if group.known_at < self._recomputed_at or self.is_stale(group.known_at):
            group.known_at = self.finishes
            group.hazards = self._hazards(number)
            group.lefts_s = self._lefts_s(group.hazards)
            group.ranks_s = vec[float]([-1.0] * int(self.bins))
            group.orders = vec[float]([-1.0] * int(self.bins))
        return group

    def _hazards(self, number: i64) -> vec[float]:
        if number < 0:
            return self.prior
        group = self._classes[number]
        wider = self._hazards(group.parent)
        hazards = vec[float]([0.0] * int(self.bins))
        for place in range(self.bins):
            hazards[place] = (group.ended[place] + self.weight * wider[place]) / (group.met[place] + self.weight)
        return hazards

    def _length_s(self, age_bin: i64) -> float:
        """How long an age bin is; the last one as long as growth would make it."""
        if age_bin + 1 < self.bins:
            return self.edges_s[age_bin + 1] - self.edges_s[age_bin]
        return self.edges_s[age_bin] * (GROWTH - 1.0)

    def _lefts_s(self, hazards: vec[float]) -> vec[float]:
        lefts_s = vec[float]([0.0] * int(self.bins))
        last = self.bins - 1
        # Beyond the last edge the hazard stays what it is there.
        after_s = self._length_s(last) / (hazards[last] if hazards[last] > 0.01 else 0.01)
        for back in range(self.bins):
            place = last - back
            hazard = hazards[place]
            after_s = self._length_s(place) * (1.0 - 0.5 * hazard) + (1.0 - hazard) * after_s
            lefts_s[place] = after_s
        return lefts_s

    def _rank_s(self, hazards: vec[float], age_bin: i64, length_power: float) -> float:
        """Least Σ S·L·(1 - h/2) ÷ Σ S·h over horizons that are long enough, S being the survival from here."""
        age_s = self.edges_s[age_bin]
        horizon_s = self.horizon_share * age_s
        if horizon_s < self.least_horizon_s:
            horizon_s = self.least_horizon_s
        survival = 1.0
        service_s = 0.0
        finishes = 0.0
        best_s = INFINITY
        for place in range(age_bin, self.bins):
            hazard = hazards[place]
            service_s += survival * self._length_s(place) * (1.0 - 0.5 * hazard)
            finishes += survival * hazard * self._weight(place, length_power)
            survival *= 1.0 - hazard
            if finishes > 0.0 and self.end_s(place) >= age_s + horizon_s and service_s / finishes < best_s:
                best_s = service_s / finishes
            if survival < LEAST_SURVIVAL:
                break
        if best_s == INFINITY:  # nobody gets as far as the shortest horizon
            best_s = service_s / finishes if finishes > 0.0 else self.left_at_worst_s()
        return best_s

    def _weight(self, age_bin: i64, length_power: float) -> float:
        """What a finish in an age bin counts."""
        if length_power == 0.0:
            return 1.0
        return math.pow((self.edges_s[age_bin] + 0.5 * self._length_s(age_bin)) / 3600.0, length_power)

    def left_at_worst_s(self) -> float:
        """A rank for jobs of which nothing says that they ever end."""
        return LONGEST_S

    # Kept between runs.

    def saved(self) -> dict[str, Any]:
        """What was learnt: by class its name, the number of the wider one, met and ended by age bin."""
        rows: list[list[Any]] = []
        for name, number in self._numbers.items():
            group = self._classes[number]
            rows.append([name, int(group.parent), list(group.met), list(group.ended)])
        return {"finishes": int(self.finishes), "classes": rows}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on with what `saved` gave."""
        self._classes = []
        self._numbers = {}
        for name, parent, met, ended in saved["classes"]:
            self._numbers[name] = len(self._classes)
            group = AgeClass(parent, self.bins)
            group.met = vec[float](met)
            group.ended = vec[float](ended)
            self._classes.append(group)
        self._see_again()
        self.finishes = saved["finishes"]

    def _see_again(self) -> None:
        """From the counts of all jobs, the ages of which `distinguishes` uses."""
        self._first_end, self._oldest = self.bins, 0
        for group in self._classes:
            if group.parent >= 0:  # narrower classes are part of the widest, and may have forgotten
                continue
            for place in range(self.bins):
                if group.ended[place] > 0.0 and place < self._first_end:
                    self._first_end = place
                if group.met[place] > group.ended[place]:
                    self._oldest = max(self._oldest, place + 1)
                elif group.met[place] > 0.0:
                    self._oldest = max(self._oldest, place)
