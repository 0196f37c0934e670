"""Buckets that are reduced as they become ready: by hand, against a walk bucket by bucket, and among others."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally import Cluster, Profile, collective_time, iteration_times
from dally.errors import InputError
from dally.perf.contention import Contention
from dally.perf.iteration import Demand, demand_of
from dally.perf.least import Least
from dally.perf.queries import network_of, placed
from tests.examples import many

Stages = tuple[tuple[float, float, float, float], ...]
APART = {0: 8, 1: 8}


def cluster() -> Cluster:
    return Cluster.grid(racks=2, machines=2, gpus=8, intra_gbps=300, nic_gbps=25, uplink_gbps=25)


def on(profile: Profile) -> Demand:
    network = network_of(cluster())
    return demand_of(network, placed(network, APART), profile)


def walked_s(stages: Stages, stretch: float, backward_s: float) -> float:
    """When the last bucket is reduced: bucket by bucket."""
    now_s = 0.0
    for count, nbytes, first_s, last_s in stages:
        each_s = stretch * collective_time(cluster(), "all-reduce", nbytes / count, APART)
        for number in range(int(count)):
            ready_s = first_s + (last_s - first_s) * number / max(1.0, count - 1.0)
            now_s = max(now_s, ready_s) + each_s
    return max(now_s, backward_s)


@st.composite
def timelines(draw: st.DrawFn) -> Stages:
    moments = sorted(draw(st.lists(st.floats(0.0, 0.2), min_size=2, max_size=12)))
    pairs = list(zip(moments[::2], moments[1::2], strict=False))
    sizes = [draw(st.floats(1e3, 1e9)) for _ in pairs]
    counts = [draw(st.integers(2, 9)) if first < last else 1 for first, last in pairs]
    return tuple(
        (float(count), size, first, last) for count, size, (first, last) in zip(counts, sizes, pairs, strict=True)
    )


@settings(max_examples=many(100), deadline=None)
@given(timelines(), st.floats(1.0, 20.0))
def test_as_a_walk_bucket_by_bucket(stages: Stages, stretch: float) -> None:
    demand = on(Profile(forward_s=0.1, backward_s=0.2, stages=stages))
    expected_s = 0.1 + walked_s(stages, stretch, 0.2)
    assert demand.iteration_s(stretch * demand.alone_s) == pytest.approx(expected_s)
    assert len(demand.from_s) <= 1 + 2 * len(stages)


def test_by_hand() -> None:
    each_s = collective_time(cluster(), "all-reduce", 1e8, APART)
    late = Profile(forward_s=0.1, backward_s=0.2, stages=((1.0, 1e8, 0.0, 0.0), (1.0, 1e8, 0.2, 0.2)))
    early = Profile(forward_s=0.1, backward_s=0.2, stages=((2.0, 2e8, 0.0, 0.0),))
    crowded = Profile(forward_s=0.1, backward_s=0.2, stages=((100.0, 1e10, 0.0, 0.1),))
    alone = [iteration_times(cluster(), [(profile, APART)])[0] for profile in (late, early, crowded)]
    assert alone == pytest.approx([0.3 + each_s, 0.3, 0.1 + 100 * each_s])
    assert late.nbytes == 2e8
    assert iteration_times(cluster(), [(late, {0: 8})])[0] < 0.3 + each_s


def test_buckets_of_one_moment_are_the_old_formula() -> None:
    """All but the last ready at once and the last at the end: T_fwd + max(T_bwd, T_comm - T_last) + T_last."""
    quiet = Cluster.grid(racks=2, machines=2, gpus=8, intra_gbps=300, nic_gbps=25, uplink_gbps=25, ideal=True)
    for backward_s in (0.001, 0.01, 0.1):
        stages = ((1.0, 9e8, 0.0, 0.0), (1.0, 1e8, backward_s, backward_s))
        timed = Profile(forward_s=0.1, backward_s=backward_s, stages=stages)
        plain = Profile(forward_s=0.1, backward_s=backward_s, nbytes=1e9, last_bucket_bytes=1e8)
        both = [iteration_times(quiet, [(profile, APART)])[0] for profile in (timed, plain)]
        assert both[0] == pytest.approx(both[1], rel=1e-3)  # one more latency


def test_an_exchange_never_hides() -> None:
    stages = ((1.0, 1e8, 0.05, 0.05),)
    with_it = Profile(forward_s=0.1, backward_s=0.2, stages=stages, all_to_all_bytes=1e8)
    exchange_s = collective_time(cluster(), "all-to-all", 1e8, APART)
    assert iteration_times(cluster(), [(with_it, APART)])[0] == pytest.approx(0.3 + exchange_s)


def test_one_gpu_reduces_nothing() -> None:
    profile = Profile(forward_s=0.1, backward_s=0.2, stages=((1.0, 1e8, 0.1, 0.2),))
    assert iteration_times(cluster(), [(profile, {0: 1})]) == pytest.approx([0.3])


def test_neighbours_slow_each_other_and_no_more() -> None:
    profile = Profile(forward_s=0.01, backward_s=0.02, stages=((8.0, 8e8, 0.0, 0.02),))
    half = {0: 4, 1: 4}
    alone_s = iteration_times(cluster(), [(profile, half)])[0]
    together = iteration_times(cluster(), [(profile, half), (profile, half)])
    assert together[0] == pytest.approx(together[1])
    assert alone_s < together[0] < 2.0 * alone_s
    network = network_of(cluster())
    contention = Contention(network.link_count())
    for job in (0, 1):
        contention.add(job, demand_of(network, placed(network, half), profile))
    contention.remove(1)
    assert contention.iteration_s(0) == pytest.approx(alone_s)


@settings(max_examples=many(50), deadline=None)
@given(timelines())
def test_no_placement_beats_the_least(stages: Stages) -> None:
    profile = Profile(forward_s=0.1, backward_s=0.2, stages=stages)
    demand = on(profile)
    least_s = Least(network_of(cluster())).iteration_s(profile, 16)
    assert 0.3 <= least_s <= demand.iteration_s(demand.alone_s) * (1 + 1e-9)


@pytest.mark.parametrize(
    "stage", [(0.0, 1e8, 0.0, 0.1), (1.0, 0.0, 0.0, 0.1), (1.0, 1e8, 0.1, 0.05), (1.0, 1e8, 0.1, 0.3)]
)
def test_stages_that_cannot_be(stage: Any) -> None:
    with pytest.raises(InputError, match=r"stages: .* within the backward pass of 0\.2 s"):
        Profile(forward_s=0.1, backward_s=0.2, stages=(stage,))


def test_they_travel_between_processes() -> None:
    profile = Profile(forward_s=0.1, backward_s=0.2, stages=((2.0, 2e8, 0.0, 0.2),))
    assert pickle.loads(pickle.dumps(profile)).stages == profile.stages
    demand = pickle.loads(pickle.dumps(on(profile)))
    assert demand.iteration_s(demand.alone_s) == on(profile).iteration_s(demand.alone_s)
