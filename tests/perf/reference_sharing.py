"""The slow, obviously correct model of shared links, to check the fast one against.

Jobs go round: forward pass, backward pass beside the communication that may hide under it, then the rest of
the communication. While they communicate, links are shared max-min. Event by event, no averages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from dally.perf.iteration import Demand

FORWARD, BACKWARD, LAST = range(3)
TINY = 1e-12


@dataclass
class Runner:
    """One job on its way round; what is left of its present phase, in seconds at full speed."""

    demand: Demand
    needs: dict[int, float]  # share of each link it takes when nothing holds it up
    phase: int = FORWARD
    compute_s: float = 0.0
    latency_s: float = 0.0
    transfer_s: float = 0.0
    ends: list[float] = field(default_factory=list)

    def enter(self, phase: int) -> None:
        demand = self.demand
        self.phase = phase
        share = {FORWARD: 0.0, BACKWARD: 1.0 - demand.exposed_share, LAST: demand.exposed_share}[phase]
        self.compute_s = {FORWARD: demand.forward_s, BACKWARD: demand.backward_s, LAST: 0.0}[phase]
        self.latency_s = demand.cost.fixed_s * share
        self.transfer_s = (demand.alone_s - demand.cost.fixed_s) * share

    def transfers(self) -> bool:
        return self.latency_s <= TINY < self.transfer_s

    def finished(self) -> bool:
        return max(self.compute_s, self.latency_s, self.transfer_s) <= TINY


def max_min_rates(needs: list[dict[int, float]]) -> list[float]:
    """Each flow's speed, at most 1, when each link of capacity 1 gives its flows equal shares

    and what one cannot use, because another link holds it up, goes to the others.
    """
    totals: dict[int, float] = {}
    for need in needs:
        for link, share in need.items():
            totals[link] = totals.get(link, 0.0) + share
    levels = {link: 0.0 for link, total in totals.items() if total > 1.0}  # the rest hold nobody up
    needs = [{link: share for link, share in need.items() if link in levels} for need in needs]
    speeds = [0.0] * len(needs)
    for _ in range(200):
        for link in levels:
            wanted = sorted(
                need[link] * min([1.0, *(levels[other] / need[other] for other in need if other != link)])
                for need in needs
                if link in need
            )
            levels[link] = _level(wanted)
        before, speeds = speeds, [min([1.0, *(levels[link] / need[link] for link in need)]) for need in needs]
        if max((abs(a - b) for a, b in zip(before, speeds, strict=True)), default=0.0) < 1e-9:
            break
    return speeds


def _level(wanted: list[float]) -> float:
    """The share above which a link of capacity 1 cuts off its flows, whose wishes come sorted."""
    left = 1.0
    for place, wish in enumerate(wanted):
        fair = left / (len(wanted) - place)
        if wish > fair:
            return fair
        left -= wish
    return 1.0


def priority_rates(needs: list[dict[int, float]], ranks: list[float]) -> list[float]:
    """Each flow's speed, at most 1, when links serve the lowest rank first; equal ones by their number."""
    left: dict[int, float] = {}
    speeds = [0.0] * len(needs)
    for place in sorted(range(len(needs)), key=lambda place: (ranks[place], place)):
        need = needs[place]
        speeds[place] = max(0.0, min([1.0, *(left.get(link, 1.0) / share for link, share in need.items())]))
        for link, share in need.items():
            left[link] = left.get(link, 1.0) - speeds[place] * share
    return speeds


def shared_iteration_s(
    demands: list[Demand], offsets_s: list[float], rounds: int, ranks: list[float] | None = None
) -> list[float]:
    """Mean seconds per iteration of jobs that start at those times, over `rounds` rounds of the slowest.

    `ranks`: links serve the lowest first, instead of sharing themselves max-min.
    """
    runners = []
    for demand, offset_s in zip(demands, offsets_s, strict=True):
        full_s = demand.alone_s - demand.cost.fixed_s
        links = zip(demand.cost.links, demand.cost.seconds, strict=True)
        runner = Runner(demand, {int(link): seconds / full_s for link, seconds in links})
        runner.enter(FORWARD)
        runner.latency_s = offset_s  # nothing happens until then
        runners.append(runner)
    known: dict[tuple[int, ...], list[float]] = {}
    now = 0.0
    while min(len(runner.ends) for runner in runners) <= rounds:
        active = tuple(place for place, runner in enumerate(runners) if runner.transfers())
        if active not in known:
            needs = [runners[place].needs for place in active]
            order = ranks and [ranks[place] for place in active]
            known[active] = priority_rates(needs, order) if order else max_min_rates(needs)
        speeds = dict(zip(active, known[active], strict=True))
        step = min(_next_s(runner, speeds.get(place, 0.0)) for place, runner in enumerate(runners))
        now += step
        for place, runner in enumerate(runners):
            _advance(runner, step, speeds.get(place, 0.0), now)
    return [(runner.ends[-1] - runner.ends[0]) / (len(runner.ends) - 1) for runner in runners]


def _next_s(runner: Runner, speed: float) -> float:
    times = [runner.compute_s, runner.latency_s, runner.transfer_s / speed if speed else 0.0]
    return min((time for time in times if time > TINY), default=inf)  # a flow may wait for others


def _advance(runner: Runner, step: float, speed: float, now: float) -> None:
    runner.compute_s = max(0.0, runner.compute_s - step)
    if runner.latency_s > TINY:
        runner.latency_s = max(0.0, runner.latency_s - step)
    else:
        runner.transfer_s = max(0.0, runner.transfer_s - step * speed)
    while runner.finished():
        if runner.phase == LAST:
            runner.ends.append(now)
        runner.enter((runner.phase + 1) % 3)
