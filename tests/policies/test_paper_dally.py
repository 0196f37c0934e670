"""Dally as a whole: the order, leases kept and lost, the named variants, and the switches."""

from __future__ import annotations

import pickle

import pytest

from dally.cluster.capacity import Cluster
from dally.cluster.topology import Machine, Topology, default_tiers
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.model import FINISHED, RUNNING, WAITING, Costs, Job
from dally.perf.base import Speed, SpeedModel
from dally.policies.ordering.simple import NetworkSensitivity
from dally.policies.paper_dally import PaperDally
from dally.policies.registry import POLICIES, build
from dally.testing import check_policy, record_of
from dally.testing.strategies import Case
from tests.examples import many

FREE = Costs(0.0, 0.0, 0.0)
PER_GPU = Costs(0.0, 1.0, 0.0)
INF = float("inf")

Machines = list[tuple[tuple[str, ...], int]]
Jobs = list[tuple[float, int, float]]

PAIR: Machines = [(("a",), 8), (("a",), 8)]  # two machines of one rack


class Talkative(SpeedModel):
    """Each job talks for a fixed share of its time, and works in the rest."""

    def __init__(self, shares: list[float]) -> None:
        self.shares = shares

    def placed(self, job: Job) -> list[Speed]:
        share = self.shares[job.index]
        return [Speed(job, 1.0 - share, share)]


def run(
    machines: Machines, jobs: Jobs, settings: dict[str, str], costs: Costs = FREE, shares: list[float] | None = None
) -> Simulation:
    """A run of `dally` with a speed model that makes job i talk for shares[i] of its time."""
    simulation = Case(machines, jobs, costs=costs).simulation(build("dally-paper", settings))
    if shares is not None:
        simulation.state.speed = Talkative(shares)
    simulation.run()
    return simulation


def story(simulation: Simulation, *kinds: str) -> list[tuple[float, str, int]]:
    """(time, kind, job) rows of the log."""
    return [(row.time_s, row.kind, row.job) for row in record_of(simulation).events if row.kind in kinds]


# The order by itself.
# name, status, seconds with GPUs, of them computing, expected Nw_sens
SENSITIVITIES = [
    # Never ran: first of all.
    ("never ran", WAITING, 0.0, 0.0, 0.0),
    # 100 s with GPUs, all of it computing.
    ("no network", WAITING, 100.0, 100.0, 1.0),
    # Of 200 s 50 went into the network: 0.75.
    ("a quarter lost", WAITING, 200.0, 150.0, 0.75),
    # work_done = 0.3 of an ideal 1000 s after 1200 s: 0.3 / (1200 / 1000) = 0.25.
    ("as the paper writes it", WAITING, 1200.0, 300.0, 0.25),
    # It held GPUs for 10 s, all of them a restart.
    ("only restarted", WAITING, 10.0, 0.0, 0.0),
]


@pytest.mark.parametrize(
    ("name", "status", "held_s", "computed_s", "expected"), SENSITIVITIES, ids=[row[0] for row in SENSITIVITIES]
)
def test_sensitivity(name: str, status: int, held_s: float, computed_s: float, expected: float) -> None:
    job = Job(0, "j", 0.0, 4, 1000.0)
    job.status, job.held_s, job.compute_s = status, held_s, computed_s
    assert NetworkSensitivity().key(job, 5000.0) == pytest.approx(expected, rel=1e-12)


def test_sensitivity_of_a_running_job_counts_up_to_now() -> None:
    # Before: 100 s with GPUs, 60 computing. Placed at 1000, restarted until 1020, talks for 0.4 of its time.
    # At 1120: 220 s with GPUs, 60 + 100 · 0.6 = 120 computing.
    job = Job(0, "j", 0.0, 4, 1000.0)
    job.status, job.held_s, job.compute_s = RUNNING, 100.0, 60.0
    job.placed_s, job.since_s, job.comm_rate = 1000.0, 1020.0, 0.4
    assert NetworkSensitivity().key(job, 1120.0) == round(120.0 / 220.0, 9)
    # While it restarts only the time with GPUs grows.
    assert NetworkSensitivity().key(job, 1010.0) == round(60.0 / 110.0, 9)


def test_sensitivity_in_a_run() -> None:
    # Stopped at 40: job 0 talked for half of the time, job 1 for a tenth, both since 0; job 2 waits.
    case = Case([(("a",), 8)], [(0.0, 4, 100.0), (0.0, 4, 100.0), (5.0, 8, 10.0)], costs=FREE, until_s=40.0)
    simulation = case.simulation(build("dally-paper"))
    simulation.state.speed = Talkative([0.5, 0.1, 0.0])
    simulation.run(40.0)
    keys = [NetworkSensitivity().key(job, 40.0) for job in simulation.jobs]
    assert keys == pytest.approx([0.5, 0.9, 0.0], rel=1e-12)


# One machine of 4 GPUs, every gang asks for 4, lease 100 s, no restart cost. Expected: who starts when.
# name, jobs, share of time each talks, expected (time, job)
ORDERS = [
    # At 100 job 0 has 0.6; job 1 never ran and goes first, and so does job 2 at 200 (job 1 has 0.9 by then).
    # At 300 all have run, job 2 for 0.2 of its time: it is the best of them and stays, until its 60 s of work
    # are done: 20 by 300, 60 at 500. Then job 0 (0.6), 40 s left at 0.6 after 60: ends at 500 + 66.7, then job 1.
    ("most sensitive first", [(0, 4, 100), (10, 4, 100), (20, 4, 60)], [0.4, 0.1, 0.8],
     [(0, 0), (100, 1), (200, 2), (500, 0), (500 + 40 / 0.6, 1)]),
    # All never ran and were submitted at 0: by number.
    ("never ran, by id", [(0, 4, 50), (0, 4, 50), (0, 4, 50)], [0.0, 0.0, 0.0], [(0, 0), (50, 1), (100, 2)]),
    # All never ran: by t_last, which is submission.
    ("never ran, by t_last", [(0, 4, 50), (7, 4, 50), (8, 4, 50)], [0.0, 0.0, 0.0], [(0, 0), (50, 1), (100, 2)]),
    # Nobody talks: all score 1 once they ran. Job 0 lost its GPUs at 100, job 1 at 200, job 2 ends at 300:
    # the one that lost them first is next. It runs 300 to 400; then job 1, which waits and holds none, is ahead
    # of it on the tie, and the two take turns.
    ("ties by t_last", [(0, 4, 250), (0, 4, 150), (0, 4, 100)], [0.0, 0.0, 0.0],
     [(0, 0), (100, 1), (200, 2), (300, 0), (400, 1), (450, 0)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "jobs", "shares", "expected"), ORDERS, ids=[row[0] for row in ORDERS])
def test_order(name: str, jobs: Jobs, shares: list[float], expected: list[tuple[float, int]]) -> None:
    simulation = run([(("a",), 4)], jobs, {"lease_s": "100"}, shares=shares)
    starts = [(time_s, job) for time_s, _, job in story(simulation, "start")]
    assert [job for _, job in starts] == [job for _, job in expected]
    assert [time_s for time_s, _ in starts] == pytest.approx([time_s for time_s, _ in expected], rel=1e-9)


def test_never_ran_goes_before_everybody() -> None:
    # Job 0 talks nearly all the time (0.01), yet at 100 job 1, which never ran, takes its GPUs.
    simulation = run([(("a",), 4)], [(0, 4, 10), (50, 4, 10)], {"lease_s": "100"}, shares=[0.99, 0.0])
    rows = story(simulation, "start", "preempt")
    assert rows[:3] == [(0.0, "start", 0), (100.0, "preempt", 0), (100.0, "start", 1)]


def test_a_renewal_costs_nothing() -> None:
    # Nobody else is there: 350 s in leases of 100 s, renewed at 100, 200 and 300.
    job = run([(("a",), 4)], [(0, 4, 350)], {"lease_s": "100"}, PER_GPU).jobs[0]
    assert (job.finish_s, job.renewals, job.preemptions, job.overhead_s) == (350.0, 3, 0, 0.0)


def test_a_loss_costs_the_restart() -> None:
    # Job 1 takes over at 100 and ends at 130; job 0 restarts for 1 s per GPU and does its other 100 s.
    # Its lease runs from 134, when it works again, to 234, when it is done.
    first, second = run([(("a",), 4)], [(0, 4, 200), (50, 4, 30)], {"lease_s": "100"}, PER_GPU).jobs
    assert (first.finish_s, first.renewals, first.preemptions, first.overhead_s) == (234.0, 0, 1, 4.0)
    assert (second.start_s, second.finish_s, second.overhead_s) == (100.0, 130.0, 0.0)


def test_a_flat_restart_is_a_parameter() -> None:
    first, _ = run([(("a",), 4)], [(0, 4, 200), (50, 4, 30)], {"lease_s": "100"}, Costs(62.0, 0.0, 0.0)).jobs
    assert (first.finish_s, first.overhead_s) == (292.0, 62.0)


# Who keeps and who loses GPUs when leases of 100 s end. Jobs 0 … run from 0; the last one comes at 50, never ran,
# and is therefore ahead of all.
# name, machines, jobs, shares, expected who was preempted at 100, machines of the last job
LEASES = [
    # Both leases end; the newcomer needs one machine: the worse-ranked (0.9 against 0.5) loses it.
    ("the worst-ranked loses", PAIR, [(0, 8, 900), (0, 8, 900), (50, 8, 10)], [0.1, 0.5, 0.0], [0], [0]),
    # Both needed.
    ("both lose", PAIR, [(0, 8, 900), (0, 8, 900), (50, 16, 10)], [0.1, 0.5, 0.0], [0, 1], [0, 1]),
    # Free GPUs were on offer at once: each gets its own back.
    ("free GPUs as close", [*PAIR, (("a",), 8)], [(0, 8, 900), (0, 8, 900), (50, 8, 900)],
     [0.5, 0.1, 0.0], [], [2]),
    # Nobody needs them: larger than all there is on offer to it.
    ("nobody better needs them", [(("a",), 8), (("a",), 4)], [(0, 8, 900), (50, 4, 10)], [0.0, 0.0], [], [1]),
    # Four tiers, the same as the first.
    ("four tiers", [(("P", "a"), 8), (("P", "b"), 8)], [(0, 8, 900), (0, 8, 900), (50, 8, 10)],
     [0.1, 0.5, 0.0], [0], [0]),
    # A gang of two machines loses both, even if only one is needed.
    ("whole gangs lose", PAIR, [(0, 16, 900), (50, 8, 10)], [0.1, 0.0], [0], [0]),
    # 5 free GPUs on each machine hold no 8; the leases of jobs 0 and 1 end: one of them is enough.
    ("no more than needed", PAIR, [(0, 5, 900), (0, 5, 900), (50, 8, 10)], [0.1, 0.5, 0.0], [0], [0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "machines", "jobs", "shares", "losers", "where"), LEASES, ids=[row[0] for row in LEASES]
)
def test_lease_end(
    name: str, machines: Machines, jobs: Jobs, shares: list[float], losers: list[int], where: list[int]
) -> None:
    simulation = run(machines, jobs, {"lease_s": "100"}, shares=shares)
    preempted = [job for time_s, _, job in story(simulation, "preempt") if time_s == 100.0]
    assert sorted(preempted) == losers
    last = len(jobs) - 1
    start = next(row for row in record_of(simulation).events if row.kind == "start" and row.job == last)
    assert [machine for machine, _ in start.parts] == where
    assert start.time_s == (100.0 if losers else 50.0)


def test_a_lease_that_goes_on_is_not_touched() -> None:
    # Job 0's lease ends at 100, job 1's at 160: the newcomer takes job 0's machine though job 1 ranks worse.
    jobs: Jobs = [(0, 8, 900), (60, 8, 900), (70, 8, 10)]
    simulation = run(PAIR, jobs, {"lease_s": "100"}, shares=[0.5, 0.1, 0.0])
    assert story(simulation, "preempt")[0] == (100.0, "preempt", 0)


def test_an_ended_lease_is_kept_from_a_worse_ranked_job() -> None:
    # One machine. Job 0 computes all the time, job 1 for half of it. Job 0 loses to job 1 (never ran) at 100;
    # at 200 job 1 (0.5) is better than job 0 (1.0): renewed until it ends at 100 + 150 / 0.5 = 400.
    first, second = run([(("a",), 4)], [(0, 4, 200), (50, 4, 150)], {"lease_s": "100"}, shares=[0.0, 0.5]).jobs
    assert (second.start_s, second.finish_s, second.renewals, second.preemptions) == (100.0, 400.0, 2, 0)
    assert (first.finish_s, first.preemptions) == (500.0, 1)


def test_nobody_loses_to_one_who_declines() -> None:
    # Each machine holds a gang of 5 whose leases end at 100, 200, … and one of 3 that came at 60. The gang of 8
    # that waits since 70 is offered 5 + 5, a rack: it declines until T_1 = 6 leases after 70, and the leases are
    # renewed. Those that end at 700 it takes.
    jobs: Jobs = [(0, 5, 5000), (0, 5, 5000), (60, 3, 5000), (60, 3, 5000), (70, 8, 5)]
    simulation = run(PAIR, jobs, {"lease_s": "100"})
    assert story(simulation, "preempt")[:2] == [(700.0, "preempt", 0), (700.0, "preempt", 1)]
    assert (simulation.jobs[4].start_s, int(simulation.jobs[4].tier)) == (700.0, 1)
    assert [row for row in story(simulation, "renew") if row[0] == 100.0] == [
        (100.0, "renew", 0),
        (100.0, "renew", 1),
    ]


def test_waiting_begins_again_when_a_lease_is_lost() -> None:
    # Three machines of 8. Job 0 (6 GPUs) loses the first to job 3 at 100; 3 + 3 are left beside jobs 1 and 2, which
    # keep theirs at 160 and 260, as job 3 does at 200 and 300: they talk and rank better. T_1 is 2 leases from when
    # job 0 lost its GPUs: a timer at 300, not 200.
    jobs: Jobs = [(0, 6, 500), (60, 5, 5000), (60, 5, 5000), (70, 8, 5000)]
    settings = {"lease_s": "100", "tuner": "off", "floors": "2,4"}
    simulation = run([*PAIR, (("a",), 8)], jobs, settings, shares=[0.0, 0.5, 0.5, 0.5])
    starts = [row for row in record_of(simulation).events if row.kind == "start" and row.job == 0]
    assert [(row.time_s, row.parts) for row in starts[:2]] == [(0.0, [(0, 6)]), (300.0, [(1, 3), (2, 3)])]
    assert [row for row in story(simulation, "preempt") if row[0] < 300.0] == [(100.0, "preempt", 0)]


# The named variants on the same jobs: 5 and 5 GPUs taken until 900 s, a gang of 6 comes at 7. Lease 10 s,
# order fifo. Expected: start and tier of the last one.
VARIANTS = [
    # T_2 = 12 leases.
    ("dally-paper", {}, (127.0, 2)),
    ("dally-paper-manual", {}, (127.0, 2)),
    ("dally-paper", {"tuner": "off"}, (127.0, 2)),
    ("dally-paper-nowait", {}, (7.0, 2)),
    ("dally-paper-manual", {"floors": "0,0"}, (7.0, 2)),
    ("dally-paper-consolidated", {}, (900.0, 0)),
    ("dally-paper-manual", {"floors": "inf"}, (900.0, 0)),
    ("dally-paper-manual", {"floors": "1,3"}, (37.0, 2)),
    # With the tuner the statistic of no samples, 1, is the least.
    ("dally-paper", {"floors": "0,0"}, (17.0, 2)),
    # The tuner caps what is endless: H = 24 leases.
    ("dally-paper", {"floors": "inf"}, (247.0, 2)),
    ("dally-paper", {"floors": "inf", "history": "5"}, (57.0, 2)),
]


@pytest.mark.parametrize(
    ("policy", "settings", "expected"), VARIANTS, ids=[f"{row[0]} {row[1]}" for row in VARIANTS]
)
def test_variants(policy: str, settings: dict[str, str], expected: tuple[float, int]) -> None:
    case = Case([(("a",), 8), (("b",), 8)], [(0, 5, 900), (0, 5, 900), (7, 6, 5)], costs=FREE)
    job = case.run(build(policy, {"order": "fifo", "lease_s": "10", **settings})).jobs[2]
    assert (job.start_s, int(job.tier)) == expected


# The orders that can be set, on one machine: two gangs of 4 at 0 and 1, lease 100 s.
# name, order, shares, expected (start, finish) of both
SWITCHES = [
    # Older keeps its GPUs.
    ("fifo", "fifo", [0.0, 0.0], [(0, 250), (250, 450)]),
    # Attained GPU-time: job 1 has none at 100; at 200 both have 400 GPU-s, and on the tie the one that waits goes;
    # at 300 job 1 has less than job 0; job 0's last 50 s come after job 1's.
    ("las", "las", [0.0, 0.0], [(0, 450), (100, 400)]),
    # Both score 1 once they ran: on ties, turns.
    ("network, no talk", "network-sensitivity", [0.0, 0.0], [(0, 450), (100, 400)]),
]


@pytest.mark.parametrize(("name", "order", "shares", "expected"), SWITCHES, ids=[row[0] for row in SWITCHES])
def test_orders_can_be_set(name: str, order: str, shares: list[float], expected: list[tuple[float, float]]) -> None:
    jobs: Jobs = [(0, 4, 250), (1, 4, 200)]
    simulation = run([(("a",), 4)], jobs, {"order": order, "lease_s": "100"}, shares=shares)
    assert [(job.start_s, job.finish_s) for job in simulation.jobs] == expected


def test_state_can_be_saved_and_restored() -> None:
    # A busy run teaches the tuner; a new policy restored from its samples has the same timers.
    jobs: Jobs = [(0.0, 4, 30.0)] * 12
    taught = build("dally-paper", {"order": "fifo", "lease_s": "10", "floors": "0,0"})
    simulation = Case([(("a",), 4), (("b",), 2)], jobs, costs=FREE).run(taught)
    assert isinstance(taught, PaperDally)
    rows = taught.timers.samples()
    assert rows
    assert all(leases >= 1.0 for _, _, _, leases in rows)
    new = build("dally-paper", {"order": "fifo", "lease_s": "10", "floors": "0,0"})
    assert isinstance(new, PaperDally)
    new.timers.restore(rows)
    assert new.timers.samples() == rows
    for now in (simulation.now, simulation.now + 100.0, simulation.now + 1000.0):
        for tier in (1, 2):
            expected = taught.timers.timer_s(tier, 2, 4, now)
            assert new.timers.timer_s(tier, 2, 4, now) == expected
    assert pickle.loads(pickle.dumps(new)).timers.samples() == new.timers.samples()


@pytest.mark.parametrize("policy", [name for name in POLICIES if name.startswith("dally-paper")])
def test_every_job_of_a_crowd_finishes(policy: str) -> None:
    jobs = [(float(i % 7), 1 + i * 5 % 16, 50.0 + i * 37 % 400) for i in range(60)]
    machines: Machines = [((pod, pod + rack), 4) for pod in "PQ" for rack in "ab" for _ in range(2)]
    simulation = Case(machines, sorted(jobs), costs=PER_GPU, network="slow").run(build(policy, {"lease_s": "60"}))
    assert all(job.status == FINISHED for job in simulation.jobs)


def test_consolidated_gangs_are_always_as_close_as_can_be() -> None:
    jobs = [(float(i % 7), 1 + i * 5 % 16, 50.0 + i * 37 % 400) for i in range(60)]
    machines: Machines = [((pod, pod + rack), 4) for pod in "PQ" for rack in "ab" for _ in range(2)]
    simulation = Case(machines, sorted(jobs), costs=PER_GPU).run(
        build("dally-paper-consolidated", {"lease_s": "60"})
    )
    topology = simulation.state.cluster.topology
    assert all(job.tier == topology.closest_tier(job.gpus) for job in simulation.jobs)


@pytest.mark.parametrize(
    "settings",
    [
        {"order": "las"},
        {"order": "fifo"},
        {"tuner": "off"},
        {"lease_s": "600"},
        {"floors": "0,0"},
        {"lease_s": "60", "floors": "0,0", "history": "3"},
    ],
    ids=lambda settings: " ".join(f"{name}={value}" for name, value in settings.items()),
)
def test_switches_keep_the_rules(settings: dict[str, str]) -> None:
    check_policy(lambda: build("dally-paper", settings), examples=many(40))


def test_gpus_of_ended_leases_are_dealt_out_down_the_order() -> None:
    # Two machines of 8. At 100 both leases end and both machines are on offer. Job 2, which never ran, takes the
    # one with the lower number. Job 0 communicates half of its time and outranks job 1 (a tenth): it moves to the
    # other, and job 1 waits.
    jobs = [Job(0, "j0", 0.0, 8, 900.0), Job(1, "j1", 0.0, 8, 900.0), Job(2, "j2", 50.0, 8, 10.0)]

    class Shares(SpeedModel):
        def placed(self, job: Job) -> list[Speed]:
            share = (0.5, 0.1, 0.0)[int(job.index)]
            return [Speed(job, 1.0, share)]

    policy = build("dally-paper", {"lease_s": "100"})
    simulation = Simulation(jobs, Cluster.grid(1, 2, 8), policy, Shares(), Costs(0.0, 0.0, 0.0), Failures())
    simulation.run(105.0)
    assert [int(job.preemptions) for job in jobs] == [1, 1, 0]
    assert jobs[2].start_s == 100.0
    assert (jobs[0].status, jobs[1].status) == (RUNNING, WAITING)


def test_gangs_in_groups_know_their_closest_tier() -> None:
    # Rack a holds 12 + 4 GPUs, but only one group of 8: a gang of two groups can get no closer than the network.
    machines = [Machine(("a",), "m0", 12), Machine(("a",), "m1", 4), Machine(("b",), "m2", 12)]
    job = Job(0, "j", 0.0, 16, 10.0)
    job.group = 8
    cluster = Cluster(Topology(default_tiers(3), machines))
    simulation = Simulation(
        [job], cluster, build("dally-paper-consolidated"), SpeedModel(), Costs(0.0, 0.0, 0.0), Failures()
    )
    simulation.run()
    assert (job.start_s, job.tier) == (0.0, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": "fastest"}, "--set order=fastest: must be one of network-sensitivity, las, fifo"),
        ({"floors": "6,x"}, "--set floors=6,x: must be leases by tier"),
        ({"floors": "-1"}, "--set floors=-1: must be leases by tier"),
        ({"history": "inf"}, "--set history=inf: must be finite"),
        ({"tuner": "maybe"}, "--set tuner=maybe: must be on or off"),
    ],
)
def test_bad_settings(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        build("dally-paper", settings)
    assert message in str(caught.value)


def test_leases_without_end_and_timers_of_zero() -> None:
    # Two machines of 8 with 3 free GPUs each: without timers a gang of 6 takes the rack at once.
    case = Case([(("r",), 8), (("r",), 8)], [(0.0, 5, 1e5), (0.0, 5, 1e5), (0.0, 6, 10.0)])
    assert case.run(build("dally-paper-nowait", {"lease_s": "inf"})).jobs[2].start_s == 0.0
