"""Distributions over jobs, worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

from dally.metrics.distribution import (
    Parts,
    cdf_points,
    comm_by_model,
    jct_by_size,
    mean_parts,
    most_delayed,
    size_class,
    size_label,
    slowest,
)

JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b", "c", "d"],
        "gpus": [1, 4, 4, 8],
        "model": ["vgg16", "vgg16", "", "bert-large"],
        "jct_s": [10.0, 30.0, 50.0, None],
        "queue_s": [0.0, 5.0, 20.0, 7.0],
        "compute_s": [10.0, 20.0, 20.0, 3.0],
        "comm_s": [0.0, 4.0, 8.0, 1.0],
        "slowdown": [1.0, 1.2, 1.4, 1.3],
        "preemptions": [0, 1, 0, 0],
    }
)


@pytest.mark.parametrize(
    ("gpus", "number", "label"),
    [(1, 0, "1"), (2, 1, "2"), (3, 2, "3–4"), (4, 2, "3–4"), (5, 3, "5–8"), (64, 6, "33–64"), (65, 7, "65–128")],
)  # fmt: skip
def test_size_classes_end_at_powers_of_two(gpus: int, number: int, label: str) -> None:
    assert (size_class(gpus), size_label(size_class(gpus))) == (number, label)


def test_a_short_distribution_is_kept_whole() -> None:
    assert cdf_points(pl.Series([3.0, 1.0, None, 2.0, 2.0])) == [(1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0)]
    assert cdf_points(pl.Series([], dtype=pl.Float64)) == []


def test_a_long_distribution_is_thinned_and_keeps_its_ends_and_its_tail() -> None:
    count = 100_000
    points = cdf_points(pl.Series([float(value) for value in range(1, count + 1)]))
    assert len(points) <= 205
    assert points[0] == (1.0, 1 / count)
    assert points[-1] == (float(count), 1.0)
    assert all(share == value / count for value, share in points)
    assert sum(share > 0.999 for _, share in points) > 20
    assert points == sorted(points)


def test_completion_time_by_size_is_over_finished_jobs() -> None:
    found = jct_by_size(JOBS)
    assert found["size_class"].to_list() == [0, 2]
    assert found["jobs"].to_list() == [1, 2]
    assert found["p50"].to_list() == [10.0, 40.0]
    assert found["p25"].to_list() == [10.0, 35.0]


def test_communication_by_model_weighs_by_gpu_time_and_counts_unfinished_jobs() -> None:
    found = {model: lost for model, _, lost in comm_by_model(JOBS).iter_rows()}
    # vgg16: 4 s on 4 GPUs of 10 s on 1 and 24 s on 4. c names no model.
    assert found == {"bert-large": pytest.approx(1 / 4), "vgg16": pytest.approx(16 / (10 + 96))}


def test_parts_add_up_to_the_mean_completion_time() -> None:
    parts = mean_parts(JOBS)
    assert parts.jct_s() == pytest.approx(30.0)
    assert list(parts.named().values()) == pytest.approx([25 / 3, 50 / 3, 4.0, 30 - 25 / 3 - 50 / 3 - 4])
    assert mean_parts(JOBS.filter(pl.col("jct_s").is_null())) == Parts(0.0, 0.0, 0.0, 0.0)


def test_slowest_and_most_delayed_jobs() -> None:
    assert slowest(JOBS)["job_id"].to_list() == ["c"]
    assert slowest(JOBS, 0.67)["job_id"].to_list() == ["c", "b"]
    delayed = most_delayed(JOBS, 2)
    # c's work takes 28 s / 1.4 = 20 s alone at its closest, b's 24 / 1.2 = 20.
    assert delayed["job_id"].to_list() == ["c", "b"]
    assert delayed["lost_s"].to_list() == pytest.approx([30.0, 10.0])
