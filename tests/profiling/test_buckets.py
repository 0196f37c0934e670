"""Buckets as DistributedDataParallel fills them, and the stages that tell them."""

from __future__ import annotations

from dally.profiling.buckets import Bucket, Gradient, Stage, buckets_of, stages_of

MIB = 1 << 20


def test_the_first_bucket_is_small_and_tensors_are_never_split() -> None:
    gradients = [Gradient(30 * MIB, 0.9), Gradient(2 * MIB, 0.1), Gradient(10 * MIB, 0.2), Gradient(MIB / 2, 0.05)]
    assert buckets_of(gradients) == [Bucket(2.5 * MIB, 0.1), Bucket(40 * MIB, 0.9)]


def test_what_is_left_is_the_last_bucket_and_what_others_hold_is_none() -> None:
    gradients = [Gradient(0.0, 0.05), Gradient(2 * MIB, 0.1), Gradient(3 * MIB, 0.9)]
    assert buckets_of(gradients) == [Bucket(2 * MIB, 0.1), Bucket(3 * MIB, 0.9)]
    assert buckets_of([]) == []


def test_even_buckets_are_one_stage() -> None:
    buckets = [Bucket(1.0, 0.3)] + [Bucket(100.0, 0.4 + 0.1 * number) for number in range(6)] + [Bucket(700.0, 1.0)]
    assert stages_of(buckets) == [Stage(1, 1.0, 0.3, 0.3), Stage(6, 600.0, 0.4, 0.9), Stage(1, 700.0, 1.0, 1.0)]


def test_a_late_bucket_begins_a_stage() -> None:
    late = [Bucket(1.0, 0.0), Bucket(1.0, 0.1), Bucket(1.0, 0.5), Bucket(1.0, 0.6)]
    assert [stage.buckets for stage in stages_of(late)] == [2, 2]
    assert [stage.buckets for stage in stages_of(late, tolerance=0.3)] == [4]
    assert stages_of([]) == []
