"""Hand-worked schedules of the published schedulers: who runs when and where, derived from each paper's rule."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from dally.cluster.capacity import Cluster
from dally.cluster.topology import Machine, Topology, default_tiers
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.model import MIGRATE, START, Costs, Job
from dally.perf.base import SpeedModel
from dally.perf.profiles import find_profile
from dally.policies.registry import build

Asked = tuple[float, int, float] | tuple[float, int, float, str]  # submit, GPUs, duration, model


class Outcome(NamedTuple):
    """First start, finish, and the GPUs by machine of every placement."""

    start_s: float
    finish_s: float
    places: list[str]


def run(
    policy: str, settings: dict[str, str], racks: list[list[int]], jobs: list[Asked], restart_s: float = 0.0
) -> list[Outcome]:
    """Racks of machines with that many GPUs; machines are numbered through."""
    machines = [
        Machine((f"r{rack}",), f"m{rack}.{place}", gpus)
        for rack, sizes in enumerate(racks)
        for place, gpus in enumerate(sizes)
    ]
    waiting = [
        Job(index, f"j{index}", job[0], job[1], job[2], job[3] if len(job) > 3 else "")
        for index, job in enumerate(jobs)
    ]
    cluster = Cluster(Topology(default_tiers(3), machines))
    speed = SpeedModel()
    speed.profiles = lambda model, gpus: find_profile(model).step(gpus)
    simulation = Simulation(
        waiting, cluster, build(policy, settings), speed, Costs(restart_s, 0.0, 0.0), Failures()
    )
    simulation.run(until_s=LONG_S)
    log = simulation.state.log
    places: list[list[str]] = [[] for _ in jobs]
    for row in range(len(log)):
        if log.kinds[row] in (START, MIGRATE):
            places[log.jobs[row]].append("+".join(f"{machine}:{gpus}" for machine, gpus in log.parts(row)))
    return [Outcome(job.start_s, job.finish_s, places[job.index]) for job in simulation.jobs]


LONG_S = 100_000.0  # past the end of every run here: one that never ends fails instead of hanging
ONE = [[8]]  # one machine of 8 GPUs
FOUR = [[4, 4], [4, 4]]  # two racks of two machines
TABLE: list[tuple[str, str, dict[str, str], list[list[int]], list[Asked], list[tuple[float, float, list[str]]]]] = [
    # One queue limit, 40 GPU-s. Job 0 reaches it at 5 and falls behind job 1, which needs 24 GPU-s in all.
    ("queues", "tiresias", {"limits": "40"}, ONE, [(0, 8, 10), (1, 8, 3)],
     [(0, 13, ["0:8", "0:8"]), (5, 8, ["0:8"])]),
    # Job 1 takes over at 5 and falls to the second queue at 10. Both are in it now: nobody is preempted for an
    # equal.
    ("equals stay", "tiresias", {"limits": "40"}, ONE, [(0, 8, 10), (0, 8, 10)],
     [(0, 20, ["0:8", "0:8"]), (5, 15, ["0:8"])]),
    # Jobs 1 to 3 (32 GPU-s each) never leave the first queue. Job 0 ran 5 s, fell back at 5 and is promoted when
    # it has waited 1 × 5 s, at 10. At 13 it comes before job 3: it started first.
    ("promoted", "tiresias", {"limits": "40", "promote": "1"}, ONE, [(0, 8, 10), (1, 8, 4), (5, 8, 4), (9, 8, 4)],
     [(0, 18, ["0:8", "0:8"]), (5, 9, ["0:8"]), (9, 13, ["0:8"]), (18, 22, ["0:8"])]),
    # One GPU is free on each machine from 0 to 10. VGG-16 is skewed and waits for a machine; ResNet-50 may be
    # split.
    ("skew", "tiresias", {}, [[4, 4]], [(0, 3, 10), (0, 3, 20), (1, 2, 5, "vgg16"), (2, 2, 30, "resnet50")],
     [(0, 10, ["0:3"]), (0, 20, ["1:3"]), (10, 15, ["0:2"]), (2, 32, ["0:1+1:1"])]),
    # Limit 20: jobs 0 and 1 fall at 6.67. At 7 job 2 needs a whole machine: the worse of them, job 1, makes room.
    ("a whole machine", "tiresias", {"limits": "20"}, [[4, 4]], [(0, 3, 100), (0, 3, 100), (7, 4, 4, "vgg16")],
     [(0, 100, ["0:3"]), (0, 104, ["1:3", "1:3"]), (7, 11, ["1:4"])]),
    # LAS until two jobs are done: as in "equals stay", at 20. Both had 80 GPU-s. From then on G(0) with width 40
    # is 0 (no job was done within 40) and G(40) is 2 ÷ (40 + 40): the second queue comes first, and job 2 is not
    # disturbed at 25.
    ("gittins", "tiresias-gittins", {"limits": "40", "learn_from": "2"}, ONE,
     [(0, 8, 10), (0, 8, 10), (20, 8, 10), (21, 8, 10)],
     [(0, 20, ["0:8", "0:8"]), (5, 15, ["0:8"]), (20, 30, ["0:8"]), (30, 40, ["0:8"])]),
    # Rounds at 10, 20, 30. Job 0 has had its slice at 10, job 1 at 20; job 0 ends at 25 and job 1 goes on.
    ("turns", "gandiva", {"slice_s": "10"}, ONE, [(0, 8, 15), (0, 8, 15)],
     [(0, 25, ["0:8", "0:8"]), (10, 30, ["0:8", "0:8"])]),
    # Job 0 makes machine 0 one for single GPUs; job 1 takes an empty machine, job 2 the one of its own kind.
    ("affinity", "gandiva", {}, FOUR, [(0, 1, 9), (0, 2, 9), (0, 1, 9), (0, 2, 9)],
     [(0, 9, ["0:1"]), (0, 9, ["1:2"]), (0, 9, ["0:1"]), (0, 9, ["1:2"])]),
    # Finish-time fairness with leases of 10 and one bidder of two. N = 2, a fair share takes 60 s. At 10: rho of
    # job 0 is (10 + 20)/60, of job 1 (10 + 30)/60: it takes over. At 20 both are at 40/60: it stays. At 30: 50/60
    # against 40/60, back to job 0. At 40 both are at 50/60: job 0 stays and ends at 50.
    ("fairness", "themis", {"lease_s": "10", "fairness": "0.5"}, ONE, [(0, 8, 30), (0, 8, 30)],
     [(0, 50, ["0:8", "0:8"]), (10, 60, ["0:8", "0:8"])]),
    # All bid. At 10 the GPUs are free. Since 1, N = 3. Job 1 would gain ln(39/29) by running now rather than a
    # lease later, job 2 ln(24/14): it goes first.
    ("auction", "themis", {"lease_s": "10", "fairness": "0"}, ONE, [(0, 8, 10), (1, 8, 20), (1, 8, 5)],
     [(0, 10, ["0:8"]), (15, 35, ["0:8"]), (10, 15, ["0:8"])]),
    # Each is due half the time. At 10 job 1 never ran: first. At 20 both have had their due: the older one goes on.
    ("halves", "gavel", {"round_s": "10"}, ONE, [(0, 8, 20), (0, 8, 20)],
     [(0, 30, ["0:8", "0:8"]), (10, 40, ["0:8", "0:8"])]),
    # Equal GPU shares, 8/3 each: job 0 is due 1/3 of the time, jobs 1 and 2 are due 2/3. At 20 job 0 has had 1/2
    # and lacks less than they do; at 30 all have had their due.
    ("shares", "gavel", {"round_s": "10"}, ONE, [(0, 8, 20), (0, 4, 30), (0, 4, 30)],
     [(0, 40, ["0:8", "0:8"]), (10, 50, ["0:4", "0:4"]), (10, 50, ["0:4", "0:4"])]),
    # Two switches of three machines. From 1 on job 2, larger than a machine, is offered GPUs under both; it waits
    # 5 s for one switch, then takes them.
    ("switches", "slurm-switches", {"max_wait_s": "5"}, [[2, 2, 2], [2, 2, 2]], [(0, 4, 20), (0, 4, 30), (1, 3, 4)],
     [(0, 20, ["0:2+1:2"]), (0, 30, ["3:2+4:2"]), (6, 10, ["2:2+5:1"])]),
    # A gang that fits a machine was asked for with --nodes=1: no wait makes it go on two.
    ("one node", "slurm-switches", {"max_wait_s": "5"}, [[4], [4]], [(0, 3, 20), (0, 3, 30), (1, 2, 4)],
     [(0, 20, ["0:3"]), (0, 30, ["1:3"]), (20, 24, ["0:2"])]),
    # While there is nothing on offer the clock stands: job 2 could first start at 20, and waits from then on. Job
    # 3, behind it, was offered the same at 20.
    ("switch clock", "slurm-switches", {"max_wait_s": "5"}, [[4], [4]],
     [(0, 4, 10), (0, 4, 20), (1, 6, 3), (2, 6, 3)],
     [(0, 10, ["0:4"]), (0, 20, ["1:4"]), (25, 28, ["0:4+1:2"]), (28, 31, ["0:4+1:2"])]),
    # Jobs 0 and 1 fill most of a rack each. Job 2 is one pod: it waits for a machine. Job 3 wants a rack: racks 0
    # and 1 have 4 and 2 GPUs free at 10, so it waits until 20.
    ("required", "kueue-required", {}, FOUR, [(0, 6, 10), (0, 6, 20), (1, 4, 50), (1, 6, 5)],
     [(0, 10, ["0:4+1:2"]), (0, 20, ["2:4+3:2"]), (10, 60, ["0:4"]), (20, 25, ["2:4+3:2"])]),
    # The same, but at 10 job 3 takes what there is in both racks.
    ("preferred", "kueue-preferred", {}, FOUR, [(0, 6, 10), (0, 6, 20), (1, 4, 50), (1, 6, 5)],
     [(0, 10, ["0:4+1:2"]), (0, 20, ["2:4+3:2"]), (10, 60, ["0:4"]), (10, 15, ["1:4+3:2"])]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "policy", "settings", "racks", "jobs", "expected"), TABLE, ids=[row[0] for row in TABLE]
)
def test_schedule(
    name: str,
    policy: str,
    settings: dict[str, str],
    racks: list[list[int]],
    jobs: list[Asked],
    expected: list[tuple[float, float, list[str]]],
) -> None:
    assert [tuple(outcome) for outcome in run(policy, settings, racks, jobs)] == expected


def test_gandiva_moves_a_gang_into_one_rack_when_one_is_free() -> None:
    # Three racks of two machines. Jobs 0 and 1 fill rack 0 until 10, job 2 half of rack 1: the gang of 8 gets
    # machines 3 and 4, in two racks. At 10 rack 0 is free: it moves, restarts for 2 s, and has 10 of its 20 s
    # left.
    outcome = run(
        "gandiva",
        {"suspend_s": "inf", "tier": "any"},
        [[4, 4], [4, 4], [4, 4]],
        [(0, 4, 10), (0, 4, 10), (0, 4, 30), (0, 8, 20)],
        restart_s=2.0,
    )
    assert outcome[3] == (0, 22, ["3:4+4:4", "0:4+1:4"])


def test_gandiva_suspends_within_its_own_time() -> None:
    # Turns of 10 s on one machine of 8; the run's price of a restart is 4 s. Job 1 takes over at 10 without one,
    # job 0 resumes at 20 in 0.5 s and is done at 25.5 (5 s were left), job 1 resumes in 0.5 s for its last 5 s.
    jobs: list[Asked] = [(0, 8, 15), (0, 8, 15)]
    assert [job.finish_s for job in run("gandiva", {"slice_s": "10"}, ONE, jobs, 4.0)] == [25.5, 31.0]
    dear = run("gandiva", {"slice_s": "10", "suspend_s": "inf"}, ONE, jobs, 4.0)
    assert [job.finish_s for job in dear] == [29.0, 38.0]
    # Never more than the run's own price.
    assert [job.finish_s for job in run("gandiva", {"slice_s": "10"}, ONE, jobs, 0.0)] == [25.0, 30.0]


@pytest.mark.parametrize("policy", ["themis", "gandiva", "gavel", "las", "tiresias", "srtf"])
@pytest.mark.parametrize("tier", ["any", "closest"])
def test_a_gang_that_fits_nowhere_does_not_keep_the_clock_going(policy: str, tier: str) -> None:
    # Job 0's GPUs come in groups of 8, which no machine of 4 has; the others run all the same, also one that comes
    # later. Then nothing is left to happen: the run says that it is stuck.
    jobs = [Job(0, "wide", 0.0, 8, 5.0), Job(1, "fits", 0.0, 4, 5.0), Job(2, "later", 5000.0, 4, 5.0)]
    jobs[0].group = 8
    cluster = Cluster(Topology(default_tiers(3), [Machine(("r",), f"m{place}", 4) for place in range(2)]))
    one = build(policy, {"tier": tier})
    simulation = Simulation(jobs, cluster, one, SpeedModel(), Costs(0.0, 0.0, 0.0), Failures())
    while simulation.cycles < 200 and simulation.step():
        pass
    assert simulation.cycles < 200
    simulation.run()
    assert simulation.stuck
    assert [job.start_s >= 0.0 for job in simulation.jobs] == [False, True, True]


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        ("tiresias", {"limits": "40", "promote": "1"}),
        ("tiresias-gittins", {"limits": "40", "promote": "1"}),
        ("gandiva", {"slice_s": "10"}),
        ("themis", {"lease_s": "10"}),
        ("gavel", {"round_s": "10"}),
        ("las", {"lease_s": "10"}),
    ],
)
def test_restarts_longer_than_a_turn_end(policy: str, settings: dict[str, str]) -> None:
    """Every turn gets some work done, however long the restart: nobody is sent back while still restarting."""
    outcome = run(policy, settings, ONE, [(0, 8, 60), (0, 8, 60), (30, 8, 60)], restart_s=100.0)
    assert all(job.finish_s > 0.0 for job in outcome)
