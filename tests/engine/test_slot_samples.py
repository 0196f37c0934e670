"""When slots are sampled, and of what."""

from __future__ import annotations

import pytest

from dally.cluster.capacity import Cluster
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.model import Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.registry import build

HOUR_S = 3600.0


def run(submits: list[float], duration_s: float = 0.5, every_s: float = HOUR_S) -> Simulation:
    """Jobs of one GPU on a machine of 8, submitted at these times."""
    jobs = [Job(index, f"j{index}", submit_s, 1, duration_s) for index, submit_s in enumerate(submits)]
    simulation = Simulation(
        jobs, Cluster.grid(1, 1, 8), build("fifo"), SpeedModel(), Costs(), Failures(), sample_every_s=every_s
    )
    simulation.run()
    return simulation


@pytest.mark.parametrize(
    ("name", "submits", "sampled"),
    [
        ("the first cycle", [7.0], [7.0]),
        ("not twice in an hour", [0.0, 10.0, 3599.0], [0.0]),
        ("on the hour", [0.0, 3600.0, 7200.0], [0.0, 3600.0, 7200.0]),
        ("or at the first cycle after it", [0.0, 3700.0, 3800.0], [0.0, 3700.0]),
        ("hours count from the start, not from the sample", [0.0, 3700.0, 7250.0], [0.0, 3700.0, 7250.0]),
        ("nor from midnight", [100.0, 3650.0, 3700.0], [100.0, 3700.0]),
        ("hours without a cycle have none", [0.0, 20_000.0, 21_000.0, 21_600.0], [0.0, 20_000.0, 21_600.0]),
        ("the end of a job is a cycle too", [0.0, 3599.75], [0.0, 3600.25]),
    ],
)
def test_sampling_instants(name: str, submits: list[float], sampled: list[float]) -> None:
    assert list(run(submits).state.log.slot_times) == sampled, name


def test_the_period_can_be_chosen() -> None:
    assert list(run([0.0, 1.0, 2.0, 2.25, 5.0], every_s=2.0).state.log.slot_times) == [0.0, 2.0, 5.0]


def test_one_sample_in_each_hour_whatever_the_rounding() -> None:
    # Hours from 0.1 on are not exact: a cycle on each must be sampled, once, and its neighbours not.
    submits = [0.1 + hour * 0.3 for hour in range(2000)]
    assert list(run(submits, duration_s=0.1, every_s=0.3).state.log.slot_times) == submits


def test_samples_are_taken_after_the_pass() -> None:
    log = run([0.0, 0.0, 3600.0], duration_s=4000.0).state.log
    assert list(log.slot_times) == [0.0, 3600.0, 7600.0]
    assert list(log.slot_free) == [6, 5, 8]
    assert list(log.slot_fragmentation) == [1.0, 1.0, 0.0]
    # Sizes 1, 2, 4, 8, and the three tiers hold the same one machine.
    assert list(log.slot_counts) == [
        count for sample in ([6, 3, 1, 0], [5, 2, 1, 0], [8, 4, 2, 1]) for count in sample for _ in range(3)
    ]
