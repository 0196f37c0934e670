"""The same inputs on another clock: a constant added to all times must change nothing but the times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dally.policies.base import Policy
from dally.testing.invariants import EventRow, InvariantError, record_of
from dally.testing.strategies import Case

# Submissions, durations and outages are multiples of 1/64 s: what comes at one instant does so on any clock.
GRAIN = 64.0
SHIFTS_S = (1.0, 37.0, 1234.5, 86_400.0, 1_000_003.0)  # on no grid of rounds, hours or days that they could share
CLOSE_S = 1e-4  # a moment that a policy or the engine works out is a quotient: later on a float rounds off more


def check_shift(case: Case, make: Callable[[], Policy]) -> None:
    """The run of a case without a network is the same on a later clock."""
    plain = on_grid(case)
    here = outcome(plain, make())
    for by_s in (SHIFTS_S[len(case.jobs) % len(SHIFTS_S)], SHIFTS_S[-1]):
        there = outcome(shifted(plain, by_s), make())
        place = first_difference(here, there, by_s)
        if place < len(here) or len(here) < len(there):
            both = f"{_shown(here, place)} and {_shown(there, place)}"
            raise InvariantError(
                "shift",
                f"with {by_s:g} s added to all times it decides otherwise ({both}): go by differences of times, "
                "and let no rank depend on what a float rounds off",
            )


def on_grid(case: Case) -> Case:
    """The case with times whose sums are exact in floats, on equal places."""
    return replace(
        case,
        jobs=[(_rounded(at_s), gpus, _rounded(long_s)) for at_s, gpus, long_s in case.jobs],
        outages=[(machine, _rounded(fail_s), _rounded(back_s)) for machine, fail_s, back_s in case.outages],
        until_s=_rounded(case.until_s) if case.until_s < float("inf") else case.until_s,
        network="",
        shares=[],
    )


def _rounded(time_s: float) -> float:
    return round(time_s * GRAIN) / GRAIN


def shifted(case: Case, by_s: float) -> Case:
    """The case with a constant added to all times."""
    return replace(
        case,
        jobs=[(at_s + by_s, gpus, long_s) for at_s, gpus, long_s in case.jobs],
        outages=[(machine, fail_s + by_s, back_s + by_s) for machine, fail_s, back_s in case.outages],
        until_s=case.until_s + by_s,
    )


def outcome(case: Case, policy: Policy) -> list[EventRow]:
    """The events of the run, without wake-ups: one more or less decides nothing."""
    return [event for event in record_of(case.run(policy)).events if event.kind != "timer"]


def first_difference(here: list[EventRow], there: list[EventRow], by_s: float) -> int:
    """The place of the first event that differs by more than the shift; the length of the shorter if none does."""
    for place, (one, other) in enumerate(zip(here, there, strict=False)):
        late_s = other.time_s - by_s - one.time_s
        if abs(late_s) > CLOSE_S or replace(other, time_s=one.time_s) != one:
            return place
    return min(len(here), len(there))


def _shown(events: list[EventRow], place: int) -> str:
    if place >= len(events):
        return "nothing more"
    event = events[place]
    return f"{event.kind} of job {event.job} at {event.time_s:g} s"
