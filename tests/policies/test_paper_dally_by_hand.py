"""The paper's Dally on two racks of two machines of 2 GPUs, worked out by hand."""

from __future__ import annotations

import pytest

from dally.engine.simulate import Simulation
from dally.model import Costs, Job
from dally.perf.base import Speed, SpeedModel
from dally.policies.ordering.simple import NetworkSensitivity
from dally.policies.registry import build
from dally.testing import record_of
from dally.testing.strategies import Case

PER_GPU = Costs(0.0, 1.0, 0.0)
GRID: list[tuple[tuple[str, ...], int]] = [(("a",), 2), (("a",), 2), (("b",), 2), (("b",), 2)]
SETTINGS = {"lease_s": "100", "floors": "0.3,0.6", "tuner": "off"}  # T_1 = 30 s, T_2 = 60 s

# From 10 s on one GPU is free on each of the two machines of rack a; rack b is full until `whole_s`.
# Leases of those who stay end at 100, 200, …


def one_rack(whole_s: float) -> list[tuple[float, int, float]]:
    pairs: list[tuple[float, int, float]] = [(0.0, 1, 900.0), (0.0, 1, 10.0)] * 2
    return [*pairs, (0.0, 2, whole_s), (0.0, 2, 900.0)]


# The same with one GPU free in each rack.
TWO_RACKS: list[tuple[float, int, float]] = [
    (0.0, 1, 900.0), (0.0, 1, 10.0), (0.0, 2, 900.0), (0.0, 1, 900.0), (0.0, 1, 10.0), (0.0, 2, 900.0),
]  # fmt: skip


def run(jobs: list[tuple[float, int, float]], settings: dict[str, str]) -> tuple[Simulation, list[object]]:
    """The run, and where its last job started when: (time, (machine, GPUs) pairs)."""
    simulation = Case(GRID, jobs, costs=PER_GPU).run(build("dally-paper", {**SETTINGS, **settings}))
    last = len(jobs) - 1
    rows = record_of(simulation).events
    return simulation, [(row.time_s, row.parts) for row in rows if row.kind == "start" and row.job == last]


def test_lease_end_far_from_home_with_a_machine_free() -> None:
    # The gang of 2 comes at 20 and takes rack a at 20 + T_1 = 50. Machine 2 is free from 140 on. At 150 its lease
    # ends: it takes the machine at once, restarts for 2 s, and does the 50 s that are left.
    simulation, starts = run([*one_rack(140.0), (20.0, 2, 150.0)], {})
    assert starts == [(50.0, [(0, 1), (1, 1)]), (150.0, [(2, 2)])]
    gang = simulation.jobs[-1]
    assert (gang.finish_s, gang.preemptions, gang.renewals, gang.overhead_s) == (202.0, 1, 0, 2.0)


def test_lease_end_far_from_home_and_nothing_closer() -> None:
    # As before, but no machine is free. Nobody else waits, and yet it gives the rack up at 150, declines it until
    # its timer runs out again at 180, restarts for 2 s, and is done 50 s later.
    simulation, starts = run([*one_rack(900.0), (20.0, 2, 150.0)], {})
    assert starts == [(50.0, [(0, 1), (1, 1)]), (180.0, [(0, 1), (1, 1)])]
    gang = simulation.jobs[-1]
    assert (gang.finish_s, gang.preemptions, gang.renewals, gang.overhead_s) == (232.0, 1, 0, 2.0)


def test_without_timers_a_far_place_is_kept_until_a_closer_one_is_on_offer() -> None:
    # T = 0: the gang takes the rack at 20. At 120 nothing closer is on offer: renewed. Machine 2 is free from 140
    # on; at 200 the job on machine 3 is placed anew there, the lowest number of equal fits. At 220 the gang moves
    # to machine 3, restarts for 2 s, and does the 50 s that are left.
    simulation, starts = run([*one_rack(140.0), (20.0, 2, 250.0)], {"floors": "0"})
    assert starts == [(20.0, [(0, 1), (1, 1)]), (220.0, [(3, 2)])]
    gang = simulation.jobs[-1]
    assert (gang.finish_s, gang.preemptions, gang.renewals, gang.overhead_s) == (272.0, 1, 1, 2.0)


def test_others_get_what_a_gang_gives_up() -> None:
    # A job of 1 GPU comes at 149 and finds all taken. At 150 the gang's lease ends, it declines the rack, and the
    # job takes one of the two GPUs.
    simulation, _ = run([*one_rack(900.0), (20.0, 2, 150.0), (149.0, 1, 40.0)], {})
    rows = [(row.kind, row.job, row.parts) for row in record_of(simulation).events if row.time_s == 150.0]
    assert rows == [("preempt", 6, []), ("start", 7, [(0, 1)])]


def test_the_network_has_a_timer_of_its_own() -> None:
    # One GPU is free in each rack: T_2 = 60 after 20, and not T_1 + T_2.
    simulation, starts = run([*TWO_RACKS, (20.0, 2, 100.0)], {})
    assert starts == [(80.0, [(0, 1), (2, 1)])]
    assert (int(simulation.jobs[-1].tier), simulation.jobs[-1].finish_s) == (2, 180.0)


@pytest.mark.parametrize(
    ("jobs", "parts"), [(one_rack(900.0), [(0, 1), (1, 1)]), (TWO_RACKS, [(0, 1), (2, 1)])], ids=["rack", "network"]
)
def test_a_longer_timer_for_the_closer_tier(
    jobs: list[tuple[float, int, float]], parts: list[tuple[int, int]]
) -> None:
    # T_1 = 60 > T_2 = 30: at 20 + 30 the gang would take the network, so it does not refuse a rack either.
    _, starts = run([*jobs, (20.0, 2, 50.0)], {"floors": "0.6,0.3"})
    assert starts == [(50.0, parts)]


def test_a_gang_is_packed_anew_when_its_lease_ends() -> None:
    # Jobs of 1 GPU fill machine 0 and half of machine 1; one of machine 0 is done at 10. At 100 all leases end: the
    # job on machine 1 moves beside the one on machine 0, which is the best fit, for a restart of 1 s.
    simulation = Case(GRID, [(0.0, 1, 900.0), (0.0, 1, 10.0), (0.0, 1, 300.0)], costs=PER_GPU).run(
        build("dally-paper", SETTINGS)
    )
    rows = [(row.kind, row.job, row.parts) for row in record_of(simulation).events if row.time_s == 100.0]
    assert rows == [("preempt", 2, []), ("start", 2, [(0, 1)]), ("renew", 0, [])]
    assert (simulation.jobs[2].finish_s, simulation.jobs[2].overhead_s) == (301.0, 1.0)


def test_equal_scores_are_equal() -> None:
    # A tenth of the time each: 0.1 · 3 is 0.30000000000000004 in floats, and a third of that is above 0.1.
    scores = []
    for held_s in (1.0, 3.0):
        job = Job(0, "j", 0.0, 2, 1000.0)
        job.held_s, job.compute_s = held_s, 0.1 * held_s
        scores.append(NetworkSensitivity().key(job, 5.0))
    assert scores == [0.1, 0.1]


class AThirdTalk(SpeedModel):
    """Every job works for two thirds of its time."""

    def placed(self, job: Job) -> list[Speed]:
        return [Speed(job, 2.0 / 3.0, 1.0 / 3.0)]


def test_equal_scores_take_turns() -> None:
    # Three gangs of all 8 GPUs, which all lose a third of their time: their scores are equal once all have run. At
    # the end of each lease of 33.3 s those who wait hold nothing and go before the one who ran, the longest wait
    # first: round robin, for as long as all three last.
    case = Case(GRID, [(0.0, 8, 400.0)] * 3, costs=Costs(0.0, 0.0, 0.0))
    simulation = case.simulation(build("dally-paper", {"lease_s": "33.3"}))
    simulation.state.speed = AThirdTalk()
    simulation.run()
    starts = [row.job for row in record_of(simulation).events if row.kind == "start"]
    assert starts[:51] == [0, 1, 2] * 17
