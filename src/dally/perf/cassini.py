"""CASSINI: jobs start their bursts at times at which those that share a link do not burst.

Rajasekaran, Ghobadi, Akella: CASSINI, Network-Aware Job Scheduling in Machine Learning Clusters (NSDI 2024,
arXiv 2308.00852). A job's steps are laid round a circle; turning one circle against another shifts its bursts.

Two jobs whose periods are as p to q in whole numbers meet, over p·q of their bursts, at offsets that are equally
spaced by u = period ÷ q. So their overlap is that of both bursts folded onto a circle of u. On a link, a job meets
another for the share of time that the other communicates, times that overlap ÷ the overlap of bursts at random.
Periods without small p and q drift against each other and meet at random.

A job that comes takes the shift that minimises Σ need · need' · overlap over its links, and neighbours are shifted
in turn as long as this falls. That sum is the variance of what the jobs ask of a link together.

Departures: the paper minimises the demand above a link's capacity, which is the same for two jobs that fill a link
each; it searches shifts on circles of all jobs of a link in steps of 5°, and drops links that would close a loop.
Periods are those alone, and jobs keep their shifts though others slow them down, as the paper's agents see to.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.perf.contention import Flow, place_of, slowdown, uses
from dally.perf.filling import Shares
from dally.perf.pairwise_sharing import PairwiseContention, requested
from dally.pickles import picklable

CASSINI: Final = "cassini"
MOST_STEPS: Final = 8  # of one job on the circle that it has with another
SAME_RHYTHM: Final = 0.01  # relative error of p ÷ q, which the faster job waits for in each step
MOST_SWEEPS: Final = 3
LEAST_GAIN: Final = 1e-9


class Fold:
    """The bursts of a job and of another on the circle on which their shifts count."""

    __slots__ = ("always_s", "arc_s", "circle_s", "of_both_s", "other_arc_s", "rounds")

    def __init__(self, circle_s: float, rounds: i64, burst_s: float, other_burst_s: float) -> None:
        self.circle_s: float = circle_s
        self.rounds: i64 = rounds  # circles in a period of the job
        whole = float(int(burst_s / circle_s))
        other_whole = float(int(other_burst_s / circle_s))
        self.arc_s: float = burst_s - whole * circle_s
        self.other_arc_s: float = other_burst_s - other_whole * circle_s
        self.always_s: float = (
            whole * other_whole * circle_s + whole * self.other_arc_s + other_whole * self.arc_s
        )  # overlap whatever the shifts
        self.of_both_s: float = burst_s * other_burst_s / circle_s  # overlap at random shifts, on average

    def overlap_s(self, shift_s: float, other_shift_s: float) -> float:
        """Seconds of a circle during which both burst, counted as often as they do."""
        circle_s = self.circle_s
        offset_s = (other_shift_s - shift_s) % circle_s  # from its start to the other's
        direct_s = min(self.arc_s - offset_s, self.other_arc_s)
        wrapped_s = min(offset_s + self.other_arc_s - circle_s, self.arc_s)
        return self.always_s + max(direct_s, 0.0) + max(wrapped_s, 0.0)


picklable(Fold, 1.0, 1, 0.0, 0.0)


class Neighbour:
    """Another job on links of one, how much of them both need, and their common circle."""

    __slots__ = ("flow", "fold", "weight")

    def __init__(self, flow: Flow, fold: Fold, weight: float) -> None:
        self.flow: Flow = flow
        self.fold: Fold = fold
        self.weight: float = weight


def period_s(flow: Flow) -> float:
    """Seconds of a step alone."""
    return flow.demand.iteration_s(flow.demand.alone_s)


def burst_s(flow: Flow) -> float:
    """Seconds of a step in which it transfers alone."""
    return flow.demand.alone_s - flow.demand.cost.fixed_s


def fold_of(flow: Flow, other: Flow) -> Fold | None:
    """The circle that two jobs have in common; None where their periods drift, or one does not burst."""
    own_s = period_s(flow)
    other_s = period_s(other)
    burst = burst_s(flow)
    other_burst = burst_s(other)
    if burst <= 0.0 or other_burst <= 0.0:
        return None
    for steps in range(1, MOST_STEPS + 1):  # of the other, while it takes `rounds`
        rounds: i64 = int(float(steps) * own_s / other_s + 0.5)
        if rounds < 1 or rounds > MOST_STEPS:
            continue
        error = float(rounds) * other_s / (float(steps) * own_s) - 1.0
        if -SAME_RHYTHM <= error <= SAME_RHYTHM:
            circle_s = 0.5 * (own_s / float(rounds) + other_s / float(steps))
            return Fold(circle_s, rounds, burst, other_burst)
    return None


def meeting(flow: Flow, other: Flow) -> float:
    """How often the flow meets the other, against bursts at random; 0: never."""
    fold = fold_of(flow, other)
    return 1.0 if fold is None else fold.overlap_s(flow.shift_s, other.shift_s) / fold.of_both_s


class CassiniContention(PairwiseContention):
    """The jobs on every link, each with its shift in time."""

    __slots__ = ()

    def sharing(self) -> str:
        return CASSINI

    def try_on(self, flow: Flow, leaving: Flow | None) -> None:
        self._shift(flow, self._neighbours(flow, leaving))
        super().try_on(flow, leaving)

    def _arranged(self, flow: Flow) -> vec[i64]:
        left = self._shift(flow, self._neighbours(flow, None))
        changed: dict[int, bool] = {}
        for link in flow.demand.cost.links:
            changed[int(link)] = True
        sweeps = 0
        while left > LEAST_GAIN and sweeps < MOST_SWEEPS:
            sweeps += 1
            before = left
            for other in self.others(flow, None):
                shift_s = other.shift_s
                self._shift(other, self._neighbours(other, None))
                if other.shift_s != shift_s:
                    for link in other.demand.cost.links:
                        changed[int(link)] = True
            left = self._shift(flow, self._neighbours(flow, None))
            if left >= before - LEAST_GAIN:
                break
        links: vec[i64] = vec[i64]()
        for index in sorted(changed):
            links = append(links, index)
        return links

    def _neighbours(self, flow: Flow, leaving: Flow | None) -> list[Neighbour]:
        """Those on its links that are full if all transfer at once and whose rhythm goes with its own."""
        result: list[Neighbour] = []
        for other in self.others(flow, leaving):
            weight = 0.0
            for link in flow.demand.cost.links:
                if uses(other, link) and self._full(link, flow):
                    weight += flow.need(link) * other.need(link)
            if weight > 0.0:
                fold = fold_of(flow, other)
                if fold is not None:
                    result.append(Neighbour(other, fold, weight))
        return result

    def _full(self, link: i64, flow: Flow) -> bool:
        """Whether those on a link and the flow fill it if all transfer at once."""
        present = int(flow.job) in self.flows and self.flows[int(flow.job)] is flow
        return self.needs[link] + (0.0 if present else flow.need(link)) > 1.0

    def _shift(self, flow: Flow, neighbours: list[Neighbour]) -> float:
        """Give it the shift with the least weighted overlap, its own if none is better; what is left of it."""
        best = _overlap(flow.shift_s, neighbours)
        if best <= LEAST_GAIN:
            return best
        whole_s = period_s(flow)
        own_s = burst_s(flow)
        for neighbour in neighbours:  # the overlap is piecewise linear: least where a burst begins or ends
            other = neighbour.flow
            starts = (other.shift_s + burst_s(other), other.shift_s - own_s)
            for round_number in range(neighbour.fold.rounds):
                for start_s in starts:
                    shift_s = (start_s + float(round_number) * neighbour.fold.circle_s) % whole_s
                    left = _overlap(shift_s, neighbours)
                    if left < best - LEAST_GAIN:
                        best = left
                        flow.shift_s = shift_s
        return best

    def _ceiling(self, flow: Flow, place: i64, leaving: Flow | None, kappa: float) -> float:
        link = flow.demand.cost.links[place]
        meets = 0.0
        variance = 0.0
        for other in self.members[link]:
            if other is flow or other is leaving:
                continue
            weight = other.weights[place_of(other.demand.cost.links, link)]
            there = min(1.0, other.duty * meeting(flow, other))
            meets += weight * there
            variance += weight * weight * there * (1.0 - there)
        return slowdown(kappa * meets, variance)

    def _among(self, flow: Flow, place: i64, present: list[Flow]) -> float:
        link = flow.demand.cost.links[place]
        shares: vec[float] = vec[float]()
        busy: vec[float] = vec[float]()
        for other in present:
            shares = append(shares, requested(other, link))
            apart = 1.0 if other is flow else meeting(flow, other)
            busy = append(busy, min(1.0, other.busy * apart))
        return self._stretch(Shares(shares, busy), flow.need(link), present, flow)


picklable(CassiniContention, 0)


def _overlap(shift_s: float, neighbours: list[Neighbour]) -> float:
    """Weighted overlap with the neighbours at that shift, over what it would be at random."""
    result = 0.0
    for neighbour in neighbours:
        fold = neighbour.fold
        result += neighbour.weight * fold.overlap_s(shift_s, neighbour.flow.shift_s) / fold.circle_s
    return result
