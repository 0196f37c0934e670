"""Links on which AdaDUAL admits transfers one by one, instead of sharing them fairly at any time.

Mean field, as for fair sharing: who meets whom is a matter of probability. On a link where j's transfer takes
t_j seconds alone and i's takes t_i, with θ the threshold of AdaDUAL and 1 + η/b = 1/(2θ):

- j begins while i is in flight, with probability t_i / period_i and a remainder u uniform in (0, t_i). It
  overlaps if t_j < θ·u, and takes t_j/(2θ) longer; else it waits for u. On average min(t_i, t_j/θ) / 2.
- j begins while i waits in line, with probability (comm_i - alone_i) / period_i: once i's turn has come, j
  overlaps if t_j < θ·t_i, for t_j/(2θ), else it waits for all of t_i.
- i begins while j is in flight, and overlaps if t_i < θ·rest of j: t_i·(t_j - t_i/θ) / (2θ·period_i) on
  average; all such guests together at most t_j/(2θ), as there is one at a time. The period is i's alone, so
  that competition never makes a job look lighter to its neighbours.

These sum up over the others on the link and, through the periods, to a fixed point. Every term grows with
what the others communicate, so one more job never speeds anybody up. Two departures from the paper: who
waits is served in order of arrival, not of remaining service; and each link of a gang is taken by itself, the
slowest counts.
"""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.perf.adadual import THRESHOLD
from dally.perf.contention import TOLERANCE, Contention, Flow, place_of


class AdaDualContention(Contention):
    """The jobs on every link, when transfers wait for each other unless AdaDUAL lets them overlap."""

    __slots__ = ("seconds",)

    def __init__(self, links: i64, tolerance: float = TOLERANCE) -> None:
        super().__init__(links, 1.0, tolerance)
        self.seconds: list[vec[float]] = [vec[float]() for _ in range(links)]  # alone, of a link's members

    def _rate(self, flow: Flow) -> float:
        demand = flow.demand
        busiest = demand.cost.private_s
        for place in range(len(demand.cost.links)):
            seconds = demand.cost.seconds[place]
            seconds += self._held_up_s(flow, demand.cost.links[place], seconds)
            if seconds > busiest:
                busiest = seconds
        return demand.cost.fixed_s + busiest

    def _held_up_s(self, flow: Flow, link: i64, own_s: float) -> float:
        """How much longer the flow's transfer takes because of the others on the link."""
        most_s = own_s / THRESHOLD  # longer remainders let it overlap
        overlap_s = 0.5 * most_s  # what overlapping costs the shorter of two
        waits_s = 0.0
        guests_s = 0.0
        members = self.members[link]
        seconds = self.seconds[link]
        for at in range(len(members)):
            other = members[at]
            if other is flow:
                continue
            other_s = seconds[at]
            demand = other.demand
            line_s = other.comm_s - demand.alone_s
            period_s = demand.iteration_s(other.comm_s)
            if most_s < other_s:
                waits_s += overlap_s * (other_s + line_s) / period_s
            else:
                waits_s += other_s * (0.5 * other_s + line_s) / period_s
            if other_s < THRESHOLD * own_s:
                guest_s = other_s * (own_s - other_s / THRESHOLD)
                guests_s += guest_s / (2.0 * THRESHOLD * demand.iteration_s(demand.alone_s))
        return waits_s + (guests_s if guests_s < overlap_s else overlap_s)

    def _spread(self, flow: Flow, following: list[Flow]) -> None:
        for link in flow.demand.cost.links:
            self._call(link, following)

    def _sum(self, link: i64) -> None:
        seconds: vec[float] = vec[float]()
        for flow in self.members[link]:
            cost = flow.demand.cost
            seconds = append(seconds, cost.seconds[place_of(cost.links, link)])
        self.seconds[link] = seconds
