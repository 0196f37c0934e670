"""AdaDUAL: links on which transfers are admitted one by one, instead of sharing them fairly at any time.

Wang, Shi, Wang, Chu: Communication Contention Aware Scheduling of Multiple Deep Learning Training Jobs (arXiv
2002.10105). With k transfers on a link, M bytes take a + k·b·M + (k - 1)·η·M seconds; the constants were
measured there on 10 Gb Ethernet.

Mean field, as for fair sharing: who meets whom is a matter of probability. On a link where j's transfer takes
t_j seconds alone and i's takes t_i, with κ = 1 + η/b and θ = 1/(2κ) the threshold of AdaDUAL:

- j begins while i is in flight, with probability t_i / period_i and a remainder u uniform in (0, t_i). It
  overlaps if t_j < θ·u, and takes t_j/(2θ) longer; else it waits for u. On average min(t_i, t_j/θ) / 2.
- j begins while i waits in line, with probability (comm_i - alone_i) / period_i. If i has less service left it
  goes first. Once its turn has come, j overlaps if t_j < θ·t_i, for t_j/(2θ), else it waits for all of t_i.
- i begins while j is in flight, and overlaps if t_i < θ·rest of j: t_i·(t_j - t_i/θ) / (2θ·period_i) on
  average; all such guests together at most t_j/(2θ), as there is one at a time.

These add up over the others on one link, if they can fill it all at once. On different links they pass at the
same time: the longest counts.
Through the periods of those who go first it is a fixed point; all other periods are those alone. So every term
grows with what the others communicate, and one more job never speeds anybody up.

Departures from the paper: remaining service is what a job had left when it was placed. And the paper's machines
hang on one switch, so that a transfer fills every link it takes. Here uplinks are wider than a machine's NIC:
a transfer takes each link for the seconds it needs there, not for as long as it lasts. Otherwise two gangs
would close the uplink of a rack to all others.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.perf.contention import TOLERANCE, Contention, Flow, place_of
from dally.perf.filling import Shares
from dally.pickles import picklable

BYTE_S: Final = 8.53e-10  # b: seconds per byte alone
PENALTY_S: Final = 2.56e-10  # η: seconds per byte lost on top of the fair share
ETHERNET_KAPPA: Final = 1.0 + PENALTY_S / BYTE_S


class AdaDualContention(Contention):
    """The jobs on every link, when transfers wait for each other unless AdaDUAL lets them overlap."""

    __slots__ = ("threshold",)

    def __init__(self, links: i64, kappa: float = ETHERNET_KAPPA, tolerance: float = TOLERANCE) -> None:
        super().__init__(links, kappa, tolerance)
        self.threshold: float = 1.0 / (2.0 * kappa)

    def sharing(self) -> str:
        return "adadual"

    def _rate(self, flow: Flow, leaving: Flow | None = None) -> float:
        """Its time alone, and what the others add on its worst link: they wait for each other, or overlap."""
        longest_wait_s = 0.0
        most_guests_s = 0.0
        cost = flow.demand.cost
        for place in range(len(cost.links)):
            if self.needs[cost.links[place]] <= 1.0:  # there is room for all at once
                continue
            members = self.members[cost.links[place]]
            seconds = self.seconds[cost.links[place]]
            wait_s = self._wait_s(members, seconds, cost.seconds[place], flow)
            if wait_s > longest_wait_s:
                longest_wait_s = wait_s
            guests_s = self._guests_s(members, seconds, cost.seconds[place], flow)
            if guests_s > most_guests_s:
                most_guests_s = guests_s
        return flow.demand.alone_s + longest_wait_s + most_guests_s

    def _wait_s(self, members: list[Flow], seconds: vec[float], own_s: float, flow: Flow) -> float:
        """Seconds that those cost a transfer whom it finds in flight, or in line before it, on average."""
        wait_s = 0.0
        for at in range(len(members)):
            other = members[at]
            if other is flow:
                continue
            other_s = seconds[at]
            demand = other.demand
            line_s = 0.0
            period_s = demand.iteration_s(demand.alone_s)
            if other.rank < flow.rank or (other.rank == flow.rank and other.job < flow.job):
                line_s = other.rough_s - demand.alone_s
                period_s = demand.iteration_s(other.rough_s)
            if own_s < self.threshold * other_s:
                wait_s += self.kappa * own_s * (other_s + line_s) / period_s
            else:
                wait_s += other_s * (0.5 * other_s + line_s) / period_s
        return wait_s

    def _guests_s(self, members: list[Flow], seconds: vec[float], own_s: float, flow: Flow) -> float:
        """Seconds that those cost a transfer who begin beside it, on average."""
        guests_s = 0.0
        for at in range(len(members)):
            other_s = seconds[at]
            if other_s < self.threshold * own_s and members[at] is not flow:
                demand = members[at].demand
                beside_s = own_s - other_s / self.threshold
                guests_s += self.kappa * other_s * beside_s / demand.iteration_s(demand.alone_s)
        most_s = self.kappa * own_s
        return guests_s if guests_s < most_s else most_s

    def _shared_s(self, flow: Flow) -> float:
        return flow.rough_s

    def _fill(self, link: i64) -> None:
        """Nothing: links are not shared but taken in turn."""

    def try_on(self, flow: Flow, leaving: Flow | None) -> None:
        flow.rough_s = self.comm_if_s(flow, flow, leaving, {})
        flow.comm_s = flow.rough_s

    def comm_if_s(self, flow: Flow, joining: Flow | None, leaving: Flow | None, known: dict[int, Shares]) -> float:
        longest_wait_s = 0.0
        most_guests_s = 0.0
        cost = flow.demand.cost
        for place in range(len(cost.links)):
            link = cost.links[place]
            present = self._present(link, joining, leaving)
            seconds: vec[float] = vec[float]()
            needs = 0.0
            for other in present:
                seconds = append(seconds, other.demand.cost.seconds[place_of(other.demand.cost.links, link)])
                needs += other.need(link)
            if needs <= 1.0:
                continue
            own_s = cost.seconds[place]
            longest_wait_s = max(longest_wait_s, self._wait_s(present, seconds, own_s, flow))
            most_guests_s = max(most_guests_s, self._guests_s(present, seconds, own_s, flow))
        return flow.demand.alone_s + longest_wait_s + most_guests_s

    def _spread(self, flow: Flow, following: list[Flow]) -> None:
        for link in flow.demand.cost.links:
            self._call(link, following)


picklable(AdaDualContention, 0)
