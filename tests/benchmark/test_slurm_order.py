"""In how many pairs of jobs the same one starts first, by hand; the run itself needs a Slurm."""

from __future__ import annotations

from benchmarks.slurm_order import Ran, Sleep, drawn, in_order, simulated


def test_pairs_in_order() -> None:
    """Of three pairs one is turned round; a pair that one of the two starts at once is neither way."""
    assert in_order([0.0, 10.0, 20.0], [0.0, 20.0, 10.0]) == 1 - 1 / 3
    assert in_order([0.0, 10.0, 20.0], [20.0, 10.0, 0.0]) == 0.0
    assert in_order([0.0, 1.0, 20.0], [5.0, 0.0, 20.0]) == 1.0


def test_the_simulated_side_takes_limits_from_the_jobs_and_times_from_the_cluster() -> None:
    """All 128 GPUs for 20 s; then all again, planned for 60 s; a third fits before that only by its limit."""
    jobs = [Sleep(120, 20, 60), Sleep(128, 5, 60), Sleep(8, 5, 60), Sleep(8, 5, 120)]
    ran = [Ran(0.0, 20.0), Ran(20.0, 25.0), Ran(0.0, 5.0), Ran(0.0, 5.0)]
    assert simulated(jobs, ran, "slurm-backfill") == [0.0, 20.0, 0.0, 25.0]
    assert simulated(jobs, ran, "fifo") == [0.0, 20.0, 25.0, 25.0]


def test_jobs_are_drawn_by_seed() -> None:
    assert drawn(20, 1) == drawn(20, 1) != drawn(20, 2)
