"""Crux: on shared links, jobs that compute more for each second of communication go first.

Cao et al., Crux: GPU-Efficient Communication Scheduling for Deep Learning Training (SIGCOMM 2024, DOI
10.1145/3651890.3672239). A job's GPU intensity is its GPU time per step ÷ its seconds on its busiest link. Its
priority is that times a factor for what its step feels: here the share of a second of communication more by which
the step is longer if communication takes twice as long.

A link serves jobs strictly by priority, equal ones fairly. What those that go first leave of a job's speed: they
wait for each other, so the times at which one of them is there add up; and a link has no more than they leave of
it. At least `LEAST_LEFT` of the speed is left, so that no job starves.

Departures: priorities are as many as there are jobs (the paper's NICs and switches have eight, into which it
compresses them); paths are not chosen anew (`routing` states how flows are spread); and the paper finds its factor
by comparing a job with a reference job on one link.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.perf.contention import Flow, place_of, slowdown, uses
from dally.perf.filling import Shares
from dally.perf.iteration import Demand
from dally.perf.pairwise_sharing import PairwiseContention, requested
from dally.pickles import picklable

CRUX: Final = "crux"
LEAST_LEFT: Final = 0.05


class CruxContention(PairwiseContention):
    """The jobs on every link, the lowest `rank` first: minus the priority."""

    __slots__ = ()

    def sharing(self) -> str:
        return CRUX

    def rank(self, left_gpu_s: float, gpus: i64, demand: Demand) -> float:
        busiest_s = 0.0
        for seconds in demand.cost.seconds:
            if seconds > busiest_s:
                busiest_s = seconds
        if busiest_s <= 0.0:
            return 0.0
        felt = (demand.iteration_s(2.0 * demand.alone_s) - demand.iteration_s(demand.alone_s)) / demand.alone_s
        return -felt * float(gpus) * demand.compute_s() / busiest_s

    def _rate(self, flow: Flow, leaving: Flow | None = None) -> float:
        equals_s = super()._rate(flow, leaving)
        fixed_s = flow.demand.cost.fixed_s
        higher = [other for other in self.others(flow, leaving) if other.rank < flow.rank]
        return fixed_s + (equals_s - fixed_s) / self._speed(flow, higher)

    def _shared_s(self, flow: Flow) -> float:
        equals_s = super()._shared_s(flow)
        fixed_s = flow.demand.cost.fixed_s
        higher = [other for other in self.others(flow, None) if other.rank < flow.rank]
        return fixed_s + (equals_s - fixed_s) / self._speed(flow, higher)

    def comm_if_s(self, flow: Flow, joining: Flow | None, leaving: Flow | None, known: dict[int, Shares]) -> float:
        equals_s = super().comm_if_s(flow, joining, leaving, known)
        fixed_s = flow.demand.cost.fixed_s
        higher = [other for other in self.others(flow, leaving) if other.rank < flow.rank]
        if joining is not None and joining is not flow and joining.rank < flow.rank:
            higher.append(joining)
        return fixed_s + (equals_s - fixed_s) / self._speed(flow, higher)

    def _speed(self, flow: Flow, higher: list[Flow]) -> float:
        """What those that go first leave of its speed."""
        links = flow.demand.cost.links
        free = vec[float]([1.0] * len(links))  # on average
        speed = 1.0
        for other in higher:
            transfer_s = other.demand.alone_s - other.demand.cost.fixed_s
            there = transfer_s / other.demand.iteration_s(other.rough_s)  # held up or not, it needs as long
            lost = 0.0
            for place in range(len(links)):
                if uses(other, links[place]):
                    taken = other.need(links[place])
                    free[place] -= there * taken
                    own = flow.need(links[place])
                    if own > 1.0 - taken and 1.0 - (1.0 - taken) / own > lost:
                        lost = 1.0 - (1.0 - taken) / own
            speed -= there * lost
        for place in range(len(links)):
            own = flow.need(links[place])
            if own > 0.0 and free[place] / own < speed:
                speed = free[place] / own
        return speed if speed > LEAST_LEFT else LEAST_LEFT

    def _ceiling(self, flow: Flow, place: i64, leaving: Flow | None, kappa: float) -> float:
        link = flow.demand.cost.links[place]
        meets = 0.0
        variance = 0.0
        for other in self.members[link]:
            if other is not flow and other is not leaving and other.rank == flow.rank:
                weight = other.weights[place_of(other.demand.cost.links, link)]
                meets += weight * other.duty
                variance += weight * weight * other.duty * (1.0 - other.duty)
        return slowdown(kappa * meets, variance)

    def _among(self, flow: Flow, place: i64, present: list[Flow]) -> float:
        link = flow.demand.cost.links[place]
        shares: vec[float] = vec[float]()
        busy: vec[float] = vec[float]()
        equals: list[Flow] = []
        for other in present:
            if other is flow or other.rank == flow.rank:
                equals.append(other)
                shares = append(shares, requested(other, link))
                busy = append(busy, other.busy)
        return self._stretch(Shares(shares, busy), flow.need(link), equals, flow)


picklable(CruxContention, 0)
