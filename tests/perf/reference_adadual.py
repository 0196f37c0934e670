"""Jobs whose transfers AdaDUAL admits, event by event, to check the averages of the fast model against.

Jobs go round as in reference_sharing. A transfer that is due waits until every link of it admits it; who waits
is asked in order of arrival. Two transfers on a link each run at b / (2b + η) of its speed.
"""

from __future__ import annotations

from dally.perf.adadual import BYTE_S, PENALTY_S, admits_to
from dally.perf.iteration import Demand
from tests.perf.reference_sharing import FORWARD, TINY, Runner, _advance, _next_s

PAIR = BYTE_S / (2 * BYTE_S + PENALTY_S)  # speed of either of two


def adadual_iteration_s(demands: list[Demand], offsets_s: list[float], rounds: int) -> list[float]:
    """Mean seconds per iteration of jobs that start at those times, over `rounds` rounds of the slowest."""
    runners = [_runner(demand, offset_s) for demand, offset_s in zip(demands, offsets_s, strict=True)]
    flying: list[int] = []
    line: list[int] = []
    now = 0.0
    while min(len(runner.ends) for runner in runners) <= rounds:
        due = [place for place, runner in enumerate(runners) if runner.transfers()]
        flying = [place for place in flying if place in due]
        line += [place for place in due if place not in flying and place not in line]
        for place in list(line):
            if _admitted(runners, place, flying):
                line.remove(place)
                flying.append(place)
        speeds = {place: _speed(runners, place, flying) for place in flying}
        step = min(_next(runner, speeds.get(place, 0.0)) for place, runner in enumerate(runners))
        now += step
        for place, runner in enumerate(runners):
            _advance(runner, step, speeds.get(place, 0.0), now)
            if place in flying and not runner.transfers():
                flying.remove(place)  # what it sends next has to be admitted again
    return [(runner.ends[-1] - runner.ends[0]) / (len(runner.ends) - 1) for runner in runners]


def _runner(demand: Demand, offset_s: float) -> Runner:
    full_s = demand.alone_s - demand.cost.fixed_s
    links = zip(demand.cost.links, demand.cost.seconds, strict=True)
    runner = Runner(demand, {int(link): seconds / full_s for link, seconds in links})
    runner.enter(FORWARD)
    runner.latency_s = offset_s
    return runner


def _admitted(runners: list[Runner], place: int, flying: list[int]) -> bool:
    """Whether every link of it admits what the runner has to send."""
    own = runners[place]
    for link, need in own.needs.items():
        others = [runners[other] for other in flying if link in runners[other].needs]
        left = [other.transfer_s * other.needs[link] for other in others]
        if not admits_to(own.transfer_s * need, left):
            return False
    return True


def _speed(runners: list[Runner], place: int, flying: list[int]) -> float:
    needs = runners[place].needs
    shared = {link: sum(link in runners[other].needs for other in flying) for link in needs}
    return min([1.0, *((PAIR if shared[link] == 2 else 1.0) / need for link, need in needs.items())])


def _next(runner: Runner, speed: float) -> float:
    """Seconds until the runner's next event; those who wait in line may have none."""
    if speed == 0.0 and max(runner.compute_s, runner.latency_s) <= TINY:
        return float("inf")
    return _next_s(runner, speed)
