"""Jobs that share links: how much longer each communicates, kept up to date as jobs come and go.

Mean field: a job sees another on a link for the share of time the other communicates (its duty). In two steps:

1. A ceiling, to a fixed point: `rough_j = fixed_j + max(private_j, max over links base_jl · slowdown(P, V))`,
   where P = κ · Σ_{i≠j} weight_il · duty_i is how many others it meets on average and V = Σ weight² · duty ·
   (1 - duty) its variance. Nobody is held up elsewhere here, so it only grows with every job: it converges,
   and to the same values in whatever order jobs came.
2. From it, once: a gang that another link holds up asks less of this one. Each link is filled up to a level
   that those who ask for more get, on average; `comm_j = fixed_j + transfer_j · E[max(1, X)]`, X = own need ÷
   level. So one more job may speed up the neighbour of a job that it slows, as max-min sharing does.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.perf.costs import Cost
from dally.perf.filling import Shares
from dally.perf.iteration import Demand
from dally.pickles import picklable

KAPPA: Final = 1.0
TOLERANCE: Final = 1e-4  # relative change of a communication time below which nobody else is told
MOST_ROUNDS: Final = 1000
SPREAD: Final = 0.6366197723675814  # 2/π


def slowdown(meets: float, variance: float) -> float:
    """How much longer a transfer takes beside that many others, on average.

    Not 1 + P: that is the mean of the slowdowns, and what adds up over a transfer is its speed. So this is
    1 / E[1 / (1 + K)] to second order in K. It is 1 + P when the others never pause, it grows with every
    duty (so one more job never helps), and against max-min sharing it halves the error of 1 + P.
    """
    whole = 1.0 + meets
    return whole / (1.0 + variance / (whole * whole))


def longer(mean: float, variance: float) -> float:
    """E[max(1, X)] of an X of that mean and variance: how much longer a transfer takes that X holds up.

    Exact far from 1, where X never or always holds it up, and at 1 for a bell curve.
    """
    excess = mean - 1.0
    return 1.0 + 0.5 * (excess + sqrt(excess * excess + SPREAD * variance))


class Flow:
    """One job's communication: its demand, and what the others make of it."""

    __slots__ = (
        "busy", "change", "comm_s", "demand", "duty", "job", "link", "link_s", "next_s", "queued", "rank",
        "rough_s", "shift_s", "stretches", "weights",
    )  # fmt: skip

    def __init__(self, job: i64, demand: Demand, rank: float = 0.0) -> None:
        self.job: i64 = job
        self.demand: Demand = demand
        self.rank: float = rank  # its place in the queue where links have one (perf/adadual.py), lowest first
        self.shift_s: float = 0.0  # in time, of its bursts where they are interleaved (perf/cassini.py)
        self.comm_s: float = demand.alone_s
        self.rough_s: float = demand.alone_s  # its ceiling
        self.link: i64 = -1  # the link that holds it up longest,
        self.link_s: float = 0.0  # for how long,
        self.next_s: float = 0.0  # and for how long the others do
        self.change: i64 = 0  # the latest change that touched it
        self.duty: float = 0.0  # the share of time it communicates,
        self.busy: float = 0.0  # and that it transfers: without latencies
        self.note_duty()
        self.queued: bool = False
        self.stretches: vec[float] = vec[float]([1.0] * len(demand.cost.links))  # what each link makes of it
        # How much of a fair share it takes of each link while it communicates. A job held up elsewhere
        # (another link, its fabric, latency) leaves the rest to the others: with u the share of the link
        # it needs, they run at 1 - u instead of 1/2. From the time alone, so that competition never
        # makes a job look lighter to its neighbours and one more job never lowers anybody's ceiling.
        self.weights: vec[float] = vec[float]()
        for seconds in demand.cost.seconds:
            share = seconds / demand.alone_s
            self.weights = append(self.weights, share / (1.0 - share) if share < 0.5 else 1.0)

    def note_duty(self) -> None:
        """Work out how often it is there from its ceiling."""
        self.duty = self.demand.duty(self.rough_s)
        if self.rough_s > 0.0:
            self.busy = self.duty * (1.0 - self.demand.cost.fixed_s / self.rough_s)

    def need(self, link: i64) -> float:
        """The share of a link that it fills while it transfers alone."""
        cost = self.demand.cost
        return cost.seconds[place_of(cost.links, link)] / (self.demand.alone_s - cost.fixed_s)

    def elsewhere_s(self, link: i64) -> float:
        """Seconds that its transfer takes at least because of anything but this link."""
        others_s = self.next_s if self.link == link else self.link_s
        alone_s = self.demand.alone_s - self.demand.cost.fixed_s
        return others_s if others_s > alone_s else alone_s


picklable(Flow, 0, Demand(0.0, 0.0, Cost(), 0.0))


class Contention:
    """The jobs on every link. A change costs as much as the jobs it reaches, not as all there are."""

    __slots__ = (
        "changes", "filled", "flows", "kappa", "meets", "members", "needs", "seconds", "shares", "tolerance",
        "variance",
    )  # fmt: skip

    def __init__(self, links: i64, kappa: float = KAPPA, tolerance: float = TOLERANCE) -> None:
        self.kappa: float = kappa  # what each other costs; above 1 where sharing itself loses bandwidth
        self.tolerance: float = tolerance
        self.changes: i64 = 0  # so far
        self.flows: dict[int, Flow] = {}  # by job; looked up, never iterated
        self.members: list[list[Flow]] = [[] for _ in range(links)]  # by job number
        self.seconds: list[vec[float]] = [vec[float]() for _ in range(links)]  # alone, of a link's members
        self.needs: vec[float] = vec[float]([0.0] * int(links))  # share of it that they fill all at once
        self.meets: vec[float] = vec[float]([0.0] * int(links))  # Σ weight · duty of a link's jobs
        self.variance: vec[float] = vec[float]([0.0] * int(links))  # Σ weight² · duty · (1 - duty)
        self.filled: vec[i64] = vec[i64]([0] * int(links))  # the change for which its members' shares were noted:
        unused = Shares(vec[float](), vec[float]())
        self.shares: list[Shares] = [unused for _ in range(links)]

    def sharing(self) -> str:
        """What this way of sharing links is called."""
        return "fair"

    def add(self, job: i64, demand: Demand, rank: float = 0.0) -> list[int]:
        """Place a job; the jobs whose communication time changed, itself among them, lowest first."""
        flow = Flow(job, demand, rank)
        self.flows[int(job)] = flow
        for place in range(len(demand.cost.links)):
            link = demand.cost.links[place]
            members = self.members[link]
            at: i64 = len(members)
            while at > 0 and members[at - 1].job > job:
                at -= 1
            members.insert(at, flow)
            self._sum(link)
        return self._settle(self._arranged(flow), flow)

    def rank(self, left_gpu_s: float, gpus: i64, demand: Demand) -> float:
        """The place in the queue of a job that needs so much GPU time yet, where links have a queue."""
        return left_gpu_s

    def _arranged(self, flow: Flow) -> vec[i64]:
        """The links on which jobs see each other differently now that the flow is there."""
        return flow.demand.cost.links

    def remove(self, job: i64) -> list[int]:
        """Take a job away; the other jobs whose communication time changed, lowest first."""
        flow = self.flows.pop(int(job))
        for link in flow.demand.cost.links:
            self.members[link].remove(flow)
            self._sum(link)
        return self._settle(flow.demand.cost.links, None)

    def comm_s(self, job: i64) -> float:
        """Seconds of communication per iteration, hidden or not."""
        return self.flows[int(job)].comm_s

    def iteration_s(self, job: i64) -> float:
        """Seconds per iteration."""
        flow = self.flows[int(job)]
        return flow.demand.iteration_s(flow.comm_s)

    def load(self, link: i64) -> float:
        """The share of time a link is busy with our jobs; at most 1."""
        busy = 0.0
        for flow in self.members[link]:
            demand = flow.demand
            busy += demand.cost.seconds[place_of(demand.cost.links, link)] / demand.iteration_s(flow.comm_s)
        return busy if busy < 1.0 else 1.0

    def others(self, flow: Flow, leaving: Flow | None) -> list[Flow]:
        """Those who use a link of that flow, it and `leaving` aside, each once."""
        result: dict[int, Flow] = {}
        for link in flow.demand.cost.links:
            for other in self.members[link]:
                if other is not flow and other is not leaving:
                    result[int(other.job)] = other
        return list(result.values())

    def try_on(self, flow: Flow, leaving: Flow | None) -> None:
        """Note on a flow that is not there its times if it came and `leaving` went; one step, no other changes."""
        flow.duty = 0.0  # as nothing of it is in the sums
        flow.rough_s = self._rate(flow, leaving)
        flow.note_duty()
        flow.comm_s = self.comm_if_s(flow, flow, leaving, {})

    def comm_if_s(self, flow: Flow, joining: Flow | None, leaving: Flow | None, known: dict[int, Shares]) -> float:
        """Communication seconds of a flow if one came and another went; one step, nothing changes.

        `known`: what would be asked of links, to be handed on as long as those two are the same.
        """
        cost = flow.demand.cost
        longest = 1.0
        for place in range(len(cost.links)):
            link = cost.links[place]
            stretch = flow.stretches[place]
            if flow is joining or uses(joining, link) or uses(leaving, link):
                stretch = self._stretch_if(link, flow, joining, leaving, known)
            if stretch > longest:
                longest = stretch
        return cost.fixed_s + (flow.demand.alone_s - cost.fixed_s) * longest

    def _present(self, link: i64, joining: Flow | None, leaving: Flow | None) -> list[Flow]:
        """Those on a link if one came and another went."""
        present = [other for other in self.members[link] if other is not leaving]
        if joining is not None and uses(joining, link):
            present.append(joining)
        return present

    def _stretch_if(
        self, link: i64, flow: Flow, joining: Flow | None, leaving: Flow | None, known: dict[int, Shares]
    ) -> float:
        present = self._present(link, joining, leaving)
        shares = known.get(int(link))
        if shares is None:
            shares = _shares_of(present, link)
            known[int(link)] = shares
        return self._stretch(shares, flow.need(link), present, flow)

    def _settle(self, links: vec[i64], newcomer: Flow | None) -> list[int]:
        """Re-rate from these links outwards until nobody's ceiling changes any more; then the times below it."""
        self.changes += 1
        wave: list[Flow] = []
        if newcomer is not None:
            newcomer.queued = True
            wave.append(newcomer)
        for link in links:
            self._call(link, wave)
        reached = self._raise_ceilings(wave)
        for link in links:
            self._call(link, reached)
            self._fill(link)
        if newcomer is not None and not newcomer.queued:
            newcomer.queued = True
            reached.append(newcomer)
        reached.sort(key=_number)
        return self._share(reached, newcomer)

    def _raise_ceilings(self, wave: list[Flow]) -> list[Flow]:
        """Rate these and whom they touch to a fixed point; all who share a link with a flow that changed."""
        stirred: list[Flow] = []
        rounds: i64 = 0
        while wave and rounds < MOST_ROUNDS:
            wave.sort(key=_number)
            following: list[Flow] = []
            for flow in wave:
                flow.queued = False
                next_s = flow.next_s
                rough_s = self._rate(flow)
                moved = self._differ(rough_s, flow.rough_s)
                if flow.change != self.changes and (moved or self._differ(next_s, flow.next_s)):
                    flow.change = self.changes
                    stirred.append(flow)
                if moved:
                    flow.rough_s = rough_s
                    self._spread(flow, following)
            wave = following
            rounds += 1
        for flow in wave:
            flow.queued = False
        reached: list[Flow] = []
        for flow in stirred:
            for link in flow.demand.cost.links:
                if self.needs[link] > 1.0:  # else nobody there holds anybody up
                    self._call(link, reached)
                    self._fill(link)
        return reached

    def _share(self, reached: list[Flow], newcomer: Flow | None) -> list[int]:
        """Give these their times; the jobs whose time changed, and the newcomer."""
        result: list[int] = []
        for flow in reached:
            flow.queued = False
            comm_s = self._shared_s(flow)
            if flow is newcomer or self._differ(comm_s, flow.comm_s):
                flow.comm_s = comm_s
                result.append(int(flow.job))
        return result

    def _differ(self, one_s: float, other_s: float) -> bool:
        change = one_s - other_s
        return change > self.tolerance * one_s or -change > self.tolerance * one_s

    def _rate(self, flow: Flow, leaving: Flow | None = None) -> float:
        """Its ceiling, if `leaving` went; notes on the flow which link makes it so, and what the others would."""
        demand = flow.demand
        busiest = demand.cost.private_s
        spread = flow.duty * (1.0 - flow.duty)
        flow.link = -1
        flow.link_s = 0.0
        flow.next_s = 0.0
        for place in range(len(demand.cost.links)):
            link = demand.cost.links[place]
            weight = flow.weights[place]
            meets = self.meets[link] - weight * flow.duty
            variance = self.variance[link] - weight * weight * spread
            if leaving is not None:
                gone = _weight_on(leaving, link)
                meets -= gone * leaving.duty
                variance -= gone * gone * leaving.duty * (1.0 - leaving.duty)
            if meets <= 0.0:  # nobody else, but for rounding
                meets = 0.0
                variance = 0.0
            elif variance < 0.0:
                variance = 0.0
            seconds = demand.cost.seconds[place] * slowdown(meets, variance)
            if seconds > flow.link_s:
                flow.next_s = flow.link_s
                flow.link_s = seconds
                flow.link = link
            elif seconds > flow.next_s:
                flow.next_s = seconds
            # What sharing loses is lost on every link alike: it makes nobody ask less of the others.
            if self.kappa > 1.0:
                seconds = demand.cost.seconds[place] * slowdown(self.kappa * meets, variance)
            if seconds > busiest:
                busiest = seconds
        return demand.cost.fixed_s + busiest

    def _shared_s(self, flow: Flow) -> float:
        """Its communication time beside all others as they are."""
        cost = flow.demand.cost
        transfer_s = flow.demand.alone_s - cost.fixed_s
        longest = 1.0
        for place in range(len(cost.links)):
            link = cost.links[place]
            if self.filled[link] == self.changes:  # else nobody on it changed
                stretch = 1.0  # if there is room for all at once
                if self.needs[link] > 1.0:
                    need = cost.seconds[place] / transfer_s
                    stretch = self._stretch(self.shares[link], need, self.members[link], flow)
                flow.stretches[place] = stretch
            if flow.stretches[place] > longest:
                longest = flow.stretches[place]
        return cost.fixed_s + transfer_s * longest

    def _fill(self, link: i64) -> None:
        """Note what a link's members ask of it; once for every change."""
        if self.filled[link] == self.changes:
            return
        self.filled[link] = self.changes
        if self.needs[link] > 1.0:
            self.shares[link] = _shares_of(self.members[link], link)

    def _stretch(self, shares: Shares, need: float, present: list[Flow], flow: Flow) -> float:
        """How much longer a transfer of that need takes on a link of which those present ask so much."""
        if need * float(len(present)) <= 1.0:  # a fair share is enough
            return 1.0
        at: i64 = 0
        while present[at] is not flow:
            at += 1
        own = shares.places[at]
        if need + shares.all - shares.shares[own] <= 1.0:  # there is room for all at once
            return 1.0
        shares.share_with(own)
        return longer(need * (1.0 + self.kappa * shares.meets), need * need * shares.variance)

    def _spread(self, flow: Flow, following: list[Flow]) -> None:
        before = flow.duty
        flow.note_duty()
        change = flow.duty - before
        spread = flow.duty * (1.0 - flow.duty) - before * (1.0 - before)
        links = flow.demand.cost.links
        for place in range(len(links)):
            weight = flow.weights[place]
            self.meets[links[place]] += weight * change
            self.variance[links[place]] += weight * weight * spread
        for link in links:
            self._call(link, following)

    def _call(self, link: i64, wave: list[Flow]) -> None:
        for flow in self.members[link]:
            if not flow.queued:
                flow.queued = True
                wave.append(flow)

    def _sum(self, link: i64) -> None:
        """Add a link's jobs up afresh, so that rounding never builds up."""
        meets = 0.0
        variance = 0.0
        needs = 0.0
        seconds: vec[float] = vec[float]()
        for flow in self.members[link]:
            place = place_of(flow.demand.cost.links, link)
            alone_s = flow.demand.cost.seconds[place]
            seconds = append(seconds, alone_s)
            needs += alone_s / (flow.demand.alone_s - flow.demand.cost.fixed_s)
            weight = flow.weights[place]
            meets += weight * flow.duty
            variance += weight * weight * flow.duty * (1.0 - flow.duty)
        self.seconds[link] = seconds
        self.needs[link] = needs
        self.meets[link] = meets
        self.variance[link] = variance


picklable(Contention, 0)


def place_of(links: vec[i64], link: i64) -> i64:
    """Where the link is among a flow's."""
    place: i64 = 0
    while links[place] != link:
        place += 1
    return place


def uses(flow: Flow | None, link: i64) -> bool:
    """Whether there is a flow and it takes that link."""
    if flow is not None:
        for other in flow.demand.cost.links:
            if other == link:
                return True
    return False


def _weight_on(flow: Flow, link: i64) -> float:
    return flow.weights[place_of(flow.demand.cost.links, link)] if uses(flow, link) else 0.0


def _shares_of(present: list[Flow], link: i64) -> Shares:
    """What flows on a link ask of it, each by what holds it up elsewhere."""
    shares: vec[float] = vec[float]()
    busy: vec[float] = vec[float]()
    for flow in present:
        cost = flow.demand.cost
        shares = append(shares, cost.seconds[place_of(cost.links, link)] / flow.elsewhere_s(link))
        busy = append(busy, flow.busy)
    return Shares(shares, busy)


def _number(flow: Flow) -> int:
    return int(flow.job)
