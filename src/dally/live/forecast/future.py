"""Futures: the present, kept as bytes, with a duration for every job and with jobs to come."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Final

from dally.cluster.capacity import Cluster
from dally.engine.executor import Executor
from dally.engine.failures import Failures
from dally.engine.log import EventLog
from dally.engine.simulate import Simulation
from dally.engine.state import State
from dally.model import HELD, INFINITY, NEVER, RUNNING, START, WAITING, Action, Costs, Job, Preempt
from dally.perf.base import SpeedModel
from dally.policies import events
from dally.policies.base import Policy

NO_TIMERS: Final[Mapping[int, float]] = {}


@dataclass
class Present:
    """A state between two cycles, with its jobs that have not ended. `stated_s` is what their users expect."""

    state: State
    jobs: list[Job]
    now: float
    next_number: int  # of the job that comes next
    stated_s: dict[int, float]
    timers_s: dict[int, float] = field(default_factory=dict)  # as operators set them, by GPUs
    draining: tuple[int, ...] = ()  # machines that take no new job

    def waiting(self) -> list[Job]:
        """Jobs that wait, in order of number."""
        return [job for job in self.jobs if job.status == WAITING]

    def ages(self) -> list[tuple[Job, float]]:
        """Each job with the seconds of work it has done."""
        return [(job, job.done_s(self.now)) for job in self.jobs]


def dump_present(
    state: State,
    jobs: Iterable[Job],
    now: float,
    next_number: int,
    secret: bool = False,
    timers_s: Mapping[int, float] = NO_TIMERS,
    draining: Iterable[int] = (),
) -> bytes:
    """The present as bytes. `secret`: durations are the truth of a replayed trace, and nobody is to see them."""
    live = [job for job in jobs if job.status in (WAITING, RUNNING, HELD)]
    durations_s = [job.duration_s for job in live]
    log, due_s = state.log, state.sample_due_s
    stated_s = {} if secret else {int(job.index): job.duration_s for job in live if job.duration_s >= 0.0}
    try:
        state.log = EventLog()
        state.sample_due_s = INFINITY  # nobody reads how many slots a future has
        for job in live if secret else ():
            job.duration_s = NEVER
        present = Present(state, live, now, next_number, stated_s, dict(timers_s), tuple(draining))
        return pickle.dumps(present, protocol=5)
    finally:
        state.log, state.sample_due_s = log, due_s
        for job, duration_s in zip(live, durations_s, strict=True):
            job.duration_s = duration_s


def load_present(content: bytes) -> Present:
    """A present of one's own, from bytes that `dump_present` made in this program: nothing else may be in them."""
    result: Present = pickle.loads(content)
    return result


STEPS: Final = 16  # cycles between two looks at what has happened


class DrainingMachines(Executor):
    """Machines that drain, in a future: they keep the jobs they have and take no others, as on the cluster."""

    def __init__(self, state: State, machines: Iterable[int]) -> None:
        super().__init__()
        self._state = state
        self._machines = frozenset(machines)

    def before_pass(self, now: float) -> None:
        """Take GPUs that jobs have given back out of what is offered."""
        cluster = self._state.cluster
        for machine in sorted(self._machines):
            free = int(cluster.all_free_on(machine))
            if free > 0:
                cluster.set_aside(machine, free)
                self._state.notify(events.UNSCHEDULABLE, now, machine, free)

    def apply(self, action: Action, now: float) -> str:
        """No start there; a preemption is carried out."""
        if isinstance(action, Preempt):
            return ""
        target = action.allocation  # type: ignore[attr-defined]
        closed = any(machine in self._machines for machine, _ in target.parts())
        return "the machine takes no new jobs" if closed else ""


@dataclass(frozen=True)
class Started:
    """How a job fared in one future."""

    start_s: float
    tier: int
    slowdown: float  # of its work from then on, against its closest placement alone


@dataclass(frozen=True)
class ForecastOutcome:
    """How those asked for fared, as far as was looked; where time was up before, when the others might start."""

    started: dict[int, Started]
    guessed: dict[int, float]
    reached_s: float


def run_future(
    present: Present,
    durations_s: dict[int, float],
    coming: Callable[[float, int], tuple[list[Job], float]],
    request: Collection[int],
    until_s: float,
    allowed_s: float = INFINITY,
) -> ForecastOutcome:
    """Who of those asked for starts when and where. The present is used up.

    `coming` tells who comes from a moment on, numbered from there on, and up to which other moment these are all;
    `allowed_s` is for how many CPU seconds to look.
    """
    set_durations(present, durations_s)
    simulation = begin_future(present, present.state, present.draining)
    log = present.state.log
    known_s = present.now  # who comes up to here is known
    open_ones = set(request)
    starts: dict[int, tuple[float, int]] = {}
    read = 0
    over = False
    limit_s = time.process_time() + allowed_s
    while open_ones and not over and time.process_time() < limit_s:
        for _ in range(STEPS):
            if simulation.step(min(known_s, until_s)):
                continue
            over = known_s >= until_s
            if not over:
                later, known_s = coming(known_s, len(simulation.jobs))
                simulation.jobs += later
            break
        for row in range(read, len(log)):
            number = int(log.jobs[row])
            if log.kinds[row] == START and number in open_ones:
                open_ones.remove(number)
                starts[number] = (log.times[row], int(log.tiers[row]))
        read = len(log)
    result = {
        number: Started(start_s, tier, _slowdown(simulation.jobs[number], simulation.now))
        for number, (start_s, tier) in starts.items()
    }
    guessed = {} if over or not open_ones else _guessed(simulation, present, open_ones)
    return ForecastOutcome(result, guessed, until_s if over else simulation.now)


def _guessed(simulation: Simulation, present: Present, numbers: Collection[int]) -> dict[int, float]:
    """When these start if those who wait now go on starting in their order, as many in an hour as up to here."""
    log, now = present.state.log, simulation.now
    first = {int(log.jobs[row]) for row in range(len(log)) if log.kinds[row] == START}
    drained = sum(number < present.next_number for number in first)
    if drained == 0 or now <= present.now:
        return {}
    each_s = (now - present.now) / drained
    left = [number for number in (int(job.index) for job in present.state.queue) if number < present.next_number]
    return {number: now + (place + 1) * each_s for place, number in enumerate(left) if number in numbers}


def set_durations(present: Present, durations_s: dict[int, float]) -> None:
    """Give every job its duration in this future."""
    for job in present.jobs:
        job.duration_s = durations_s[int(job.index)]


def begin_future(present: Present, state: State, draining: Iterable[int], coming: Sequence[Job] = ()) -> Simulation:
    """A simulation that goes on from a state with the jobs of the present and those to come."""
    jobs = [Job(0, "", 0.0, 1, 0.0)] * present.next_number  # those that have ended are not looked at
    for job in present.jobs:
        jobs[int(job.index)] = job
    simulation = Simulation([], Cluster.grid(1, 1, 1), Policy(), SpeedModel(), Costs(), Failures())
    executor = DrainingMachines(state, draining)
    simulation.take_up(state, [*jobs, *coming], present.next_number, present.now, executor)
    return simulation


def _slowdown(job: Job, now: float) -> float:
    done_s = job.done_s(now)
    if done_s > 0.0:
        return job.worked_s(now) / done_s
    return 1.0 / job.rate if job.rate > 0.0 else INFINITY


@dataclass
class Fates:
    """One job in each future."""

    started: list[Started] = field(default_factory=list)
    guessed: list[float] = field(default_factory=list)  # its start in futures that were cut short
    unseen: int = 0  # futures in which it does not start within the time looked at,
    reached_s: float = INFINITY  # which is up to this moment

    def add(self, number: int, outcome: ForecastOutcome) -> None:
        """One more future."""
        if number in outcome.started:
            self.started.append(outcome.started[number])
        elif number in outcome.guessed:
            self.guessed.append(outcome.guessed[number])
        else:
            self.unseen += 1
            self.reached_s = min(self.reached_s, outcome.reached_s)

    def futures(self) -> int:
        """How many there are."""
        return len(self.started) + len(self.guessed) + self.unseen

    def starts_s(self) -> list[float]:
        """When it starts, in order; infinity where that was not seen."""
        return sorted([one.start_s for one in self.started] + self.guessed) + [INFINITY] * self.unseen

    def start_s(self, share: float) -> float:
        """By when it has started in that share of the futures; infinity where that was not seen."""
        return quantile(self.starts_s(), share)

    def chances(self) -> dict[int, float]:
        """By tier, the share of its starts that are there, closest first."""
        tiers = sorted(one.tier for one in self.started)
        return {tier: tiers.count(tier) / len(tiers) for tier in dict.fromkeys(tiers)}

    def start_at_s(self, tier: int) -> float | None:
        """The median moment of its starts at one tier."""
        result = sorted(one.start_s for one in self.started if one.tier == tier)
        return quantile(result, 0.5) if result else None

    def slowdown(self, tier: int | None = None) -> float | None:
        """The mean slowdown of its starts, at one tier or at all."""
        result = [one.slowdown for one in self.started if tier in (None, one.tier) and one.slowdown < INFINITY]
        return sum(result) / len(result) if result else None


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which that share of them lies, between two of them in proportion; infinity of nothing."""
    if not ordered:
        return INFINITY
    place = max(0.0, min(share * len(ordered) - 0.5, len(ordered) - 1.0))
    low = floor(place)
    high = min(low + 1, len(ordered) - 1)
    if ordered[high] == INFINITY:
        return ordered[low] if place == low else INFINITY
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
