"""Jobs whose transfers AdaDUAL admits, event by event, to check the averages of the fast model against.

Jobs go round as in reference_sharing. A transfer that is due waits until every link of it admits it; who waits
is asked in order of rank (remaining service, least first). A link admits what still fits beside those in flight;
beyond that, AdaDUAL decides: two at most, and each then runs at b / (2b + η) of the link's speed.
"""

from __future__ import annotations

from dally.perf.adadual import BYTE_S, PENALTY_S, admits_to
from dally.perf.iteration import Demand
from tests.perf.reference_sharing import FORWARD, TINY, Runner, _advance, _next_s

PAIR = BYTE_S / (2 * BYTE_S + PENALTY_S)  # speed of either of two
PATIENCE = 4
FULL = 1.0 + 1e-9


def adadual_iteration_s(
    demands: list[Demand], offsets_s: list[float], rounds: int, ranks: list[float] | None = None
) -> list[float]:
    """Mean seconds per iteration of jobs that start at those times, over `rounds` rounds of the slowest.

    Without ranks, the first in the list goes first. Who comes last may hardly ever get its turn: it ends when
    the slowest could have gone round PATIENCE times as often, and such a job has taken all that time.
    """
    most_s = PATIENCE * rounds * max(demand.iteration_s(demand.alone_s) for demand in demands)
    runners = [_runner(demand, offset_s) for demand, offset_s in zip(demands, offsets_s, strict=True)]
    order = sorted(range(len(runners)), key=lambda place: (ranks[place] if ranks else 0.0, place))
    flying: dict[int, list[int]] = {link: [] for runner in runners for link in runner.needs}
    aloft: set[int] = set()
    now = 0.0
    while now < most_s and min(len(runner.ends) for runner in runners) <= rounds:
        for place in order:
            if place not in aloft and runners[place].transfers() and _admitted(runners, place, flying):
                aloft.add(place)
                for link in runners[place].needs:
                    flying[link].append(place)
        speeds = {place: _speed(runners, place, flying) for place in aloft}
        step = min(_next(runner, speeds.get(place, 0.0)) for place, runner in enumerate(runners))
        now += step
        for place, runner in enumerate(runners):
            left_s = runner.transfer_s
            _advance(runner, step, speeds.get(place, 0.0), now)
            # What it sends next has to be admitted again.
            if place in aloft and (not runner.transfers() or runner.transfer_s > left_s):
                aloft.remove(place)
                for link in runner.needs:
                    flying[link].remove(place)
    return [_mean_s(runner.ends, now) for runner in runners]


def _mean_s(ends: list[float], now: float) -> float:
    return (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else now


def _runner(demand: Demand, offset_s: float) -> Runner:
    full_s = demand.alone_s - demand.cost.fixed_s
    links = zip(demand.cost.links, demand.cost.seconds, strict=True)
    runner = Runner(demand, {int(link): seconds / full_s for link, seconds in links})
    runner.enter(FORWARD)
    runner.latency_s = offset_s
    return runner


def _admitted(runners: list[Runner], place: int, flying: dict[int, list[int]]) -> bool:
    """Whether every link of it admits what the runner has to send."""
    own = runners[place]
    for link, need in own.needs.items():
        others = [runners[other] for other in flying[link]]
        if need + sum(other.needs[link] for other in others) <= FULL:
            continue
        left = [other.transfer_s * other.needs[link] for other in others]
        if not admits_to(own.transfer_s * need, left):
            return False
    return True


def _speed(runners: list[Runner], place: int, flying: dict[int, list[int]]) -> float:
    speed = 1.0
    for link, need in runners[place].needs.items():
        if sum(runners[other].needs[link] for other in flying[link]) > FULL:
            speed = min(speed, PAIR / need)
    return speed


def _next(runner: Runner, speed: float) -> float:
    """Seconds until the runner's next event; those who wait in line may have none."""
    if speed == 0.0 and max(runner.compute_s, runner.latency_s) <= TINY:
        return float("inf")
    return _next_s(runner, speed)
