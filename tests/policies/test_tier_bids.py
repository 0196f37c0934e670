"""Themis, Gavel and A-SRPT on a network: what a place is worth depends on its tier."""

from __future__ import annotations

import pytest

from dally.cluster.capacity import Cluster
from dally.cluster.topology import Machine, Topology, default_tiers
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.model import RUNNING, Allocation, Costs, Job
from dally.perf.base import Speed, SpeedModel
from dally.policies.ordering.fairness import FinishTimeFairness
from dally.policies.registry import build
from tests.policies.test_baselines import run


class HalfSpeed(SpeedModel):
    """Gangs on more than one machine run at half their speed."""

    def placed(self, job: Job) -> list[Speed]:
        assert job.allocation is not None
        return [Speed(job, 0.5, 0.5)] if len(job.allocation.machines) > 1 else []

    def slowdown(self, job: Job, allocation: Allocation) -> tuple[float, float]:
        return (2.0, 0.0) if len(allocation.machines) > 1 else (1.0, 0.0)


def finishes(policy: str, settings: dict[str, str], jobs: list[tuple[float, int, float]]) -> list[float]:
    """On two machines of 4 GPUs in one rack."""
    cluster = Cluster(Topology(default_tiers(3), [Machine(("r",), f"m{place}", 4) for place in range(2)]))
    waiting = [Job(index, f"j{index}", *job) for index, job in enumerate(jobs)]
    simulation = Simulation(
        waiting, cluster, build(policy, settings), HalfSpeed(), Costs(0.0, 0.0, 0.0), Failures()
    )
    simulation.run(until_s=100_000.0)
    return [job.finish_s for job in simulation.jobs]


@pytest.mark.parametrize(("duration_s", "finish_s"), [(5.0, 11.0), (15.0, 25.0)])
def test_themis_bids_for_a_far_place_only_if_that_is_sooner(duration_s: float, finish_s: float) -> None:
    # One GPU is free on each machine. Split, the gang of two is twice as slow. With leases of 10 s one of 5 s is
    # better off so: it is done at 1 + 10. One of 15 s would lose 15 s, and waits: at the auction at 10 it is the
    # worst off and gets a machine.
    jobs = [(0.0, 3, 40.0), (0.0, 3, 40.0), (1.0, 2, duration_s)]
    assert finishes("themis", {"lease_s": "10", "fairness": "1"}, jobs)[2] == finish_s


def test_rho_counts_the_present_rate() -> None:
    order = FinishTimeFairness(10.0, 0.8)
    job = Job(0, "slow", 0.0, 2, 100.0)
    order.queued(job, 0.0)
    waits = order.rho(job, 0.0)
    job.status = RUNNING
    job.rate = 0.5
    assert order.rho(job, 0.0) == 2.0 * waits


def test_gavel_places_large_gangs_first() -> None:
    # Two machines of 4. At 10 jobs 0 and 1 (3 GPUs) and 2 (4 GPUs) compete: 2 never ran and goes first. It needs a
    # machine, so one of the smaller ones makes way, and the other stays where it is.
    outcome = run("gavel", {"round_s": "10"}, [[4, 4]], [(0, 3, 30), (0, 3, 30), (1, 4, 5)])
    assert outcome[2][:2] == (10, 15)
    assert outcome[2].places in (["0:4"], ["1:4"])


def test_gavel_repacks_small_gangs_for_a_large_one() -> None:
    # Job 2 is on machine 0 beside job 0, which ends at 6, and job 1 on machine 1. At 10 all three fit, but the gang
    # of 4 only if job 2, the smallest, makes way: it moves over to machine 1.
    outcome = run("gavel", {"round_s": "10"}, [[4, 4]], [(0, 3, 6), (0, 2, 60), (0, 1, 60), (1, 4, 5)])
    assert outcome[3].start_s == 10
    assert [outcome[3].places, outcome[1].places, outcome[2].places] == [["0:4"], ["1:2"], ["0:1", "1:1"]]


@pytest.mark.parametrize(("patience", "finish_s"), [("0", 26.0), ("1", 36.0), ("2", 46.0), ("9", 50.0)])
def test_a_srpt_waits_as_long_as_a_place_would_cost(patience: str, finish_s: float) -> None:
    # One GPU is free on each machine until 40. The virtual machine, as fast as 8 GPUs, has done jobs 0 to 2 (12, 12
    # and 2.5 s of it) when it gets to them; early, all are offered GPUs at once. Split, the gang of two would take
    # 20 s for its 10: it waits 10 s times its patience from 6 on, but not beyond 40.
    settings = {"predictor": "oracle", "early": "on", "patience": patience}
    jobs = [(0.0, 3, 40.0), (0.0, 3, 40.0), (6.0, 2, 10.0)]
    assert finishes("a-srpt", settings, jobs)[2] == finish_s
