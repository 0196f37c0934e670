"""Delay scheduling: which tier a gang takes, and when. Timers in these tables are in seconds: a lease is 1 s."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, WAITING, Costs, Job, make_allocation
from dally.policies.delay_timers import Timers
from dally.policies.ordering.simple import SubmitOrder
from dally.policies.paper_dally import PaperDally
from dally.policies.placement.delay import DelayPlacement
from dally.policies.registry import POLICIES, build
from dally.testing import record_of
from dally.testing.strategies import Case, cases
from tests.examples import many

FREE = Costs(0.0, 0.0, 0.0)
INF = float("inf")

Machines = list[tuple[tuple[str, ...], int]]

# Two racks of two machines of 8 GPUs.
RACKS: Machines = [(("a",), 8), (("a",), 8), (("b",), 8), (("b",), 8)]
# Two pods of two racks of two machines of 4 GPUs.
PODS: Machines = [((pod, rack), 4) for pod in "PQ" for rack in (f"{pod}a", f"{pod}b") for _ in range(2)]


def patient(*timers_s: float) -> PaperDally:
    """Delay scheduling alone: first come first served, nobody preempted, these timers."""
    return PaperDally(SubmitOrder(), DelayPlacement(Timers(1.0, list(timers_s))), INFINITY)


def run(machines: Machines, jobs: list[tuple[float, int, float]], *timers_s: float) -> list[tuple[float, int]]:
    """(first start, tier) of each job."""
    simulation = Case(machines, jobs, costs=FREE).run(patient(*timers_s))
    return [(job.start_s, int(job.tier)) for job in simulation.jobs]


def occupied(machines: Machines, free: list[int]) -> Cluster:
    """A cluster in which only that many GPUs are free on each machine."""
    simulation = Case(machines, [(0.0, 1, 1.0)], costs=FREE).simulation(patient(1.0))
    cluster = simulation.state.cluster
    for machine, ((_, gpus), left) in enumerate(zip(machines, free, strict=True)):
        if gpus > left:
            taker = Job(100 + machine, "taker", 0.0, gpus - left, 1.0)
            cluster.take(taker, make_allocation(0, [(machine, gpus - left)]))
    return cluster


# The decision by itself, timers 10, 20, 40 from t_last = 0.
# name, machines, free GPUs per machine, gang, now, expected tier or None when it declines
OFFERS = [
    # Rule 1: some machine has room.
    ("a machine at once", RACKS, [8, 8, 8, 8], 8, 0.0, 0),
    ("the one machine left", RACKS, [0, 0, 0, 3], 3, 0.0, 0),
    ("a machine after all timers too", RACKS, [4, 4, 0, 4], 4, 100.0, 0),
    # Rule 2: 4 + 4 in one rack is tier 1; T_1 = 10.
    ("a rack too early", RACKS, [4, 4, 0, 0], 8, 9.999, None),
    ("a rack just in time", RACKS, [4, 4, 0, 0], 8, 10.0, 1),
    # 4 + 4 across racks is tier 2; T_2 = 20, from the same t_last: at 20, not 10 + 20.
    ("the network too early", RACKS, [4, 0, 4, 0], 8, 19.999, None),
    ("the network just in time", RACKS, [4, 0, 4, 0], 8, 20.0, 2),
    # tier*(16) = 1: no machine is that large.
    ("a rack for 16 at once", RACKS, [8, 8, 8, 8], 16, 0.0, 1),
    ("a rack for 9 at once", RACKS, [8, 1, 0, 0], 9, 0.0, 1),
    ("the network for 16 too early", RACKS, [8, 4, 4, 0], 16, 19.999, None),
    ("the network for 16 just in time", RACKS, [8, 4, 4, 0], 16, 20.0, 2),
    # tier*(17) = 2.
    ("the network for 17 at once", RACKS, [8, 8, 1, 0], 17, 0.0, 2),
    ("everything at once", RACKS, [8, 8, 8, 8], 32, 0.0, 2),
    # No room at all.
    ("no room", RACKS, [2, 2, 2, 1], 8, 100.0, None),
    ("larger than the cluster", RACKS, [8, 8, 8, 8], 33, 100.0, None),
    # Four tiers. Machines 4, racks 8, pods 16, network 32; T = 10, 20, 40.
    ("four: a machine", PODS, [0, 0, 4, 0, 0, 0, 0, 0], 4, 0.0, 0),
    ("four: a rack too early", PODS, [2, 2, 0, 0, 0, 0, 0, 0], 4, 9.999, None),
    ("four: a rack", PODS, [2, 2, 0, 0, 0, 0, 0, 0], 4, 10.0, 1),
    ("four: a pod too early", PODS, [2, 0, 2, 0, 0, 0, 0, 0], 4, 19.999, None),
    ("four: a pod", PODS, [2, 0, 2, 0, 0, 0, 0, 0], 4, 20.0, 2),
    ("four: the network too early", PODS, [2, 0, 0, 0, 2, 0, 0, 0], 4, 39.999, None),
    ("four: the network", PODS, [2, 0, 0, 0, 2, 0, 0, 0], 4, 40.0, 3),
    ("four: a rack for 8 at once", PODS, [0, 0, 4, 4, 0, 0, 0, 0], 8, 0.0, 1),
    ("four: a pod for 8 too early", PODS, [0, 4, 4, 0, 0, 0, 0, 0], 8, 19.999, None),
    ("four: a pod for 8", PODS, [0, 4, 4, 0, 0, 0, 0, 0], 8, 20.0, 2),
    ("four: a pod for 9 at once", PODS, [0, 4, 4, 1, 0, 0, 0, 0], 9, 0.0, 2),
    ("four: the network for 9 too early", PODS, [4, 4, 0, 0, 1, 0, 0, 0], 9, 39.999, None),
    ("four: the network for 9", PODS, [4, 4, 0, 0, 1, 0, 0, 0], 9, 40.0, 3),
    ("four: the network for 17 at once", PODS, [4, 4, 4, 4, 1, 0, 0, 0], 17, 0.0, 3),
]


@pytest.mark.parametrize(
    ("name", "machines", "free", "gpus", "now", "expected"), OFFERS, ids=[row[0] for row in OFFERS]
)
def test_offer(
    name: str,
    machines: Machines,
    free: list[int],
    gpus: int,
    now: float,
    expected: int | None,
) -> None:
    cluster = occupied(machines, free)
    job = Job(0, "j", 0.0, gpus, 1.0)
    found = DelayPlacement(Timers(1.0, [10.0, 20.0])).place(job, now, cluster)
    assert (None if found is None else int(found.tier)) == expected
    if found is not None:
        assert found.total() == gpus
        assert all(taken <= free[machine] for machine, taken in found.parts())


def test_timers_run_from_the_moment_the_gpus_were_lost() -> None:
    cluster = occupied(RACKS, [4, 4, 0, 0])
    job = Job(0, "j", 0.0, 8, 1.0)
    job.lost_s = 100.0
    placement = DelayPlacement(Timers(1.0, [10.0, 20.0]))
    assert placement.place(job, 109.0, cluster) is None
    assert placement.place(job, 110.0, cluster) is not None


# Whole runs. Jobs 0 and 1 (or more) are there to take GPUs; they last 1000 s.
# name, machines, jobs (submit, gpus, duration), timers, expected (start, tier)
RUNS = [
    # 5 and 5 GPUs taken, 3 + 3 free in the rack: job 2 declines until T_1 = 10 after its submission at 7.
    ("a rack when its time comes", [(("a",), 8), (("a",), 8)],
     [(0, 5, 1000), (0, 5, 1000), (7, 6, 5)], (10, 20), [(0, 0), (0, 0), (17, 1)]),
    # The same across racks: T_2 = 20 after 7, not 10 + 20 after.
    ("the network when its time comes", [(("a",), 8), (("b",), 8)],
     [(0, 5, 1000), (0, 5, 1000), (7, 6, 5)], (10, 20), [(0, 0), (0, 0), (27, 2)]),
    # Pods: 3 + 3 in two racks of one pod: T_2; in two pods: T_3 = 2 · T_2 = 40.
    ("four: a pod when its time comes", [(("P", "a"), 8), (("P", "b"), 8)],
     [(0, 5, 1000), (0, 5, 1000), (7, 6, 5)], (10, 20), [(0, 0), (0, 0), (27, 2)]),
    ("four: the network when its time comes", [(("P", "a"), 8), (("Q", "b"), 8)],
     [(0, 5, 1000), (0, 5, 1000), (7, 6, 5)], (10, 20), [(0, 0), (0, 0), (47, 3)]),
    # A machine is free at 12, before T_1 = 10 after 7.
    ("a machine in the meantime", [(("a",), 8), (("a",), 8)],
     [(0, 5, 12), (0, 5, 1000), (7, 6, 5)], (10, 20), [(0, 0), (0, 0), (12, 0)]),
    # A rack comes on offer at 15 only, T_1 ran out at 10: it is taken at once.
    ("a rack late", [(("a",), 8), (("a",), 8)],
     [(0, 6, 1000), (0, 6, 1000), (0, 2, 15), (0, 4, 5)], (10, 20), [(0, 0), (0, 0), (0, 0), (15, 1)]),
    # Declining does not block: job 2 waits for a machine from 1 on, job 3 comes later and starts at once.
    ("the next in line goes", [(("a",), 8), (("a",), 8)],
     [(0, 5, 1000), (0, 5, 1000), (1, 6, 5), (2, 3, 5)], (10, 20), [(0, 0), (0, 0), (11, 1), (2, 0)]),
    # Nor one of the same size: jobs 2 and 3 both ask for 6; at 11 job 2 takes the rack and ends at 16;
    # job 3, submitted at 3, takes it then: its own T_1 ran out at 13.
    ("the same size in turn", [(("a",), 8), (("a",), 8)],
     [(0, 5, 1000), (0, 5, 1000), (1, 6, 5), (3, 6, 5)], (10, 20), [(0, 0), (0, 0), (11, 1), (16, 1)]),
    # A gang larger than a machine takes a rack at once.
    ("12 in a rack at once", RACKS, [(0, 12, 10)], (10, 20), [(0, 1)]),
    # ... and the network only at T_2: 8 and 4 are left in the two racks.
    ("12 across racks", RACKS, [(0, 8, 1000), (0, 12, 1000), (0, 12, 5)], (10, 20), [(0, 0), (0, 1), (20, 2)]),
    # Four tiers: a gang of 6 in a rack at once; the next finds 2 in that rack and 2 + 2 in the other.
    ("four: 6 in a rack at once", PODS[:4], [(0, 6, 10)], (10, 20), [(0, 1)]),
    ("four: 6 in a pod at T_2", PODS[:4], [(0, 6, 1000), (0, 4, 1000), (0, 6, 5)], (10, 20),
     [(0, 1), (0, 0), (20, 2)]),
    ("17 across racks at once", RACKS, [(0, 17, 5)], (10, 20), [(0, 2)]),
    # Timers 0: whatever there is. Timers ∞: only the closest tier, however long that takes.
    ("no timers", [(("a",), 8), (("b",), 8)],
     [(0, 5, 1000), (0, 5, 1000), (7, 6, 5)], (0, 0), [(0, 0), (0, 0), (7, 2)]),
    ("endless timers", [(("a",), 8), (("b",), 8)],
     [(0, 5, 1000), (0, 5, 1000), (7, 6, 5)], (INF, INF), [(0, 0), (0, 0), (1000, 0)]),
    ("endless timers, larger than a machine", RACKS,
     [(0, 8, 1000), (0, 12, 900), (0, 12, 5)], (INF, INF), [(0, 0), (0, 1), (900, 1)]),
    # T_1 = 30 > T_2 = 10: at 10 it would take the network, so it does not refuse the rack.
    ("never refuses what is closer", [(("a",), 8), (("a",), 8)],
     [(0, 5, 1000), (0, 5, 1000), (7, 6, 5)], (30, 10), [(0, 0), (0, 0), (17, 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "machines", "jobs", "timers_s", "expected"), RUNS, ids=[row[0] for row in RUNS])
def test_run(
    name: str,
    machines: Machines,
    jobs: list[tuple[float, int, float]],
    timers_s: tuple[float, ...],
    expected: list[tuple[float, int]],
) -> None:
    assert run(machines, jobs, *[float(timer_s) for timer_s in timers_s]) == expected


def test_a_timer_is_an_event_of_its_own() -> None:
    # Nothing else happens between 7 and 1000.
    jobs = [(0.0, 5, 1000.0), (0.0, 5, 1000.0), (7.0, 6, 500.0)]
    simulation = Case([(("a",), 8), (("a",), 8)], jobs, costs=FREE).run(patient(10.0, 20.0))
    events = [(event.time_s, event.kind, event.job) for event in record_of(simulation).events]
    assert [event for event in events if 7.0 <= event[0] < 1000.0] == [
        (7.0, "submit", 2),
        (17.0, "timer", -1),
        (17.0, "start", 2),
        (517.0, "finish", 2),
    ]


def test_nobody_is_woken_for_a_tier_that_is_not_on_offer() -> None:
    # Job 2 asks for more than is free, anywhere: its timers need no events.
    jobs = [(0.0, 7, 1000.0), (0.0, 7, 1000.0), (7.0, 6, 5.0)]
    simulation = Case([(("a",), 8), (("a",), 8)], jobs, costs=FREE).run(patient(10.0, 20.0))
    assert "timer" not in [event.kind for event in record_of(simulation).events]
    assert simulation.jobs[2].start_s == 1000.0


def test_a_timer_with_odd_fractions_goes_off_once() -> None:
    # 0.1 + 0.2 is not 0.3: the event and the decision must agree on when the wait is long enough.
    jobs = [(0.0, 5, 1000.0), (0.0, 5, 1000.0), (0.1, 6, 500.0)]
    simulation = Case([(("a",), 8), (("a",), 8)], jobs, costs=FREE).run(patient(0.2))
    assert [event.kind for event in record_of(simulation).events].count("timer") == 1
    assert simulation.jobs[2].start_s == 0.1 + 0.2


def test_waiting_begins_again_when_the_gpus_are_lost() -> None:
    # Machine 0 fails at 100 and is back at 2000; job 0 (6 GPUs) ran on it since 0. Then 3 + 3 are free on
    # machines 1 and 2, where jobs 1 and 2 (5 GPUs each) run: it takes the rack at 100 + T_1, not at once.
    case = Case(
        [(("a",), 8), (("a",), 8), (("a",), 8)],
        [(0.0, 6, 1000.0), (0.0, 5, 1500.0), (0.0, 5, 1500.0)],
        outages=[(0, 100.0, 2000.0)],
        costs=FREE,
    )
    simulation = case.run(patient(10.0, 20.0))
    starts = [event for event in record_of(simulation).events if event.kind == "start" and event.job == 0]
    assert [(event.time_s, event.parts) for event in starts] == [(0.0, [(0, 6)]), (110.0, [(1, 3), (2, 3)])]
    assert simulation.jobs[0].lost_s == 100.0


def test_waiting_begins_again_on_four_tiers() -> None:
    # The same, but machines 1 and 2 are in two pods: T_3 = 40.
    case = Case(
        [(("P", "a"), 8), (("P", "b"), 8), (("Q", "c"), 8)],
        [(0.0, 6, 1000.0), (0.0, 5, 1500.0), (0.0, 5, 1500.0)],
        outages=[(0, 100.0, 2000.0)],
        costs=FREE,
    )
    simulation = case.run(patient(10.0, 20.0))
    starts = [event.time_s for event in record_of(simulation).events if event.kind == "start" and event.job == 0]
    assert (starts, int(simulation.jobs[0].tier)) == ([0.0, 140.0], 3)


@settings(
    max_examples=many(100), deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(
    cases(),
    st.sampled_from([name for name in POLICIES if name.startswith("dally-paper")]),
)
def test_nobody_waits_who_would_take_what_is_free(case: Case, name: str) -> None:
    # After every pass, and at the very moment at which the policy asks to be woken no earlier.
    policy = build(name, {"lease_s": "50", "floors": "inf" if name == "dally-paper-consolidated" else "1,3"})
    assert isinstance(policy, PaperDally)
    simulation = case.simulation(policy)
    while simulation.state.finished < len(simulation.jobs) and simulation.step(case.until_s):
        waiting = [job for job in simulation.jobs if job.status == WAITING]
        cluster = simulation.state.cluster
        wakeup_s = policy.wakeup_s
        moments = [simulation.now]
        if wakeup_s < INFINITY:
            moments.append((simulation.now + wakeup_s) / 2.0)
        for moment_s in moments:
            if moment_s < wakeup_s:
                assert all(policy.placement.place(job, moment_s, cluster) is None for job in waiting)
