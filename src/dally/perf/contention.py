"""Jobs that share links: how much longer each communicates, kept up to date as jobs come and go.

Mean field: a job sees another on a link for the share of time the other communicates (its duty). To a fixed
point: `comm_j = fixed_j + max(private_j, max over links base_jl · slowdown(P, V))`, where P = κ · Σ_{i≠j}
weight_il · duty_i is how many others it meets on average and V = Σ weight² · duty · (1 - duty) its variance.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.perf.collectives import Cost
from dally.perf.iteration import Demand
from dally.pickles import picklable

KAPPA: Final = 1.0
TOLERANCE: Final = 1e-4  # relative change of a communication time below which nobody else is told
MOST_ROUNDS: Final = 1000


def slowdown(meets: float, variance: float) -> float:
    """How much longer a transfer takes beside that many others, on average.

    Not 1 + P: that is the mean of the slowdowns, and what adds up over a transfer is its speed. So this is
    1 / E[1 / (1 + K)] to second order in K. It is 1 + P when the others never pause, it grows with every
    duty (so one more job never helps), and against max-min sharing it halves the error of 1 + P.
    """
    whole = 1.0 + meets
    return whole / (1.0 + variance / (whole * whole))


class Flow:
    """One job's communication: its demand, and what the others make of it."""

    __slots__ = (
        "change", "comm_s", "demand", "duty", "guest_s", "job", "queued", "rating", "told_s", "wait_s", "weights",
    )  # fmt: skip

    def __init__(self, job: i64, demand: Demand) -> None:
        self.job: i64 = job
        self.demand: Demand = demand
        self.comm_s: float = demand.alone_s
        self.change: i64 = 0  # the latest change that touched it,
        self.told_s: float = demand.alone_s  # and its communication time before that
        self.duty: float = demand.duty(demand.alone_s)
        self.queued: bool = False
        self.rating: i64 = 0  # the latest rating in which AdaDUAL saw it (perf/adadual_sharing.py),
        self.wait_s: float = 0.0  # and what it costs the flow rated there
        self.guest_s: float = 0.0
        # How much of a fair share it takes of each link while it communicates. A job held up elsewhere
        # (another link, its fabric, latency) leaves the rest to the others: with u the share of the link
        # it needs, they run at 1 - u instead of 1/2. From the time alone, so that competition never
        # makes a job look lighter to its neighbours and one more job never speeds anybody up.
        self.weights: vec[float] = vec[float]()
        for seconds in demand.cost.seconds:
            share = seconds / demand.alone_s
            self.weights = append(self.weights, share / (1.0 - share) if share < 0.5 else 1.0)


picklable(Flow, 0, Demand(0.0, 0.0, Cost(), 0.0))


class Contention:
    """The jobs on every link. A change costs as much as the jobs it reaches, not as all there are."""

    __slots__ = ("changes", "flows", "kappa", "meets", "members", "tolerance", "variance")

    def __init__(self, links: i64, kappa: float = KAPPA, tolerance: float = TOLERANCE) -> None:
        self.kappa: float = kappa
        self.tolerance: float = tolerance
        self.changes: i64 = 0  # so far
        self.flows: dict[int, Flow] = {}  # by job; looked up, never iterated
        self.members: list[list[Flow]] = [[] for _ in range(links)]  # by job number
        self.meets: vec[float] = vec[float]([0.0] * int(links))  # Σ weight · duty of a link's jobs
        self.variance: vec[float] = vec[float]([0.0] * int(links))  # Σ weight² · duty · (1 - duty)

    def sharing(self) -> str:
        """What this way of sharing links is called."""
        return "fair"

    def add(self, job: i64, demand: Demand) -> list[int]:
        """Place a job; the jobs whose communication time changed, itself among them, lowest first."""
        flow = Flow(job, demand)
        self.flows[int(job)] = flow
        for place in range(len(demand.cost.links)):
            link = demand.cost.links[place]
            members = self.members[link]
            at: i64 = len(members)
            while at > 0 and members[at - 1].job > job:
                at -= 1
            members.insert(at, flow)
            self._sum(link)
        return self._settle(demand.cost.links, flow)

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

    def exposed_s(self, job: i64) -> float:
        """Seconds of communication per iteration that compute does not hide."""
        flow = self.flows[int(job)]
        return flow.demand.iteration_s(flow.comm_s) - flow.demand.compute_s()

    def load(self, link: i64) -> float:
        """The share of time a link is busy with our jobs; at most 1."""
        busy = 0.0
        for flow in self.members[link]:
            demand = flow.demand
            busy += demand.cost.seconds[place_of(demand.cost.links, link)] / demand.iteration_s(flow.comm_s)
        return busy if busy < 1.0 else 1.0

    def others(self, flow: Flow, leaving: Flow | None) -> list[Flow]:
        """Those who use a link of that flow, it and `leaving` aside, each once."""
        found: dict[int, Flow] = {}
        for link in flow.demand.cost.links:
            for other in self.members[link]:
                if other is not flow and other is not leaving:
                    found[int(other.job)] = other
        return list(found.values())

    def comm_if_s(self, flow: Flow, joining: Flow | None, leaving: Flow | None) -> float:
        """Communication seconds of a flow, here or not, if one came and another went; one step, nothing changes."""
        demand = flow.demand
        busiest = demand.cost.private_s
        here = self.flows.get(int(flow.job)) is flow
        for place in range(len(demand.cost.links)):
            link = demand.cost.links[place]
            meets = self.meets[link]
            variance = self.variance[link]
            for other, sign in ((flow if here else None, -1.0), (leaving, -1.0), (joining, 1.0)):
                if other is not None:
                    weight = weight_on(other, link)
                    meets += sign * weight * other.duty
                    variance += sign * weight * weight * other.duty * (1.0 - other.duty)
            if meets <= 0.0:
                meets = 0.0
                variance = 0.0
            elif variance < 0.0:
                variance = 0.0
            seconds = demand.cost.seconds[place] * slowdown(self.kappa * meets, variance)
            if seconds > busiest:
                busiest = seconds
        return demand.cost.fixed_s + busiest

    def _settle(self, links: vec[i64], newcomer: Flow | None) -> list[int]:
        """Re-rate from these links outwards until nobody's time changes any more."""
        self.changes += 1
        wave: list[Flow] = []
        touched: list[Flow] = []
        if newcomer is not None:
            newcomer.change = self.changes
            newcomer.queued = True
            wave.append(newcomer)
        for link in links:
            self._call(link, wave)
        rounds: i64 = 0
        while wave and rounds < MOST_ROUNDS:
            wave.sort(key=_number)
            following: list[Flow] = []
            for flow in wave:
                flow.queued = False
                comm_s = self._rate(flow)
                change = comm_s - flow.comm_s
                if change <= self.tolerance * comm_s and -change <= self.tolerance * comm_s:
                    continue
                if flow.change != self.changes:
                    flow.change = self.changes
                    flow.told_s = flow.comm_s
                    touched.append(flow)
                flow.comm_s = comm_s
                self._spread(flow, following)
            wave = following
            rounds += 1
        for flow in wave:
            flow.queued = False
        return _changed(touched, newcomer, self.tolerance)

    def _rate(self, flow: Flow) -> float:
        demand = flow.demand
        busiest = demand.cost.private_s
        spread = flow.duty * (1.0 - flow.duty)
        for place in range(len(demand.cost.links)):
            link = demand.cost.links[place]
            weight = flow.weights[place]
            meets = self.meets[link] - weight * flow.duty
            variance = self.variance[link] - weight * weight * spread
            if meets <= 0.0:  # nobody else, but for rounding
                meets = 0.0
                variance = 0.0
            elif variance < 0.0:
                variance = 0.0
            seconds = demand.cost.seconds[place] * slowdown(self.kappa * meets, variance)
            if seconds > busiest:
                busiest = seconds
        return demand.cost.fixed_s + busiest

    def _spread(self, flow: Flow, following: list[Flow]) -> None:
        duty = flow.demand.duty(flow.comm_s)
        change = duty - flow.duty
        spread = duty * (1.0 - duty) - flow.duty * (1.0 - flow.duty)
        flow.duty = duty
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
        for flow in self.members[link]:
            weight = flow.weights[place_of(flow.demand.cost.links, link)]
            meets += weight * flow.duty
            variance += weight * weight * flow.duty * (1.0 - flow.duty)
        self.meets[link] = meets
        self.variance[link] = variance


picklable(Contention, 0)


def place_of(links: vec[i64], link: i64) -> i64:
    """Where the link is among a flow's."""
    place: i64 = 0
    while links[place] != link:
        place += 1
    return place


def weight_on(flow: Flow, link: i64) -> float:
    """How much of a fair share the flow takes of that link; 0 if it does not use it."""
    links = flow.demand.cost.links
    for place in range(len(links)):
        if links[place] == link:
            return flow.weights[place]
    return 0.0


def _number(flow: Flow) -> int:
    return int(flow.job)


def _changed(touched: list[Flow], newcomer: Flow | None, tolerance: float) -> list[int]:
    found: list[int] = []
    for flow in touched:
        change = flow.comm_s - flow.told_s
        if change > tolerance * flow.comm_s or -change > tolerance * flow.comm_s:
            found.append(int(flow.job))
    if newcomer is not None:
        found.append(int(newcomer.job))
    found.sort()
    return found
