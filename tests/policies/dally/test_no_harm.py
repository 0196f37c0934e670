"""Where all jobs are alike, no preemption can gain anything: `alike=2` does without.

It is not the default: as long as nothing has ended, equal jobs look like long ones for which short ones wait.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dally.model import Costs, Job
from dally.policies.prediction.hazard import HazardTable
from dally.policies.registry import build
from dally.testing import record_of
from dally.testing.strategies import Case


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 2, 3, 4, 6]), st.integers(1, 30),
    st.sampled_from([20.0, 590.0, 650.0, 3600.0, 40_000.0]), st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0]),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_equal_jobs_are_never_preempted_with_alike(
    racks: int, machines: int, gpus: int, jobs: int, length_s: float, gap: float, rng: object
) -> None:
    grid: list[tuple[tuple[str, ...], int]] = [((f"r{rack}",), 4) for rack in range(racks) for _ in range(machines)]
    gpus = min(gpus, 4 * machines)
    rows, now_s = [], 0.0
    for _ in range(jobs):
        rows.append((round(now_s, 1), gpus, length_s))
        now_s += gap * length_s * rng.random() * gpus / (4 * racks * machines)  # type: ignore[attr-defined]
    record = record_of(Case(grid, rows, costs=Costs(1.0, 1.0, 0.0)).run(build("dally", {"alike": "2"})))
    assert sum(job.preemptions for job in record.jobs) == 0


def test_jobs_are_told_apart_once_one_has_lived_twice_as_long_as_one_that_ended() -> None:
    table = HazardTable()
    number = table.class_of(Job(0, "a", 0.0, 1, 0.0))
    assert not table.distinguishes(2.0), "none has ended"
    table.ended(number, table.bin_of(1000.0))
    assert not table.distinguishes(2.0), "none has lived longer"
    table.outlived(number, table.bin_of(1500.0))
    assert not table.distinguishes(2.0)
    table.outlived(number, table.bin_of(2500.0))
    assert table.distinguishes(2.0)
    again = HazardTable()
    again.restore(table.saved())
    assert (again.distinguishes(2.0), again.distinguishes(10.0)) == (True, False)
