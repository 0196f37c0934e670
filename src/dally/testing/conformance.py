"""check_policy: what every policy must keep, on random clusters, traces and failures."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

from dally.engine.simulate import Simulation
from dally.model import TIMER, Event
from dally.policies.base import Policy
from dally.policies.registry import build
from dally.testing.invariants import EventRow, InvariantError, check_record, record_of
from dally.testing.shifted import check_shift
from dally.testing.strategies import Case, cases, crowds

IDLE_MOMENTS = 50  # of one run at most


def check_policy(policy: str | Callable[[], Policy], examples: int = 100) -> None:
    """Raise unless the policy (a registered name, or a class or function that makes one) keeps the rules.

    Capacity is never exceeded, gangs are whole, no job is lost or run twice, work is conserved, no
    decision uses the future, the same inputs give the same run, instances share no state, a policy can be
    pickled, being asked when nothing happened changes nothing (it asks for the wake-ups it needs), every pass ends
    (PolicyError names the jobs that go round), and a constant added to all times changes nothing but the times.
    """
    make: Callable[[], Policy] = (lambda: build(policy)) if isinstance(policy, str) else policy
    _on_examples(cases(), partial(check_case, make=make), examples)
    _on_examples(crowds(), partial(check_crowd, make=make), examples)


def _on_examples(strategy: SearchStrategy[Case], check: Callable[[Case], None], examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def follows_the_rules(case: Case) -> None:
        check(case)

    follows_the_rules()


def check_case(case: Case, make: Callable[[], Policy]) -> None:
    """The rules on one case."""
    check_rules(case, make)
    check_shift(case, make)


def check_rules(case: Case, make: Callable[[], Policy]) -> None:
    """All of them on its own clock."""
    record = record_of(case.run(make()))
    check_record(record)
    check_repeats(case, make, record.events)
    check_pickles(case, make, record.events)
    check_causal(case, make, record.events)
    check_idle(case, make, record.events)


def check_crowd(case: Case, make: Callable[[], Policy]) -> None:
    """What long queues of nearly equal ranks may break."""
    check_record(record_of(case.run(make())))
    check_shift(case, make)


def check_repeats(case: Case, make: Callable[[], Policy], events: list[EventRow]) -> None:
    """Two runs side by side, step by step, are the run alone: nothing random, nothing shared."""
    pair = [case.simulation(make()), case.simulation(make())]
    going = list(pair)
    while going:
        going = [one for one in going if one.state.finished < len(one.jobs) and one.step(case.until_s)]
    for one in pair:
        if record_of(one).events != events:
            raise InvariantError("repeat", "two runs of the same inputs differ; is state shared, or order random?")


def check_pickles(case: Case, make: Callable[[], Policy], events: list[EventRow]) -> None:
    """A copy through pickle does the same."""
    try:
        copy = pickle.loads(pickle.dumps(make()))
    except Exception as error:
        raise InvariantError("pickle", f"the policy cannot be pickled: {error}") from error
    if _events(case.run(copy)) != events:
        raise InvariantError("pickle", "a pickled copy decides differently")


def check_causal(case: Case, make: Callable[[], Policy], events: list[EventRow]) -> None:
    """Jobs still to come change nothing: without them, everything up to then is the same."""
    for time_s in {job[0] for job in case.jobs[1:]}:
        past = case.before(time_s)
        if not past.jobs:
            continue
        until_then = [event for event in events if event.time_s < time_s]
        known = [event for event in _events(past.run(make())) if event.time_s < time_s]
        if known != until_then[: len(known)] or len(known) < len([e for e in until_then if e.job >= 0]):
            raise InvariantError("future", f"decisions before {time_s} depend on jobs submitted from then on")


def check_idle(case: Case, make: Callable[[], Policy], events: list[EventRow]) -> None:
    """Cycles that nobody asked for, between the events, change nothing but the rows that tell of them."""
    simulation = case.simulation(make())
    for moment_s in idle_moments(events):
        simulation.go_on(moment_s)
        simulation.happen([Event(TIMER)], moment_s)
    simulation.run(case.until_s)
    if _outcome(_events(simulation)) != _outcome(events):
        raise InvariantError("idle", "asked when nothing happened, it decides otherwise: wakeup_s must say when")


def idle_moments(events: list[EventRow]) -> list[float]:
    """Moments in the middle between two events, so many at most."""
    known = {event.time_s for event in events}
    times = sorted(known)
    result = [(before + after) / 2.0 for before, after in pairwise(times)]
    between = [moment_s for moment_s in result if moment_s not in known]  # floats may have none in between
    return between[:: 1 + len(between) // IDLE_MOMENTS]


def _outcome(events: list[EventRow]) -> list[EventRow]:
    return [event for event in events if event.kind != "timer"]


def _events(simulation: Simulation) -> list[EventRow]:
    return record_of(simulation).events
