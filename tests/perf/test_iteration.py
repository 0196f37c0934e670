"""Iteration time: what hides, what sticks out, and profiles that are refused."""

from __future__ import annotations

import pickle

import pytest
from benchmarks import astra

from dally import Cluster, Profile, collective_time, iteration_times
from dally.cluster.links import Network
from dally.errors import InputError
from dally.perf.gang import closest_placement
from dally.perf.iteration import Demand, demand_of
from dally.perf.queries import placed
from tests.perf.racks import network_of, two_racks


def cluster() -> Cluster:
    return two_racks(2)


def network() -> Network:
    return network_of(cluster())


def on(profile: Profile) -> Demand:
    return demand_of(network(), placed(network(), {0: 8, 1: 8}), profile)


COMM_S = collective_time(cluster(), "all-reduce", 1e9, {0: 8, 1: 8})
LAST_S = collective_time(cluster(), "all-reduce", 1e8, {0: 8, 1: 8})


@pytest.mark.parametrize(
    ("name", "profile", "seconds"),
    [
        ("nothing overlaps", Profile(compute_s=0.3, nbytes=1e9, overlap=0.0), 0.3 + COMM_S),
        ("all of it hides", Profile(forward_s=0.1, backward_s=0.2, nbytes=1e9), 0.3),
        ("it outlasts the backward pass", Profile(forward_s=0.1, backward_s=0.01, nbytes=1e9), 0.1 + COMM_S),
        (
            "the last bucket never hides",
            Profile(forward_s=0.1, backward_s=0.2, nbytes=1e9, last_bucket_bytes=1e8),
            0.3 + LAST_S,
        ),
        ("half may hide", Profile(forward_s=0.1, backward_s=0.2, nbytes=1e9, overlap=0.5), 0.3 + COMM_S / 2),
        ("no gradients", Profile(compute_s=0.3), 0.3),
    ],
)
def test_by_hand(name: str, profile: Profile, seconds: float) -> None:
    demand = on(profile)
    assert demand.iteration_s(demand.alone_s) == pytest.approx(seconds), name
    assert iteration_times(cluster(), [(profile, {0: 8, 1: 8})]) == pytest.approx([seconds]), name


def test_all_to_all_comes_on_top_and_never_hides() -> None:
    profile = Profile(forward_s=0.1, backward_s=0.2, nbytes=1e9, all_to_all_bytes=1e8)
    exchange_s = collective_time(cluster(), "all-to-all", 1e8, {0: 8, 1: 8})
    demand = on(profile)
    assert demand.alone_s == pytest.approx(COMM_S + exchange_s)
    assert demand.iteration_s(demand.alone_s) == pytest.approx(0.3 + exchange_s)
    # Both collectives' seconds on the NICs add up: 1e9 bytes, and 8·8/16·1e8.
    assert list(demand.cost.seconds) == pytest.approx([1.4e9 / 25e9] * 2)


def test_the_closest_placement() -> None:
    assert closest_placement(network(), 8).top == 0
    assert list(closest_placement(network(), 12).gpus[0]) == [8, 4]
    assert closest_placement(network(), 17).top == 2
    with pytest.raises(InputError, match="33"):
        closest_placement(network(), 33)


def test_profiles_travel_between_processes() -> None:
    before = Profile(forward_s=0.1, backward_s=0.2, nbytes=5.0, overlap=0.5, last_bucket_bytes=1.0, name="x")
    after = pickle.loads(pickle.dumps(before))
    facts = ("forward_s", "backward_s", "nbytes", "overlap", "last_bucket_bytes", "all_to_all_bytes", "name")
    assert [getattr(after, fact) for fact in facts] == [getattr(before, fact) for fact in facts]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"compute_s": -1.0}, "compute_s: -1.0"),
        ({"compute_s": float("nan")}, "compute_s: nan"),
        ({"nbytes": float("inf")}, "nbytes: inf"),
        ({"overlap": 1.5}, "overlap: 1.5"),
        ({"compute_s": 1.0, "forward_s": 1.0}, "not both"),
    ],
)
def test_bad_profiles_name_field_and_value(values: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Profile(nbytes=values.pop("nbytes", 1.0), **values)  # type: ignore[arg-type]


def test_too_many_gpus_on_a_machine() -> None:
    job = (Profile(0.1, 1e6), {0: 5, 1: 1})
    with pytest.raises(InputError, match="machine 0: the jobs take 10 GPUs, it has 8"):
        iteration_times(cluster(), [job, job])


@pytest.mark.skipif(not astra.REFERENCE.exists(), reason="the reference measurements are not here")
@pytest.mark.parametrize(("chunks", "limit"), [(1, 0.01), (16, 0.05)])
def test_ideal_links_agree_with_astra(chunks: int, limit: float) -> None:
    errors = [run.error() for run in astra.read_runs() if run.chunks == chunks]
    assert len(errors) > 200
    assert sum(errors) / len(errors) <= limit
