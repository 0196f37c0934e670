"""Elastic jobs: sizes as stated, work conserved through every change, costs and accounts exact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from dally.cluster.capacity import Cluster
from dally.engine.failures import Failures, ListedFailures
from dally.engine.simulate import Simulation
from dally.errors import InputError, PolicyError
from dally.job_spec import JobSpec
from dally.metrics.simulated import Simulated
from dally.metrics.summary import summarize
from dally.model import (
    KIND_NAMES,
    Action,
    Costs,
    Job,
    Preempt,
    Profile,
    Resize,
    Start,
    job_of_spec,
    make_allocation,
)
from dally.perf.base import SpeedModel
from dally.perf.network_model import NetworkModel
from dally.policies.base import Policy
from dally.policies.queue import Queue
from dally.sizes import compute_gpu_s, held_gpu_s, overhead_gpu_s, read_sizes
from dally.testing.invariants import check_record, record_of

Plan = list[tuple[float, list[tuple[int, int]]]]  # from when on, which GPUs


class Planned(Policy):
    """Gives its only job these GPUs at these moments; none: it is preempted."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        due = [parts for at_s, parts in self.plan if at_s <= now]
        self.plan = [row for row in self.plan if row[0] > now]
        self.wakeup_s = min((at_s for at_s, _ in self.plan), default=float("inf"))
        for parts in due:
            waiting = queue.best()
            if waiting is not None:
                yield Start(waiting, make_allocation(0, parts))
                continue
            job = next(iter(cluster.running.values()))
            yield Resize(job, make_allocation(0, parts)) if parts else Preempt(job)


def run(plan: Plan, spec: JobSpec, costs: Costs, speed: SpeedModel | None = None) -> tuple[Simulation, Job]:
    """A job of 100 s on 2 machines of 8 GPUs, by plan."""
    job = job_of_spec(0, "job", 0.0, spec, 100.0)
    cluster = Cluster.grid(1, 2, 8, intra_gbps=200.0, nic_gbps=10.0, uplink_gbps=10.0)
    simulation = Simulation([job], cluster, Planned(plan), speed or SpeedModel(), costs, Failures())
    simulation.run()
    check_record(record_of(simulation))
    return simulation, job


FOUR_TO_SIXTEEN = JobSpec(8, sizes="4:16:4")
ONE_S = Costs(0.0, 1.0)


def test_a_job_starts_at_any_of_its_sizes() -> None:
    """Half the GPUs take twice the time where nothing is known of the network, and the same GPU time."""
    simulation, job = run([(0.0, [(0, 4)])], FOUR_TO_SIXTEEN, ONE_S)
    assert job.finish_s == 200.0
    assert held_gpu_s(job, simulation.now) == compute_gpu_s(job) == 800.0


def test_work_is_conserved_through_resizes_and_preemptions() -> None:
    """By hand: 50 s at half speed, 16 s restart, at double speed to 75 s of work, 8 s restart, the rest at 1."""
    plan: Plan = [(0.0, [(0, 4)]), (50.0, [(0, 8), (1, 8)]), (91.0, []), (91.0, [(0, 8)])]
    simulation, job = run(plan, FOUR_TO_SIXTEEN, ONE_S)
    assert job.work_s == 100.0
    assert job.finish_s == 91.0 + 8.0 + 25.0
    assert (job.resizes, job.preemptions, job.migrations) == (1, 1, 0)
    assert held_gpu_s(job, simulation.now) == 50.0 * 4 + 41.0 * 16 + 33.0 * 8
    assert overhead_gpu_s(job, simulation.now) == 16.0 * 16 + 8.0 * 8
    kinds = [KIND_NAMES[kind] for kind in simulation.state.log.kinds]
    assert [kind for kind in kinds if kind != "timer"] == [
        "submit",
        "start",
        "resize",
        "preempt",
        "start",
        "finish",
    ]


def test_a_job_may_state_what_a_resize_takes() -> None:
    plan: Plan = [(0.0, [(0, 4)]), (100.0, [(0, 8)])]
    assert run(plan, FOUR_TO_SIXTEEN, ONE_S)[1].finish_s == 158.0
    assert run(plan, replace(FOUR_TO_SIXTEEN, resize_s=0.5), ONE_S)[1].finish_s == 150.5


def test_a_failed_machine_undoes_work_of_the_size_it_was_done_at() -> None:
    """GPU seconds add up when work since the checkpoint is lost at another size than it waits for."""
    job = job_of_spec(0, "job", 0.0, replace(FOUR_TO_SIXTEEN, checkpoint_every_s=20.0), 100.0)
    cluster = Cluster.grid(1, 2, 8)
    plan: Plan = [(0.0, [(0, 4)]), (55.0, [(1, 8)])]

    outage = ListedFailures([(0, 50.0, 60.0)])
    simulation = Simulation([job], cluster, Planned(plan), SpeedModel(), ONE_S, outage)
    simulation.run()
    check_record(record_of(simulation))
    assert job.finish_s == 55.0 + 8.0 + 80.0  # 25 s of work were done, 20 of them saved
    assert overhead_gpu_s(job, simulation.now) == 10.0 * 4 + 8.0 * 8


def test_sizes_that_are_not_the_jobs_are_refused() -> None:
    with pytest.raises(PolicyError, match="asks for 4 or 8 or 12 or 16 GPUs"):
        run([(0.0, [(0, 2)])], FOUR_TO_SIXTEEN, ONE_S)
    with pytest.raises(PolicyError, match="asks for 8 GPUs"):
        run([(0.0, [(0, 4)])], JobSpec(8), ONE_S)


def test_speed_follows_from_compute_and_exchange() -> None:
    """On one machine without exchange speed is GPUs; across machines the gradients take what they take."""
    cluster = Cluster.grid(1, 2, 8, intra_gbps=200.0, nic_gbps=10.0, uplink_gbps=10.0)
    assert cluster.network is not None
    alone = NetworkModel(cluster.network, cluster.network, lambda model, gpus: Profile(0.1))
    job = job_of_spec(0, "job", 0.0, FOUR_TO_SIXTEEN, 100.0)
    assert alone.speedup(job, 4) == pytest.approx(0.5)
    assert alone.speedup(job, 16) == pytest.approx(2.0)
    shared = NetworkModel(cluster.network, cluster.network, lambda model, gpus: Profile(0.1, 1e9, 0.0))
    assert 0.5 < shared.speedup(job, 4) < 1.0 < 2.0 * shared.speedup(job, 16) < 4.0
    _, ran = run([(0.0, [(0, 4)])], FOUR_TO_SIXTEEN, ONE_S, shared)
    assert ran.finish_s == pytest.approx(100.0 / shared.speedup(job, 4))


def test_summary_counts_gpu_time_at_the_sizes_held() -> None:
    simulation, _ = run([(0.0, [(0, 4)]), (100.0, [(0, 8), (1, 8)])], FOUR_TO_SIXTEEN, ONE_S)
    summary = summarize(Simulated(simulation))
    assert summary["utilization"] == (100.0 * 4 + 41.0 * 16) / (141.0 * 16)
    assert (summary["elastic_jobs"], summary["resizes"]) == (1, 1)
    assert summary["jct_bound_s"] <= summary["jct_mean_s"]


@pytest.mark.parametrize(
    ("text", "gpus", "block", "sizes"),
    [
        ("", 8, 1, ()),
        ("8", 8, 1, ()),
        ("4:16:4", 8, 1, (4, 8, 12, 16)),
        ("2:4", 3, 1, (2, 3, 4)),
        ("4:12", 8, 4, (4, 8, 12)),
        ("16, 4,8", 8, 2, (4, 8, 16)),
    ],
)
def test_sizes_read(text: str, gpus: int, block: int, sizes: tuple[int, ...]) -> None:
    assert read_sizes(text, gpus, block) == sizes


@pytest.mark.parametrize(
    ("text", "gpus", "block", "problem"),
    [
        ("4:2", 4, 1, "must be LEAST:MOST"),
        ("0:4", 4, 1, "must be LEAST:MOST"),
        ("4:x", 4, 1, "must be LEAST:MOST"),
        ("1:2:3:4", 1, 1, "must be LEAST:MOST"),
        ("4,8", 6, 1, "must have the 6 GPUs among them"),
        ("4:9:5", 4, 2, "must be a multiple of 2"),
        ("1:100000", 1, 1, "state a larger step"),
    ],
)
def test_sizes_refused(text: str, gpus: int, block: int, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_sizes(text, gpus, block)


def test_a_daemon_runs_jobs_at_the_size_they_ask_for_whatever_sizes_they_state() -> None:
    """No backend resizes jobs; a submission with sizes that say nothing must not stop the daemon."""
    from dally.live.facts import one_size

    assert one_size(JobSpec(8, name="a", sizes="4:16")) == JobSpec(8, name="a")
    assert one_size(JobSpec(8, sizes="much")) == JobSpec(8)
