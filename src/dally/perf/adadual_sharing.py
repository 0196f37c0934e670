"""Links on which AdaDUAL admits transfers one by one, instead of sharing them fairly at any time.

Mean field, as for fair sharing: who meets whom is a matter of probability. On a link where j's transfer takes
t_j seconds alone and i's takes t_i, with θ the threshold of AdaDUAL and 1 + η/b = 1/(2θ):

- j begins while i is in flight, with probability t_i / period_i and a remainder u uniform in (0, t_i). It
  overlaps if t_j < θ·u, and takes t_j/(2θ) longer; else it waits for u. On average min(t_i, t_j/θ) / 2.
- j begins while i waits in line, with probability (comm_i - alone_i) / period_i. Once i's turn has come, j
  overlaps if t_j < θ·t_i, for t_j/(2θ), else it waits for all of t_i.
- i begins while j is in flight, and overlaps if t_i < θ·rest of j: t_i·(t_j - t_i/θ) / (2θ·period_i) on
  average; all such guests together at most t_j/(2θ), as there is one at a time. The period is i's alone, so
  that competition never makes a job look lighter to its neighbours.

Where two meet on several links, the one where they hold each other up longest counts. These sum up over the
others and, through the periods, to a fixed point. Every term grows with what the others communicate, so one
more job never speeds anybody up.

Departures from the paper: who waits is served in order of arrival, not of remaining service. And its machines
hang on one switch, so that a transfer fills every link it takes. Here uplinks are wider than a machine's NIC:
a transfer takes each link for the seconds it needs there, not for as long as it lasts. Otherwise two gangs
would close the uplink of a rack to all others (Venus, normal network: mean completion time four times as long).
"""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.perf.adadual import THRESHOLD
from dally.perf.contention import TOLERANCE, Contention, Flow, place_of
from dally.pickles import picklable


class AdaDualContention(Contention):
    """The jobs on every link, when transfers wait for each other unless AdaDUAL lets them overlap."""

    __slots__ = ("ratings", "seconds")

    def __init__(self, links: i64, tolerance: float = TOLERANCE) -> None:
        super().__init__(links, 1.0, tolerance)
        self.ratings: i64 = 0  # so far
        self.seconds: list[vec[float]] = [vec[float]() for _ in range(links)]  # alone, of a link's members

    def sharing(self) -> str:
        return "adadual"

    def _rate(self, flow: Flow) -> float:
        """Its time alone, and what the others add: they wait for each other, or overlap."""
        self.ratings += 1
        links = flow.demand.cost.links
        waits_s = 0.0
        guests_s = 0.0
        most_guests_s = 0.0
        for place in range(len(links)):
            own_s = flow.demand.cost.seconds[place]
            overlap_s = own_s / (2.0 * THRESHOLD)
            if overlap_s > most_guests_s:
                most_guests_s = overlap_s
            members = self.members[links[place]]
            seconds = self.seconds[links[place]]
            for at in range(len(members)):
                other = members[at]
                if other is flow:
                    continue
                if other.rating != self.ratings:
                    other.rating = self.ratings
                    other.wait_s = 0.0
                    other.guest_s = 0.0
                wait_s = _wait_s(other, seconds[at], own_s)
                if wait_s > other.wait_s:
                    waits_s += wait_s - other.wait_s
                    other.wait_s = wait_s
                if seconds[at] < THRESHOLD * own_s:
                    guest_s = _guest_s(other, seconds[at], own_s)
                    if guest_s > other.guest_s:
                        guests_s += guest_s - other.guest_s
                        other.guest_s = guest_s
        return flow.demand.alone_s + waits_s + (guests_s if guests_s < most_guests_s else most_guests_s)

    def comm_if_s(self, flow: Flow, joining: Flow | None, leaving: Flow | None) -> float:
        waits_s: dict[int, float] = {}  # what each other costs it, on the link where that is most
        guests_s: dict[int, float] = {}
        most_guests_s = 0.0
        links = flow.demand.cost.links
        for place in range(len(links)):
            own_s = flow.demand.cost.seconds[place]
            most_guests_s = max(most_guests_s, own_s / (2.0 * THRESHOLD))
            present = [other for other in self.members[links[place]] if other is not flow and other is not leaving]
            if joining is not None:
                present.append(joining)
            for other in present:
                other_s = _seconds_on(other, links[place])
                if other_s <= 0.0:
                    continue
                job = int(other.job)
                waits_s[job] = max(waits_s.get(job, 0.0), _wait_s(other, other_s, own_s))
                if other_s < THRESHOLD * own_s:
                    guests_s[job] = max(guests_s.get(job, 0.0), _guest_s(other, other_s, own_s))
        return flow.demand.alone_s + sum(waits_s.values()) + min(sum(guests_s.values()), most_guests_s)

    def _spread(self, flow: Flow, following: list[Flow]) -> None:
        for link in flow.demand.cost.links:
            self._call(link, following)

    def _sum(self, link: i64) -> None:
        seconds: vec[float] = vec[float]()
        for flow in self.members[link]:
            cost = flow.demand.cost
            seconds = append(seconds, cost.seconds[place_of(cost.links, link)])
        self.seconds[link] = seconds


picklable(AdaDualContention, 0)


def _seconds_on(flow: Flow, link: i64) -> float:
    """Seconds alone of a flow's transfer on that link; 0 if it does not use it."""
    links = flow.demand.cost.links
    for place in range(len(links)):
        if links[place] == link:
            return flow.demand.cost.seconds[place]
    return 0.0


def _wait_s(other: Flow, other_s: float, own_s: float) -> float:
    """Seconds that the other costs a transfer that finds it in flight or in line, times how often it does."""
    period_s = other.demand.iteration_s(other.comm_s)
    line_s = other.comm_s - other.demand.alone_s
    if own_s < THRESHOLD * other_s:
        return own_s / (2.0 * THRESHOLD) * (other_s + line_s) / period_s
    return other_s * (0.5 * other_s + line_s) / period_s


def _guest_s(other: Flow, other_s: float, own_s: float) -> float:
    """Seconds that the other costs a transfer beside which it begins, times how often it does."""
    alone_s = other.demand.iteration_s(other.demand.alone_s)
    return other_s * (own_s - other_s / THRESHOLD) / (2.0 * THRESHOLD * alone_s)
