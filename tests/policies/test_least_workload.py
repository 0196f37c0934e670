"""LWF-κ and Ada-SRSF: schedules worked out by hand, and groups that stay whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.topology import grid
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.model import RUNNING, Costs, Job, Profile, make_allocation
from dally.perf.contention import longer, slowdown
from dally.perf.network_model import NetworkModel
from dally.policies.placement.least_workload import LeastWorkload, machine_loads
from dally.policies.registry import build
from dally.testing.invariants import record_of
from dally.testing.strategies import Case

FREE = Costs(0.0, 0.0, 0.0)
Placed = tuple[float, float, list[tuple[int, int]]]  # start, finish, (machine, GPUs)

# name, settings, machines of one rack, jobs (submit, gpus, duration), expected. Without a network both policies
# do the same.
TABLE: list[tuple[str, dict[str, str], list[int], list[tuple[float, int, float]], list[Placed]]] = [
    # At 0 job 0 (2 x 10 GPU-s) goes before job 1 (100): both machines are idle, it takes the first; job 1 takes
    # the second, whose load is 0. At 1 machine 0 has 2 x 9 = 18 GPU-s to go, machine 1 has 99: job 2 takes the
    # first. At 2 it is 2 x 8 + 4 = 20 against 98: job 3 takes the last GPU of machine 0, then three of machine 1.
    ("least loaded first", {}, [4, 4], [(0, 2, 10), (0, 1, 100), (1, 1, 5), (2, 4, 3)],
     [(0, 10, [(0, 2)]), (0, 100, [(1, 1)]), (1, 6, [(0, 1)]), (2, 5, [(0, 1), (1, 3)])]),
    # Job 2 brings 40 GPU-s, less than the 64 that job 0 still has at 2, but nobody is preempted. At 10 it goes
    # before job 3 (60) and job 1 (80); at 15 these two fit side by side.
    ("remaining service, no preemption", {}, [8], [(0, 8, 10), (1, 4, 20), (2, 8, 5), (3, 2, 30)],
     [(0, 10, [(0, 8)]), (15, 35, [(0, 4)]), (10, 15, [(0, 8)]), (15, 45, [(0, 2)])]),
    # Job 1 (2 GPU-s) comes first at 1 but does not fit; job 2 does. At 10 machine 0 is idle: job 1 takes it.
    ("later jobs may start", {}, [2, 2], [(0, 3, 10), (1, 2, 1), (1, 1, 50)],
     [(0, 10, [(0, 2), (1, 1)]), (10, 11, [(0, 2)]), (1, 51, [(1, 1)])]),
    # At 1 machine 0 has 27 GPU-s to go and one GPU free, machine 1 has 198 and two: it holds all of job 2.
    ("a machine for the whole", {}, [4, 4], [(0, 3, 10), (0, 2, 100), (1, 2, 5)],
     [(0, 10, [(0, 3)]), (0, 100, [(1, 2)]), (1, 6, [(1, 2)])]),
    # κ = 2: job 0's second GPU goes to machine 1, as its first brings 10 GPU-s to machine 0. Job 1 finds 9 and 9
    # at 1, so does the same. Job 2 is larger than κ: at 2 both have 8 + 9 GPU-s, it takes what is left of
    # machine 0, then one of machine 1.
    ("spread up to κ", {"kappa": "2"}, [4, 4], [(0, 2, 10), (1, 2, 10), (2, 3, 5)],
     [(0, 10, [(0, 1), (1, 1)]), (1, 11, [(0, 1), (1, 1)]), (2, 7, [(0, 2), (1, 1)])]),
    # κ = 1, the same jobs: job 0 stays in machine 0, job 1 in machine 1 (0 against 18 GPU-s), job 2 finds 16
    # against 18.
    ("whole above κ", {}, [4, 4], [(0, 2, 10), (1, 2, 10), (2, 3, 5)],
     [(0, 10, [(0, 2)]), (1, 11, [(1, 2)]), (2, 7, [(0, 2), (1, 1)])]),
]  # fmt: skip


def placed(simulation: Simulation) -> list[Placed]:
    parts = {event.job: event.parts for event in record_of(simulation).events if event.kind == "start"}
    return [(job.start_s, job.finish_s, parts[int(job.index)]) for job in simulation.jobs]


@pytest.mark.parametrize("policy", ["lwf", "ada-srsf"])
@pytest.mark.parametrize(("name", "settings", "machines", "jobs", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_schedule(
    policy: str,
    name: str,
    settings: dict[str, str],
    machines: list[int],
    jobs: list[tuple[float, int, float]],
    expected: list[Placed],
) -> None:
    case = Case([(("r",), gpus) for gpus in machines], jobs, costs=FREE)
    assert placed(case.run(build(policy, settings))) == expected


def on_shared_nics(policy: str) -> list[Placed]:
    """Three gangs of 2 on two machines of 2 GPUs, spread by κ = 2: every gang crosses both NICs."""
    cluster = Cluster.grid(1, 2, 2, 1e6, 1.0, 2.0, 0.0, 0.0, 0.0, ideal=True)
    network = cluster.network
    assert network is not None
    profile = Profile(compute_s=1.0, nbytes=1e9, overlap=0.0)
    chosen = build(policy, {"kappa": "2"})
    speed = NetworkModel(network, network, lambda model, gpus: profile, chosen.link_sharing)
    jobs = [Job(0, "a", 0.0, 2, 100.0, "m"), Job(1, "b", 0.0, 2, 100.0, "m"), Job(2, "c", 1.0, 2, 50.0, "m")]
    simulation = Simulation(jobs, cluster, chosen, speed, FREE, Failures())
    simulation.run()
    return placed(simulation)


def test_ada_srsf_takes_turns_on_a_link() -> None:
    # An exchange takes 1 s on each NIC, after 1 s of compute; on one machine it takes nothing, so the 100 s of
    # jobs a and b are 100 iterations. Equal transfers never overlap. a goes first in the queue: it only finds b in
    # flight, every other time and halfway through, and waits 1/2 · 1/2 s. b also finds a in line:
    # (1/2 + 1/4) / 2.25 = 1/3 s. When a ends, c gets its GPUs and goes before b, as it has less left to do.
    first, second, third = on_shared_nics("ada-srsf")
    assert first[2] == second[2] == third[2] == [(0, 1), (1, 1)]
    a_s = 100 * 2.25
    b_s = 100 * (2 + 1 / 3)
    c_s = a_s + (b_s - a_s) + (50 - (b_s - a_s) / 2.25) * 2
    assert [first[0], second[0], third[0]] == pytest.approx([0, 0, a_s], rel=1e-3)
    assert [first[1], second[1], third[1]] == pytest.approx([a_s, b_s, c_s], rel=1e-3)


def test_lwf_shares_the_same_link_fairly() -> None:
    # The same jobs under fair sharing: each finds the other there for its duty, the share of time that it
    # communicates at its ceiling: x = slowdown(duty, duty·(1 - duty)) with duty = x / (1 + x).
    x = 1.0
    for _ in range(200):
        duty = x / (1 + x)
        x = slowdown(duty, duty * (1 - duty))
    first, second, third = on_shared_nics("lwf")
    end_s = 100 * (1 + longer(1 + duty, duty * (1 - duty)))
    assert [first[1], second[1]] == pytest.approx([end_s] * 2, rel=1e-3)
    assert third[1] - third[0] == pytest.approx(100, rel=1e-3)


def busy(free: list[int], size: int = 8) -> Cluster:
    """Machines with so many free GPUs, the others taken by one job each, of as many seconds as its number."""
    cluster = Cluster(grid(1, len(free), size))
    for machine, left in enumerate(free):
        if left < size:
            job = Job(machine, f"t{machine}", 0.0, size - left, float(machine))
            job.allocation = make_allocation(0, [(machine, size - left)])
            job.status, job.rate = RUNNING, 1.0
            cluster.take(job, job.allocation)
    return cluster


def test_loads() -> None:
    # Machine 1: 4 GPUs for 1 s more, machine 3: 2 GPUs for 3 s.
    assert list(machine_loads(busy([8, 4, 8, 6]), 0.0)) == [0.0, 4.0, 0.0, 6.0]


@given(
    st.lists(st.integers(0, 8), min_size=6, max_size=6),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 8),
    st.sampled_from([0, 1, 16]),
)
def test_groups_stay_whole_and_a_place_is_found_if_there_is_one(
    free: list[int], group: int, count: int, kappa: int
) -> None:
    job = Job(99, "g", 0.0, group * count, 10.0)
    job.group = group
    found = LeastWorkload(kappa).place(job, 0.0, busy(free))
    assert (found is not None) == (sum(left // group for left in free) >= count)
    if found is not None:
        assert all(gpus % group == 0 and gpus <= free[machine] for machine, gpus in found.parts())
        assert sum(gpus for _, gpus in found.parts()) == group * count
