"""The network in the engine: rates by hand, and against the direct interface on random runs."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings

from dally import Cluster, Profile, iteration_times
from dally.cluster.links import Network
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.metrics.jobs_csv import jobs_csv
from dally.metrics.simulated import Simulated
from dally.metrics.summary import summarize
from dally.metrics.tables import events_frame
from dally.model import Costs, Job
from dally.perf.network_model import NetworkModel
from dally.perf.profiles import find_profile
from dally.policies.registry import build
from dally.testing.strategies import Case, cases
from tests.examples import many

FREE = Costs(0.0, 0.0, 0.0)


def ideal(machines: int = 4, gpus: int = 2, nic_gbps: float = 1.0, racks: int = 1) -> Cluster:
    """Links without latency: bytes ÷ bandwidth, nothing else."""
    return Cluster.grid(racks, machines, gpus, 1e6, nic_gbps, nic_gbps * machines, 0.0, 0.0, 0.0, ideal=True)


def run(cluster: Cluster, jobs: list[Job], profile: Profile) -> Simulation:
    network = cluster.network
    assert isinstance(network, Network)
    speed = NetworkModel(network, network, lambda model, gpus: profile)
    simulation = Simulation(jobs, cluster, build("fifo"), speed, FREE, Failures())
    simulation.run()
    return simulation


def test_a_gang_in_one_machine_takes_its_duration() -> None:
    jobs = [Job(0, "a", 0.0, 2, 100.0, "m")]
    run(ideal(), jobs, Profile(compute_s=1.0, nbytes=1e9, overlap=0.0))
    # On a fabric of 10^6 GB/s the exchange is nothing.
    assert jobs[0].finish_s == pytest.approx(100.0)
    assert jobs[0].comm_s == pytest.approx(0.0, abs=1e-3)


def test_a_gang_across_machines_is_slowed_only_beyond_its_closest_placement() -> None:
    # 4 GPUs need two machines of 2: that is the closest placement, so 100 s it is. An exchange of 1 GB over
    # two machines loads each NIC with 2·(1/2)·1 GB = 1 s at 1 GB/s, beside 1 s of compute: half is exposed.
    jobs = [Job(0, "a", 0.0, 4, 100.0, "m")]
    simulation = run(ideal(), jobs, Profile(compute_s=1.0, nbytes=1e9, overlap=0.0))
    assert jobs[0].finish_s == pytest.approx(100.0, rel=1e-4)
    assert jobs[0].comm_s == pytest.approx(50.0, rel=1e-4)
    assert summarize(Simulated(simulation))["comm_floor_s"] == pytest.approx(50.0, rel=1e-4)


def scattered(*late: Job) -> list[Job]:
    """Two machines of 2 on which, from 10 s on, one GPU each is free."""
    early = [Job(i, f"s{i}", 0.0, 1, 10.0 if i % 2 == 0 else 5000.0, "m") for i in range(4)]
    return [*early, *late]


def test_a_scattered_gang_pays_for_it() -> None:
    # In one machine an iteration is 1 s of compute; with one GPU on each it has 1 s of NIC besides.
    late = Job(4, "late", 20.0, 2, 100.0, "m")
    simulation = run(ideal(machines=2), scattered(late), Profile(compute_s=1.0, nbytes=1e9, overlap=0.0))
    assert late.finish_s == pytest.approx(220.0, rel=1e-4)
    assert late.compute_s == pytest.approx(100.0, rel=1e-4)
    assert late.comm_s == pytest.approx(100.0, rel=1e-4)
    header, *rows = "".join(jobs_csv(Simulated(simulation))).splitlines()
    assert header.endswith(",status,slowdown")
    assert [row.rsplit(",", 1)[1] for row in rows] == ["1.0000"] * 4 + ["2.0000"]


def test_gangs_on_the_same_links_slow_each_other_and_speed_up_again() -> None:
    # On each of two machines of 4 one GPU becomes free at 10 and one at 30: gangs a (from 20) and b (from 40)
    # both get one GPU on each machine and share both NICs.
    profile = Profile(compute_s=1.0, nbytes=1e9, overlap=0.0)
    early = [Job(i, f"s{i}", 0.0, 1, (10.0, 30.0, 5000.0, 5000.0)[i % 4], "m") for i in range(8)]
    first, second = Job(8, "a", 20.0, 2, 100.0, "m"), Job(9, "b", 40.0, 2, 30.0, "m")
    simulation = run(ideal(machines=2, gpus=4), [*early, first, second], profile)
    shared_s, _ = iteration_times(ideal(machines=2, gpus=4), [(profile, {0: 1, 1: 1})] * 2)
    assert shared_s > 2.3
    # a does 10 s of work until 40 at half speed, 30 while b does its 30, and the last 60 at half speed again.
    second_finish_s = 40.0 + 30.0 * shared_s
    assert second.finish_s == pytest.approx(second_finish_s, rel=1e-3)
    assert first.finish_s == pytest.approx(second_finish_s + 120.0, rel=1e-3)
    loads = events_frame(Simulated(simulation)).filter(
        pl.col("kind") == "link", pl.col("link") == "machine rack0-m1"
    )
    both = 2.0 / shared_s
    assert loads["load"].to_list() == [pytest.approx(x, rel=1e-3) for x in (0.5, both, 0.5)] + [0.0]
    assert loads["time_s"].to_list()[:2] == [20.0, 40.0]


@settings(max_examples=many(80))
@given(cases())
def test_rates_are_those_of_the_direct_interface(case: Case) -> None:
    # At every instant the engine's incremental rates are what asking for all running jobs at once gives.
    case = Case(case.machines, case.jobs, case.outages, case.costs, case.until_s, network="congested")
    simulation = case.simulation(build("fifo-backfill"))
    cluster = simulation.state.cluster
    while simulation.state.finished < len(simulation.jobs) and simulation.step(case.until_s):
        running = sorted(cluster.running.values(), key=lambda job: int(job.index))
        asked = []
        for job in running:
            assert job.allocation is not None
            placement: dict[int, int] = {}
            for machine, gpus in job.allocation.parts():
                placement[machine] = placement.get(machine, 0) + gpus
            asked.append((find_profile(job.model).step(int(job.gpus)), placement))
        speed = simulation.state.speed
        assert isinstance(speed, NetworkModel)
        for job, iteration_s in zip(running, iteration_times(cluster, asked), strict=True):
            expected = min(1.0, speed.kind(job).closest_s / iteration_s)
            assert job.rate == pytest.approx(expected, rel=2e-3)
