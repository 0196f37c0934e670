"""Jobs whose transfers AdaDUAL admits, event by event, to check the averages of the fast model against.

Jobs go round as in reference_sharing. A transfer that is due waits until every link of it admits it; who waits
is asked in order of rank (remaining service, least first). A link admits what still fits beside those in flight;
beyond that, AdaDUAL decides: two at most, and each then runs at b / (2b + η) of the link's speed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from dally.perf.adadual import BYTE_S, PENALTY_S
from dally.perf.iteration import Demand
from tests.perf.reference_sharing import FORWARD, TINY, Runner, _advance, _next_s

LATENCY_S: Final = 6.69e-4  # a
THRESHOLD: Final = BYTE_S / (2.0 * (BYTE_S + PENALTY_S))  # most a newcomer may bring, as a share of what is left
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


class Ends(NamedTuple):
    """When two transfers are through, in seconds from when the second could begin."""

    first_s: float
    second_s: float

    def sum_s(self) -> float:
        return self.first_s + self.second_s


def admits(new_bytes: float, left_bytes: float) -> bool:
    """Whether a transfer should start beside one with that much left, rather than wait for its end."""
    return new_bytes < THRESHOLD * left_bytes


def admits_to(new_bytes: float, left_bytes: list[float]) -> bool:
    """The same for a link on which these transfers are under way: with two or more, it waits."""
    if len(left_bytes) == 0:
        return True
    return len(left_bytes) == 1 and admits(new_bytes, left_bytes[0])


def ends(new_bytes: float, left_bytes: float, delay_s: float = 0.0) -> Ends:
    """Both ends when the second transfer begins after `delay_s`, at the latest when the first is through.

    The second pays its latency whichever way: it decides nothing and is added to its end.
    """
    alone_s = BYTE_S * left_bytes
    if delay_s >= alone_s:
        return Ends(alone_s, alone_s + BYTE_S * new_bytes + LATENCY_S)
    left_bytes -= delay_s / BYTE_S
    shared_bytes = new_bytes if new_bytes < left_bytes else left_bytes
    shared_s = delay_s + (2.0 * BYTE_S + PENALTY_S) * shared_bytes
    return Ends(
        shared_s + BYTE_S * (left_bytes - shared_bytes),
        shared_s + BYTE_S * (new_bytes - shared_bytes) + LATENCY_S,
    )


def ends_if_waiting(new_bytes: float, left_bytes: float) -> Ends:
    """Both ends when the second transfer waits for the first."""
    return ends(new_bytes, left_bytes, BYTE_S * left_bytes)
