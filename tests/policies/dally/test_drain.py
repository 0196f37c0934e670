"""Idle GPUs pay for a gang's domain: accounts and prices worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dally.cluster.capacity import Cluster
from dally.cluster.topology import Capacity
from dally.model import Costs, Job
from dally.policies.dally.drain import quantum_s, scarcity
from dally.policies.dally.idle_credit import IdleCredit
from dally.policies.queue import Queue
from dally.policies.registry import build
from dally.testing import record_of
from dally.testing.invariants import RunRows
from dally.testing.strategies import Case
from tests.policies.dally.busy import Busy

ONE_MACHINE: list[tuple[tuple[str, ...], int]] = [((), 4)]


def _two_racks() -> Cluster:
    return Cluster.grid(2, 2, 4)


def _gang(queue: Queue, index: int, gpus: int) -> Job:
    job = Job(index, f"j{index}", 0.0, gpus, 1e6)
    queue.add(job, float(index), 0.0)
    return job


def test_credit_is_what_stood_idle_in_the_emptiest_domain_while_the_gang_waited() -> None:
    # 3 of 4 GPUs of each machine of rack 0 are taken, 2 of each of rack 1: 4 are free in rack 1, 6 in all.
    busy = Busy(_two_racks())
    for machine, gpus in enumerate((3, 3, 2, 2)):
        busy.run([(machine, gpus)], 10.0)
    cluster, queue, credit = busy.cluster, Queue(), IdleCredit()
    rack, whole = _gang(queue, 10, 8), _gang(queue, 11, 16)
    for job in (rack, whole):
        credit.waits(job)
    credit.begin_pass(100.0, cluster)
    credit.end_pass(queue, cluster)
    credit.begin_pass(150.0, cluster)
    assert (credit.of(rack, 1), credit.of(whole, 2)) == (50.0 * 4, 50.0 * 6)

    later = _gang(queue, 12, 16)
    credit.waits(later)
    credit.begin_pass(150.0, cluster)
    credit.end_pass(queue, cluster)
    credit.begin_pass(160.0, cluster)
    assert (credit.of(whole, 2), credit.of(later, 2)) == (60.0 * 6, 10.0 * 6)
    assert credit.claimants(queue.class_of(later)) == [whole], "it has most credit, and is best-ranked"

    credit.pay(100.0)  # one idle GPU pays once, whichever gang it was for
    assert (credit.of(rack, 1), credit.of(whole, 2), credit.of(later, 2)) == (140.0, 260.0, -40.0)


def test_nothing_is_earned_while_no_job_waits() -> None:
    cluster, queue, credit = _two_racks(), Queue(), IdleCredit()
    credit.begin_pass(0.0, cluster)
    credit.end_pass(queue, cluster)
    gang = _gang(queue, 1, 16)
    credit.waits(gang)
    credit.begin_pass(1000.0, cluster)
    assert credit.of(gang, 2) == 0.0


@pytest.mark.parametrize(("gpus", "factor"), [(16, 1.0), (8, 16.0), (4, 256.0)])
def test_the_smaller_its_share_of_the_cluster_the_more_a_gang_pays(gpus: int, factor: float) -> None:
    # (16 ÷ gpus) to the power of 4; the quantum is 10 × (5 s + 1 s per GPU + 600 s) × the same.
    busy = Busy(_two_racks())
    gang = busy.comes(gpus)
    assert scarcity(gang, busy.cluster, busy.context) == factor
    assert quantum_s(gang, busy.cluster, busy.context) == pytest.approx(10.0 * (605.0 + gpus) * factor)


def run(jobs: list[tuple[float, int, float]], options: dict[str, str] | None = None) -> RunRows:
    """The run of jobs (submit_s, GPUs, duration_s) on one machine of 4 GPUs; a restart takes 1 s per GPU.

    Unless options say otherwise, passes follow every 300 s, as there are no probes, and gangs pay with idle GPUs.
    """
    given = {"finish_gain": "inf", "probe_share": "0", **(options or {})}
    return record_of(Case(ONE_MACHINE, jobs, costs=Costs(0.0, 1.0, 0.0)).run(build("dally", given)))


# A job of 1 GPU runs from 90 s on; a gang that wants all 4 comes at 100 s.
ALONE = [(90.0, 1, 2000.0), (100.0, 4, 50.0)]


def test_three_idle_gpus_buy_the_machine_for_a_gang_of_four() -> None:
    # The gang takes 113 s per finish, so others are put off by that: the price is 0.1 × (1 s + 113 s) GPU-seconds,
    # which 3 idle GPUs have paid at the next pass, 300 s later. It ends at 450 s, and the first restarts in 1 s:
    # of its 2000 s it has worked 310.
    record = run(ALONE)
    assert [(job.start_s, job.finish_s) for job in record.jobs] == [(90.0, 2141.0), (400.0, 450.0)]
    assert [job.preemptions for job in record.jobs] == [1, 0]


def test_without_drains_it_waits_until_ranks_allow_it() -> None:
    record = run(ALONE, {"idle_worth": "inf"})
    assert record.jobs[1].start_s > 400.0


def test_a_price_of_nothing_is_paid_as_soon_as_anything_stood_idle() -> None:
    record = run(ALONE, {"idle_worth": "0"})
    assert [job.start_s for job in record.jobs] == [90.0, 400.0]


def test_a_price_that_idle_gpus_have_not_paid_is_not_taken() -> None:
    # 1 × 114 GPU-seconds × 8 are 912; 3 × 300 are 900 at the first pass.
    record = run(ALONE, {"idle_worth": "8.0"})
    assert record.jobs[1].start_s > 400.0


@pytest.mark.parametrize(("gain", "share", "starts"), [("2", "0.5", True), ("2", "1", True), ("9", "0.5", False)])
def test_a_gang_of_most_of_the_cluster_whose_finish_is_nearer_than_theirs_needs_no_idle_gpus(
    gain: str, share: str, starts: bool
) -> None:
    # The gang takes an expected 113 s per finish and 4 s to start, and the job in its way 444 s at 400 s.
    record = run(ALONE, {"idle_worth": "8.0", "finish_gain": gain, "finish_share": share})
    assert (record.jobs[1].start_s == 400.0) == starts


def test_a_narrower_gang_pays_with_idle_gpus_only() -> None:
    jobs = [(90.0, 1, 2000.0), (90.0, 1, 2000.0), (90.0, 1, 2000.0), (100.0, 2, 50.0)]
    wide, narrow = (
        run(jobs, {"idle_worth": "8.0", "finish_gain": "2", "finish_share": share}).jobs[3]
        for share in ("0.5", "0.6")
    )
    assert wide.start_s <= narrow.start_s


@pytest.mark.parametrize("needs", [{"cpus_per_gpu": 1.0}, {"features": "ib"}, {"nodes_max": 1}])
def test_a_gang_with_constraints_gets_its_domain_as_others_do(needs: dict[str, object]) -> None:
    jobs = [(0.0, 1, 1000.0), (0.0, 4, 1e5)]
    plain = Case(ONE_MACHINE, jobs, costs=Costs(0.0, 0.0), until_s=1e6)
    has = [Capacity(4.0, None, None, frozenset({"ib"}))]
    constrained = replace(plain, capacities=has, constraints={0: {"cpus_per_gpu": 1.0}, 1: needs})
    options = {"idle_worth": "0.1"}
    starts = [[job.start_s for job in case.run(build("dally", options)).jobs] for case in (plain, constrained)]
    assert starts[0] == starts[1]
