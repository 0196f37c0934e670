"""Timers: fixed and tuned, with values worked out by hand."""

from __future__ import annotations

import pickle
from math import nextafter

import pytest

from dally.model import Costs
from dally.policies.delay_timers import Timers, TunedTimers
from dally.policies.paper_dally import PaperDally
from dally.policies.registry import build
from dally.testing.strategies import Case

INF = float("inf")
FREE = Costs(0.0, 0.0, 0.0)
HOUR = 3600.0


def tuned(
    lease_s: float = 1.0,
    floors: tuple[float, ...] = (6.0, 12.0),
    history: float = 24.0,
    first_cap: float = 0.8,
    spread: float = 2.0,
) -> TunedTimers:
    return TunedTimers(lease_s, list(floors), history, first_cap, spread)


def noted(timers: TunedTimers, tier: int, waits: list[float], gpus: int = 8, now: float = 0.0) -> TunedTimers:
    """The timers after gangs took `tier` at `now`, having waited that many leases."""
    for wait in waits:
        timers.note(tier, gpus, now, wait * timers.lease_s)
    return timers


# name, floors in leases, the last tier, expected T_1 … T_last in leases
FIXED = [
    ("as published, three tiers", (6, 12), 2, [6, 12]),
    ("floors double above the last one given", (6, 12), 3, [6, 12, 24]),
    ("and again", (6, 12), 4, [6, 12, 24, 48]),
    ("from a single one", (3,), 3, [3, 6, 12]),
    ("more floors than tiers", (6, 12, 30), 2, [6, 12]),
    ("three stated", (1, 5, 7), 4, [1, 5, 7, 14]),
    ("two tiers", (6, 12), 1, [6]),
    ("nobody waits", (0,), 3, [0, 0, 0]),
    ("nobody leaves", (INF,), 3, [INF, INF, INF]),
    ("not beyond the rack", (2, INF), 3, [2, INF, INF]),
]


@pytest.mark.parametrize(("name", "floors", "last", "expected"), FIXED, ids=[row[0] for row in FIXED])
def test_fixed_timers(name: str, floors: tuple[float, ...], last: int, expected: list[float]) -> None:
    timers = Timers(HOUR, [float(floor) for floor in floors])
    assert [timers.timer_s(tier, last, 8, 0.0) for tier in range(1, last + 1)] == [HOUR * n for n in expected]


def test_fixed_timers_learn_nothing() -> None:
    timers = Timers(1.0, [6.0, 12.0])
    timers.note(0, 8, 0.0, 20.0)
    assert (timers.timer_s(1, 2, 8, 0.0), timers.samples(), timers.changes_s(1, 2, 8, 0.0)) == (6.0, [], INF)


# name, waits in leases, expected statistic
STATISTICS = [
    ("none", [], 1.0),
    # One sample deviates by nothing.
    ("one", [7.0], 7.0),
    # Mean 5, squares 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32 over 8 (population, not 7): std 2; 5 + 2·2.
    ("population", [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], 9.0),
    # Mean 6, both 2 away: 6 + 2·2. With n - 1 the std would be 2.83 and the result 11.66.
    ("two", [4.0, 8.0], 10.0),
    # All the same: no spread.
    ("same", [11.0, 11.0, 11.0], 11.0),
    # Waits under one lease are not kept: only the 5 is.
    ("short waits", [0.0, 0.5, 0.999, 5.0], 5.0),
    # None is kept, so there are no samples.
    ("only short waits", [0.0, 0.999], 1.0),
    # One lease is not under one lease: mean (1 + 3) / 2, std 1.
    ("exactly a lease", [1.0, 3.0], 4.0),
]


@pytest.mark.parametrize(("name", "waits", "expected"), STATISTICS, ids=[row[0] for row in STATISTICS])
@pytest.mark.parametrize("lease_s", [1.0, 600.0, HOUR])
def test_statistic(name: str, waits: list[float], expected: float, lease_s: float) -> None:
    timers = noted(tuned(lease_s), 0, waits)
    assert timers.statistic(0, 8, 0.0) == pytest.approx(expected, rel=1e-12)


# name, parameters, tier whose waits were noted, waits, last tier, expected T_1 … T_last in leases
TIMERS = [
    # Nothing known: the statistic is 1, below every floor.
    ("floors", {}, 0, [], 2, [6, 12]),
    # One wait of 3 for a machine is below the floor of 6.
    ("below the floor", {}, 0, [3.0], 2, [6, 12]),
    # ⌈7.25⌉ = 8; waits for a machine say nothing about tier 2.
    ("rounded up", {}, 0, [7.25], 2, [8, 12]),
    # Waits for a rack set T_2 alone: mean 13, both 2 away, 13 + 2·2 = 17.
    ("tier 2 from waits for tier 1", {}, 1, [11.0, 15.0], 2, [6, 17]),
    # ⌈0.8 · 24⌉ = ⌈19.2⌉ = 20.
    ("first cap", {}, 0, [23.0], 2, [20, 12]),
    # H = 24.
    ("last cap", {}, 1, [90.0], 2, [6, 24]),
    # The waits of those who took the last tier set nothing.
    ("no tier above the last", {}, 2, [20.0], 2, [6, 12]),
    # Four tiers, floors 6, 12, 24 and caps ⌈19.2⌉, ⌈0.9 · 24 = 21.6⌉, 24.
    ("four tiers, floors", {}, 0, [], 3, [6, 12, 24]),
    ("four tiers, first cap", {}, 0, [90.0], 3, [20, 12, 24]),
    ("four tiers, middle cap", {}, 1, [90.0], 3, [6, 22, 24]),
    ("four tiers, last cap", {}, 2, [90.0], 3, [6, 12, 24]),
    # Five tiers: caps 0.8, 0.8667, 0.9333 and 1 of 24 = 19.2, 20.8, 22.4, 24; floor of tier 4 is 48.
    ("five tiers", {}, 1, [90.0], 4, [6, 21, 23, 24]),
    # Two tiers: the network is tier 1, and has the first cap.
    ("two tiers", {}, 0, [90.0], 1, [20]),
    # floors: 2 and 3, then 6.
    ("floors given", {"floors": (2.0, 3.0)}, 0, [], 3, [2, 3, 6]),
    # Without floors the statistic of no samples, 1, remains.
    ("no floors", {"floors": (0.0, 0.0)}, 0, [], 2, [1, 1]),
    ("no floors, one wait", {"floors": (0.0, 0.0)}, 0, [1.5], 2, [2, 1]),
    # history 10: caps 8 and 10, the latter below the floor of 12: the cap wins.
    ("history", {"history": 10.0}, 0, [90.0], 2, [8, 10]),
    # first_cap 0.5 of 24; four tiers: 12, 18, 24.
    ("first_cap", {"first_cap": 0.5}, 0, [90.0], 2, [12, 12]),
    ("first_cap, four tiers", {"first_cap": 0.5}, 1, [90.0], 3, [6, 18, 24]),
    # Mean 9, std 1: 9 + 0, 9 + 1, 9 + 3 instead of 9 + 2.
    ("spread 0", {"spread": 0.0}, 0, [8.0, 10.0], 2, [9, 12]),
    ("spread 1", {"spread": 1.0}, 0, [8.0, 10.0], 2, [10, 12]),
    ("spread 2", {}, 0, [8.0, 10.0], 2, [11, 12]),
    ("spread 3", {"spread": 3.0}, 0, [8.0, 10.0], 2, [12, 12]),
]


@pytest.mark.parametrize(
    ("name", "given", "tier", "waits", "last", "expected"), TIMERS, ids=[row[0] for row in TIMERS]
)
@pytest.mark.parametrize("lease_s", [1.0, HOUR])
def test_tuned_timers(
    name: str,
    given: dict[str, float],
    tier: int,
    waits: list[float],
    last: int,
    expected: list[float],
    lease_s: float,
) -> None:
    timers = noted(tuned(lease_s, **given), tier, waits)  # type: ignore[arg-type]
    assert [timers.timer_s(k, last, 8, 0.0) for k in range(1, last + 1)] == [lease_s * n for n in expected]


def test_each_demand_has_its_own_timers() -> None:
    timers = noted(tuned(), 0, [9.0], gpus=8)
    assert [timers.timer_s(1, 2, gpus, 0.0) for gpus in (4, 8, 16)] == [6.0, 9.0, 6.0]


# What T_1 is when, in leases of one second and a history of 24: (now, T_1)
WINDOW = [
    # Waits of 8 noted at 0 and of 10 at 5: mean 9, std 1, so 11; after 24 only the 10 is left, after 29 none.
    (5.0, 11.0),
    (24.0, 11.0),
    (24.001, 10.0),
    (29.0, 10.0),
    (29.001, 6.0),
    (1000.0, 6.0),
]


@pytest.mark.parametrize(("now", "expected"), WINDOW)
def test_window(now: float, expected: float) -> None:
    timers = noted(noted(tuned(), 0, [8.0], now=0.0), 0, [10.0], now=5.0)
    assert timers.timer_s(1, 2, 8, now) == expected


def test_the_window_is_a_parameter_counted_in_leases() -> None:
    # 10 leases of 600 s: a wait noted at 100 counts until 6100.
    timers = noted(tuned(600.0, history=10.0), 0, [7.0], now=100.0)
    assert [timers.timer_s(1, 2, 8, now) for now in (6100.0, 6101.0)] == [4200.0, 3600.0]


def test_it_says_when_time_alone_changes_the_timers() -> None:
    timers = noted(noted(tuned(), 0, [8.0], now=0.0), 1, [15.0], now=5.0)
    # Just after these are 24 s old. Tier 1 rests on waits for tier 0 (until 24) and, as no tier is refused for a
    # farther one, on those for tier 1 (until 29); tier 2 on the latter alone.
    first_s, second_s = nextafter(24.0, INF), nextafter(29.0, INF)
    assert (timers.changes_s(1, 2, 8, 5.0), timers.changes_s(2, 2, 8, 5.0)) == (first_s, second_s)
    assert timers.changes_s(1, 2, 8, 24.0) == first_s
    assert (timers.changes_s(1, 2, 8, first_s), timers.changes_s(1, 2, 8, second_s)) == (second_s, INF)
    assert timers.changes_s(1, 2, 4, 5.0) == INF


def test_old_waits_are_thrown_away() -> None:
    timers = tuned()
    for now in range(5000):
        timers.note(0, 8, float(now), 7.0)
        assert timers.timer_s(1, 2, 8, float(now)) == 7.0
    assert [row[2] for row in timers.samples()] == [float(now) for now in range(4975, 5000)]


# name, floors, noted at tier, waits, last, expected wait_s of tier 1 … last in leases
NO_REFUSALS = [
    # As published the timers rise with the tier: each is its own.
    ("rising", (6.0, 12.0), 0, [], 2, [6, 12]),
    # T_1 = 18 but T_2 = 12: whoever would take the network at 12 takes a rack at 12.
    ("tier 1 above tier 2", (6.0, 12.0), 0, [18.0], 2, [12, 12]),
    # T_2 = 20, T_1 = 6, T_3 = 24.
    ("in order", (6.0, 12.0), 1, [20.0], 3, [6, 20, 24]),
    # Floors that fall: 9, 5, 2.
    ("falling floors", (9.0, 5.0, 2.0), 0, [], 3, [2, 2, 2]),
    ("a dip", (4.0, 8.0, 6.0), 0, [], 3, [4, 6, 6]),
]


@pytest.mark.parametrize(
    ("name", "floors", "tier", "waits", "last", "expected"), NO_REFUSALS, ids=[row[0] for row in NO_REFUSALS]
)
def test_no_tier_is_refused_by_one_who_would_take_a_farther_one(
    name: str, floors: tuple[float, ...], tier: int, waits: list[float], last: int, expected: list[float]
) -> None:
    timers = noted(tuned(floors=floors), tier, waits)
    assert [timers.wait_s(k, last, 8, 0.0) for k in range(1, last + 1)] == expected


def test_what_was_learnt_can_be_saved_and_restored() -> None:
    timers = noted(tuned(HOUR), 0, [8.0, 10.0], gpus=8, now=100.0)
    noted(timers, 1, [15.0], gpus=16, now=200.0)
    rows = timers.samples()
    assert sorted(rows) == [(0, 8, 100.0, 8.0), (0, 8, 100.0, 10.0), (1, 16, 200.0, 15.0)]
    fresh = noted(tuned(HOUR), 0, [20.0], gpus=4)  # forgotten by restore
    fresh.restore(rows)
    assert fresh.samples() == rows
    for one in (timers, fresh, pickle.loads(pickle.dumps(timers))):
        # Mean 9, std 1: 11 leases, for as long as these waits count.
        assert [one.timer_s(1, 2, 8, now) / HOUR for now in (300.0, 101.0 + 24 * HOUR)] == [11.0, 6.0]
        assert [one.timer_s(2, 2, 16, now) / HOUR for now in (300.0, 201.0 + 24 * HOUR)] == [15.0, 12.0]
        assert [one.timer_s(1, 2, gpus, 300.0) / HOUR for gpus in (4, 16)] == [6.0, 6.0]


def test_a_step_in_load_moves_the_timers_within_the_history() -> None:
    # Every lease a gang gets a machine: after 7 leases until 100, after 15 until 200, after 7 again.
    timers = tuned()
    seen: dict[int, float] = {}
    for now in range(300):
        noted(timers, 0, [15.0 if 100 <= now < 200 else 7.0], now=float(now))
        seen[now] = timers.timer_s(1, 2, 8, float(now))
    # The window at `now` holds the 25 samples now - 24 … now.
    assert seen[99] == 7.0
    # One 15 in 25: mean 7 + 8/25 = 7.32, std 8·√(1/25 · 24/25) = 1.57: ⌈10.46⌉.
    assert seen[100] == 11.0
    # 6 of 25: mean 8.92, std 8·√(6/25 · 19/25) = 3.42: ⌈15.75⌉.
    assert seen[105] == 16.0
    # All 25 are 15.
    assert [seen[now] for now in (124, 150, 199)] == [15.0, 15.0, 15.0]
    # And back: one 15 left at 223, none at 224.
    assert [seen[now] for now in (223, 224, 299)] == [11.0, 7.0, 7.0]


def test_a_step_in_load_moves_the_timers_of_a_run() -> None:
    # One machine, its 4 GPUs taken in turns by gangs of 4, lease 10 s, history 8 leases. First one gang
    # comes every 5 s and runs for 5 s: nobody waits. Then come 12 at once at 100: under fifo no one is
    # preempted, and they start at 100, 105, …, 155: the last 10 of them after waits of 1.0, 1.5, … 5.5 leases.
    # From 200 on it is quiet again, a gang every 50 s.
    jobs = [(5.0 * n, 4, 5.0) for n in range(10)] + [(100.0, 4, 5.0)] * 12
    jobs += [(200.0 + 50.0 * n, 4, 5.0) for n in range(3)]
    policy = build("dally-paper", {"order": "fifo", "lease_s": "10", "history": "8", "floors": "0,0"})
    assert isinstance(policy, PaperDally)
    simulation = Case([(("a",), 4), (("b",), 1)], jobs, costs=FREE).simulation(policy)
    seen: dict[float, float] = {}
    while simulation.step():
        seen[simulation.now] = policy.timers.timer_s(1, 2, 4, simulation.now) / 10.0
    assert all(job.tier == 0 for job in simulation.jobs)
    assert [seen[now] for now in (0.0, 45.0, 100.0, 105.0)] == [1.0, 1.0, 1.0, 1.0]
    # Waits 1.0 and 1.5: mean 1.25, std 0.25: ⌈1.75⌉.
    assert (seen[110.0], seen[115.0]) == (1.0, 2.0)
    # Waits 1.0 … 5.5: mean 3.25, variance 0.25·(10² - 1)/12 = 2.0625, std 1.436: ⌈6.12⌉, capped at ⌈0.8·8⌉.
    assert seen[155.0] == 7.0
    # 80 s after the last of them was noted nothing is left; at 200 those from 120 on still count:
    # 2.0 … 5.5, mean 3.75, variance 0.25·(8² - 1)/12 = 1.3125, std 1.146: ⌈6.04⌉.
    assert (seen[200.0], seen[250.0], seen[300.0]) == (7.0, 1.0, 1.0)


def test_a_run_goes_on_with_what_was_learnt() -> None:
    # Learnt: gangs of 4 got a machine after 3 leases of 10 s. Job 2 then takes the rack after 30 s, not 10.
    jobs = [(0.0, 3, 500.0), (0.0, 3, 500.0), (1.0, 4, 5.0)]
    case = Case([(("a",), 5), (("a",), 5)], jobs, costs=FREE)
    starts = []
    for rows in ([], [(0, 4, -5.0, 3.0)]):
        policy = build("dally-paper", {"order": "fifo", "lease_s": "10", "floors": "0,6"})
        assert isinstance(policy, PaperDally)
        policy.timers.restore(rows)
        starts.append(case.run(policy).jobs[2].start_s)
    assert starts == [11.0, 31.0]
