"""Tiresias and Gandiva as the paper's simulator has them: where gangs go, and who goes first."""

from __future__ import annotations

import pytest

from dally.cluster.capacity import Cluster
from dally.model import Costs, Job
from dally.policies.as_coded import NEVER_STARTED, LatestStart, RandomScatter, SkewByName
from dally.policies.registry import build
from dally.testing.strategies import Case
from tests.policies.test_baselines import ONE, run


@pytest.mark.parametrize(
    ("model", "gpus", "widest"),
    [
        ("ResNet50", 2, 2),  # not skewed: anywhere
        ("VGG", 2, 1),  # there is a machine's worth of free GPUs, so it may leave its machine
        ("MobileNetV3", 4, 1),
        ("mobilenet-v3-large", 12, 2),  # larger than a rack
        ("BERT", 12, 2),
    ],
)
def test_how_far_a_gang_may_go_by_its_models_name(model: str, gpus: int, widest: int) -> None:
    assert SkewByName().widest(Job(0, "a", 0.0, gpus, 1.0, model), Cluster.grid(2, 2, 4)) == widest


def test_a_gang_larger_than_a_machine_is_drawn_at_random() -> None:
    cluster = Cluster.grid(4, 4, 4)
    jobs = [Job(place, f"j{place}", 0.0, 8, 1.0) for place in range(20)]

    def drawn(now: float) -> list[list[tuple[int, int]]]:
        places = [RandomScatter(1).place(job, now, cluster) for job in jobs]
        return [place.parts() for place in places if place is not None]

    parts = drawn(0.0)
    assert parts == drawn(5.0)  # the same whenever it is asked
    assert len(parts) == 20
    assert all(sum(gpus for _, gpus in one) == 8 for one in parts)
    assert len({tuple(one) for one in parts}) == 20
    assert min(len(one) for one in parts) > 2  # two machines would do
    small = RandomScatter(1).place(Job(0, "a", 0.0, 4, 1.0), 0.0, cluster)
    assert small is not None
    assert small.parts() == [(0, 4)]


def test_the_latest_start_comes_first_and_those_that_never_started_last() -> None:
    early, late, never = (Job(place, "", 0.0, 1, 9.0) for place in range(3))
    early.start_s, late.start_s = 3.0, 7.0
    assert sorted((early, late, never), key=lambda job: LatestStart().key(job, 8.0)) == [late, early, never]
    assert LatestStart().key(never, 8.0) == NEVER_STARTED


def test_a_job_that_runs_keeps_its_gpus_from_those_that_never_started() -> None:
    # Leases of 2 s end again and again; the second job waits until the first is done.
    outcome = run("gandiva-as-coded", {"lease_s": "2"}, ONE, [(0.0, 8, 10.0), (1.0, 8, 4.0)])
    assert [(job.start_s, job.finish_s) for job in outcome] == [(0, 10), (10, 14)]


def test_the_least_served_takes_over_at_the_end_of_a_lease() -> None:
    # At 2 the first has 16 GPU-s, the second none and takes over. At 4 they are equal, and equals stay.
    outcome = run("tiresias-as-coded", {"lease_s": "2"}, ONE, [(0.0, 8, 4.0), (1.0, 8, 4.0)])
    assert [(job.start_s, job.finish_s) for job in outcome] == [(0, 8), (2, 6)]


def test_a_scattered_gang_moves_together_when_there_is_room() -> None:
    # 8 of 64 GPUs at random; from 5 on the others are free, and it moves to a rack of two machines.
    outcome = run("gandiva-as-coded", {}, [[4, 4]] * 8, [(0.0, 8, 20.0), (0.0, 56, 5.0)])
    before, after = outcome[0].places
    assert before.count(":") > 2
    assert after.count(":4") == 2


def test_gandiva_as_coded_keeps_to_the_shape_of_a_gang() -> None:
    # A machine of 8 has room for the gang, which wants two machines with 4 of its GPUs on each.
    case = Case([(("r",), 4), (("r",), 8)], [(0.0, 8, 5.0)], constraints={0: {"gpus_per_node": 4}})
    simulation = case.run(build("gandiva-as-coded"))
    assert sorted(simulation.state.log.parts(1)) == [(0, 4), (1, 4)]
    assert simulation.jobs[0].finish_s >= 5.0


def test_what_a_move_leaves_behind_is_offered_at_once() -> None:
    # The gang of 11 moves into one rack at 966, when the job of 409 ends; the job of 598 waits for 6 GPUs of one
    # machine, which the gang leaves then. It once waited on until the next event, at 3903.
    c, b, a = ("c", "c"), ("b", "a"), ("a", "a")
    machines: list[tuple[tuple[str, ...], int]] = [(c, 4), (b, 1), (a, 4), (b, 8), (c, 4), (c, 8)]
    jobs = [
        (0.0, 2, 275.0), (16.0, 2, 541.0), (16.0, 4, 50.0), (20.0, 8, 0.0), (32.0, 23, 203.0), (58.0, 4, 84.0),
        (409.0, 2, 557.0), (541.0, 11, 3362.0), (598.0, 6, 1.0),
    ]  # fmt: skip
    case = Case(machines, jobs, outages=[(0, 4.0, 42.0)], costs=Costs(0.0, 0.0))
    simulation = case.run(build("gandiva-as-coded"))
    assert simulation.jobs[7].migrations == 1
    assert simulation.jobs[8].start_s == simulation.jobs[6].finish_s == 966.0
