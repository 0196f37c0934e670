"""Links where it depends on both jobs how often they meet: bursts kept apart in time, or priorities."""

from __future__ import annotations

from mypy_extensions import i64

from dally.perf.contention import Contention, Flow, place_of
from dally.perf.filling import Shares


class PairwiseContention(Contention):
    """The two steps of `Contention`, each job with its own view of the others on a link."""

    def _ceiling(self, flow: Flow, place: i64, leaving: Flow | None, kappa: float) -> float:
        """How many times as long its transfer takes at most on its link of that place."""
        raise NotImplementedError

    def _among(self, flow: Flow, place: i64, present: list[Flow]) -> float:
        """How many times as long it takes there beside those present, the flow among them."""
        raise NotImplementedError

    def _rate(self, flow: Flow, leaving: Flow | None = None) -> float:
        cost = flow.demand.cost
        busiest = cost.private_s
        flow.link = -1
        flow.link_s = 0.0
        flow.next_s = 0.0
        for place in range(len(cost.links)):
            seconds = cost.seconds[place] * self._ceiling(flow, place, leaving, 1.0)
            if seconds > flow.link_s:
                flow.next_s = flow.link_s
                flow.link_s = seconds
                flow.link = cost.links[place]
            elif seconds > flow.next_s:
                flow.next_s = seconds
            if self.kappa > 1.0:
                seconds = cost.seconds[place] * self._ceiling(flow, place, leaving, self.kappa)
            if seconds > busiest:
                busiest = seconds
        return cost.fixed_s + busiest

    def _shared_s(self, flow: Flow) -> float:
        cost = flow.demand.cost
        longest = 1.0
        for place in range(len(cost.links)):
            link = cost.links[place]
            if self.filled[link] == self.changes:
                full = self.needs[link] > 1.0
                flow.stretches[place] = self._among(flow, place, self.members[link]) if full else 1.0
            if flow.stretches[place] > longest:
                longest = flow.stretches[place]
        return cost.fixed_s + (flow.demand.alone_s - cost.fixed_s) * longest

    def _fill(self, link: i64) -> None:
        self.filled[link] = self.changes

    def _stretch_if(
        self, link: i64, flow: Flow, joining: Flow | None, leaving: Flow | None, known: dict[int, Shares]
    ) -> float:
        return self._among(flow, place_of(flow.demand.cost.links, link), self._present(link, joining, leaving))


def requested(flow: Flow, link: i64) -> float:
    """The share of a link that a flow asks for while it transfers, by what holds it up elsewhere."""
    cost = flow.demand.cost
    return cost.seconds[place_of(cost.links, link)] / flow.elsewhere_s(link)
