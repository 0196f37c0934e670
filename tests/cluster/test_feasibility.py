"""Which machines jobs may use, and how many GPUs they could have there: by hand, and against brute force."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.feasibility.feasibility import Feasibility
from dally.cluster.feasibility.shape import GangShape, shape_of
from dally.cluster.feasibility.signatures import ReservedTime, Signatures
from dally.cluster.feasibility.statement import feature_test
from dally.cluster.partitions import Partition
from dally.cluster.topology import Capacity, Machine, Topology
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.model import Job, make_allocation
from dally.testing.strategies import capacities, constraints

# Three machines of 8 GPUs: one with few CPUs, one with a feature, one that states nothing.
SCARCE = Capacity(16.0, 100.0, {"nic": 2.0})
FEATURED = Capacity(64.0, 1000.0, {}, frozenset(("ib", "big")))


def cluster_of(*stated: Capacity, gpus: int = 8) -> tuple[Cluster, Signatures]:
    machines = [Machine((f"r{place // 2}",), f"m{place}", gpus, "", one) for place, one in enumerate(stated)]
    cluster = Cluster(Topology(["machine", "rack", "network"], machines))
    signatures = Signatures(cluster.topology)
    cluster.constrain(signatures)
    return cluster, signatures


def signed(signatures: Signatures, gpus: int, limit_s: float | None = None, **stated: Any) -> Job:
    job = Job(0, "j", 0.0, gpus, 10.0, spec=JobSpec(gpus, limit_s=limit_s, **stated))
    signatures.sign(job)
    return job


def usable(cluster: Cluster, job: Job) -> list[int]:
    """What the counts in focus say, which is what the books say."""
    cluster.focus(job)
    fit = cluster.feasibility
    assert fit is not None
    shown = [int(gpus) for gpus in cluster.free[0]]
    assert shown == [int(fit.usable(job.signature, machine)) for machine in range(len(shown))]
    assert cluster.free_gpus == sum(shown)
    cluster.focus(None)
    return shown


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, [8, 8, 8]),
        ({"cpus_per_gpu": 2.0}, [8, 8, 8]),
        ({"cpus_per_gpu": 3.0}, [5, 8, 8]),  # 5 · 3 of 16
        ({"cpus_per_gpu": 3.0, "cpus_per_node": 2.0}, [4, 8, 8]),  # 4 · 3 + 2 of 16
        ({"cpus_per_node": 17.0}, [0, 8, 8]),
        ({"cpus_per_gpu": 16.0 / 7.0}, [7, 8, 8]),  # sevenths add up to 16
        ({"memory_mb_per_gpu": 30.0, "cpus_per_gpu": 4.0}, [3, 8, 8]),
        ({"resources_per_node": "nic=2"}, [8, 0, 8]),  # the second states that it has none
        ({"resources_per_gpu": "nic=1"}, [2, 0, 8]),
        ({"features": "ib"}, [0, 8, 0]),
        ({"features": "ib&big"}, [0, 8, 0]),
        ({"features": "roce|big"}, [0, 8, 0]),
        ({"exclude": "m[0-1]"}, [0, 0, 8]),
        ({"include": "m2", "gpus_per_node": 4}, [0, 0, 4]),
        ({"exclusive": True}, [8, 8, 8]),
        ({"gpus_per_node": 4}, [4, 4, 4]),
        ({"cpus_per_gpu": 3.0, "gpus_per_node": 4}, [4, 4, 4]),
        ({"cpus_per_gpu": 5.0, "gpus_per_node": 4}, [0, 4, 4]),  # 3 GPUs would fit, and do not help
    ],
)
def test_usable_on_empty_machines(stated: dict[str, Any], expected: list[int]) -> None:
    cluster, signatures = cluster_of(SCARCE, FEATURED, Capacity())
    assert usable(cluster, signed(signatures, 4, **stated)) == expected


def test_jobs_that_need_the_same_share_a_signature() -> None:
    _, signatures = cluster_of(SCARCE, FEATURED)
    one = signed(signatures, 4, cpus_per_gpu=2.0, exclude="m0")
    assert one.signature == signed(signatures, 8, cpus_per_gpu=2.0, exclude="m[0]").signature > 0
    assert one.signature != signed(signatures, 4, cpus_per_gpu=3.0, exclude="m0").signature
    assert signed(signatures, 4, partition="any").signature == 0  # the cluster has none


def test_what_a_job_takes_comes_back_with_it() -> None:
    cluster, signatures = cluster_of(SCARCE, FEATURED)
    greedy = signed(signatures, 2, cpus_per_gpu=6.0)
    modest = signed(signatures, 4, cpus_per_gpu=1.0)
    cluster.focus(modest)
    place = make_allocation(0, [(0, 2)])
    cluster.take(greedy, place)
    assert [int(gpus) for gpus in cluster.free[0]] == [4, 8]  # 4 CPUs are left beside 6 GPUs
    assert int(cluster.all_free()) == 14
    cluster.give_back(greedy, place)
    assert [int(gpus) for gpus in cluster.free[0]] == [8, 8]


def test_an_exclusive_job_has_its_machine_to_itself() -> None:
    cluster, signatures = cluster_of(Capacity(), Capacity())
    plain, alone = signed(signatures, 2), signed(signatures, 2, exclusive=True)
    cluster.take(plain, make_allocation(0, [(0, 2)]))
    assert usable(cluster, alone) == [0, 8]
    other = Job(1, "other", 0.0, 2, 10.0, spec=alone.spec)
    signatures.sign(other)
    cluster.take(other, make_allocation(0, [(1, 2)]))
    assert usable(cluster, plain) == [6, 0]


def test_licences_are_shared_by_all_machines() -> None:
    cluster, signatures = cluster_of(Capacity(), Capacity())
    signatures.free_licences = {"matlab": 2.0}
    job = signed(signatures, 1, licences="matlab=2")
    assert usable(cluster, job) == [8, 8]
    place = make_allocation(0, [(0, 1)])
    cluster.take(job, place)
    assert usable(cluster, job) == [0, 0]
    assert usable(cluster, signed(signatures, 1)) == [7, 8]
    cluster.give_back(job, place)
    assert usable(cluster, job) == [8, 8]


@pytest.mark.parametrize(
    ("now", "limit_s", "stated", "expected"),
    [
        (0.0, 100.0, {}, [8, 8]),  # over before the reservation begins
        (0.0, 101.0, {}, [0, 8]),
        (0.0, None, {}, [0, 8]),  # without a limit
        (150.0, 1.0, {}, [0, 8]),
        (200.0, None, {}, [8, 8]),  # it has ended
        (0.0, 1.0, {"reservation": "upgrade"}, [0, 0]),  # not begun
        (150.0, None, {"reservation": "upgrade"}, [8, 0]),
    ],
)
def test_reservations(now: float, limit_s: float | None, stated: dict[str, Any], expected: list[int]) -> None:
    cluster, signatures = cluster_of(Capacity(), Capacity())
    signatures.set_windows([ReservedTime("upgrade", frozenset((0,)), 100.0, 200.0)])
    signatures.advance(now)
    assert usable(cluster, signed(signatures, 4, limit_s, **stated)) == expected
    assert signatures.next_edge_s() == (100.0 if now < 100.0 else 200.0 if now < 200.0 else float("inf"))


def test_a_job_may_be_in_any_of_its_partitions() -> None:
    cluster, signatures = cluster_of(Capacity(), Capacity(), Capacity())
    cluster.topology.partitions = [
        Partition("a", frozenset((0,))),
        Partition("b", frozenset((1,)), max_gpus=4),
        Partition("c", frozenset((2,)), users=("eve",)),
    ]
    assert usable(cluster, signed(signatures, 4, partition="a,b")) == [8, 8, 0]
    assert usable(cluster, signed(signatures, 8, partition="a,b")) == [8, 0, 0]
    refused = signed(signatures, 4, partition="c", user="adam")
    assert usable(cluster, refused) == [0, 0, 0]
    assert "is for others" in signatures.rows[refused.signature].problem


@pytest.mark.parametrize(
    ("stated", "gpus", "tier"),
    [
        ({}, 8, 0),
        ({"gpus_per_node": 4}, 16, 2),  # 4 · 4 is never one machine, nor one rack of two
        ({"gpus_per_node": 8}, 16, 1),
        ({"nodes_min": 2}, 8, 1),
        ({"cpus_per_gpu": 4.0}, 8, 0),
        ({"cpus_per_gpu": 4.0, "exclude": "m[1-3]"}, 8, -1),  # m0 has CPUs for 4
        ({"features": "none"}, 1, -1),
        ({"include": "m[0,2]"}, 8, 2),
    ],
)
def test_closest_tier(stated: dict[str, Any], gpus: int, tier: int) -> None:
    cluster, signatures = cluster_of(SCARCE, Capacity(), Capacity(), Capacity())
    assert cluster.closest_tier(signed(signatures, gpus, **stated)) == tier


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        ((16, 1, 4, 0, 0), GangShape(4, 4)),
        ((16, 1, 5, 0, 0), None),
        ((16, 1, 4, 5, 0), None),  # four machines, and five are asked for
        ((16, 1, 0, 2, 4), GangShape(8, 8)),  # the fewest machines
        ((32, 1, 0, 2, 8), GangShape(8, 8)),  # 16 GPUs are more than a machine has
        ((8, 1, 0, 3, 3), None),
        ((8, 1, 0, 0, 1), GangShape(8)),
        ((8, 1, 0, 0, 3), GangShape(4)),  # no more than two machines
        ((8, 4, 0, 0, 2), GangShape(4)),
        ((8, 1, 0, 0, 0), GangShape(1)),
    ],
)
def test_shapes(asks: tuple[int, int, int, int, int], expected: GangShape | None) -> None:
    assert shape_of(*asks, largest=8) == expected


@pytest.mark.parametrize(
    ("text", "features", "expected"),
    [
        ("a", "a", True), ("a&b", "a", False), ("a|b", "b", True), ("(a|b)&c", "bc", True),
        ("a|b&c", "a", False), ("a|(b&c)", "a", True), (" a & ( b | c ) ", "ac", True),
    ],
)  # fmt: skip
def test_features_are_read_from_left_to_right(text: str, features: str, expected: bool) -> None:
    assert feature_test(text)(frozenset(features)) is expected


@pytest.mark.parametrize("text", ["a&", "&a", "(a", "a)", "a b", "[a|b]", "a*2", "()"])
def test_other_expressions_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="features"):
        feature_test(text)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_usable_is_the_most_that_fits(data: st.DataObject) -> None:
    """For random machines and jobs, some of which run: no more GPUs fit, and so many do."""
    stated = [data.draw(capacities(8)) for _ in range(3)]
    cluster, signatures = cluster_of(*stated)
    fit = cluster.feasibility
    assert fit is not None
    running: list[tuple[Job, int, int]] = []
    for number in range(data.draw(st.integers(0, 6))):
        job = _drawn(data, signatures, number)
        machine = data.draw(st.integers(0, 2))
        most = int(fit.usable(job.signature, machine))
        if most >= 1:
            gpus = most if data.draw(st.booleans()) else int(max(1, signatures.rows[job.signature].group))
            job.gpus = gpus
            cluster.take(job, make_allocation(0, [(machine, gpus)]))
            running.append((job, machine, gpus))
    job = _drawn(data, signatures, 99)
    shown = usable(cluster, job)
    signature = signatures.rows[job.signature]
    for machine in range(3):
        sizes = [gpus for gpus in range(1, 9) if gpus % signature.group == 0]
        sizes = [gpus for gpus in sizes if signature.cap == 0 or gpus == signature.cap]
        fitting = [gpus for gpus in sizes if _fits(job, machine, gpus, running, stated, fit)]
        assert shown[machine] == max(fitting, default=0)


def _drawn(data: st.DataObject, signatures: Signatures, number: int) -> Job:
    job = Job(number, f"j{number}", 0.0, 4, 10.0, spec=JobSpec(4, **data.draw(constraints())))
    signatures.sign(job)
    return job


def _fits(
    job: Job, machine: int, gpus: int, running: list[tuple[Job, int, int]], stated: list[Capacity], fit: Feasibility
) -> bool:
    """By adding everything up that would then be on the machine."""
    spec = job.spec
    if fit.signatures.rows[job.signature].problem:
        return False
    if spec.features and not feature_test(spec.features)(stated[machine].features):
        return False
    if (machine == 0 and spec.exclude) or (machine == 1 and spec.exclude == "m[0-1]") or (machine and spec.include):
        return False
    here = [(other.spec, count) for other, at, count in running if at == machine]
    if here and any(one.exclusive for one in [spec, *(other for other, _ in here)]):
        return False
    here.append((spec, gpus))
    if sum(count for _, count in here) > 8:
        return False
    cpus = sum(one.cpus_per_gpu * count + one.cpus_per_node for one, count in here)
    memory = sum(one.memory_mb_per_gpu * count + one.memory_mb_per_node for one, count in here)
    nics = sum(float(one.resources_per_node.partition("=")[2] or 0) for one, _ in here)
    have = stated[machine]
    return (
        (have.cpus is None or cpus <= have.cpus)
        and (have.memory_mb is None or memory <= have.memory_mb)
        and (have.resources is None or nics <= have.resources.get("nic", 0.0))
    )


def test_a_trial_takes_all_that_goes_with_gpus() -> None:
    cluster, signatures = cluster_of(SCARCE)
    greedy, modest = signed(signatures, 2, cpus_per_gpu=6.0), signed(signatures, 4, cpus_per_gpu=1.0)
    held = make_allocation(0, [(0, 2)])
    cluster.take(greedy, held)
    greedy.allocation = held
    cluster.focus(modest)
    assert int(cluster.free[0][0]) == 4
    trial = cluster.trial()
    trial.release(held)
    assert int(cluster.free[0][0]) == 8
    trial.take(make_allocation(0, [(0, 4)]))  # by the one in focus
    cluster.focus(greedy)
    assert int(cluster.free[0][0]) == 2  # 12 CPUs are left
    trial.undo()
    assert int(cluster.free[0][0]) == 0
    cluster.focus(modest)
    assert int(cluster.free[0][0]) == 4
