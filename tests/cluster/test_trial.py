"""Trials: what they show while open, and that nothing of them is left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.topology import grid
from dally.errors import PolicyError
from dally.model import Job, make_allocation
from dally.policies.placement.best_fit import best_fit

Parts = list[tuple[int, int]]


def placed(cluster: Cluster, index: int, parts: Parts) -> Job:
    job = Job(index, f"j{index}", 0.0, sum(gpus for _, gpus in parts), 1.0)
    job.allocation = make_allocation(0, parts)
    cluster.take(job, job.allocation)
    return job


def everything(cluster: Cluster) -> object:
    """Every count and every bucket."""
    buckets = [*cluster.tier_buckets, *(one for row in cluster.children for one in row)]
    return (
        int(cluster.free_gpus),
        [list(free) for free in cluster.free],
        [(list(one.free), list(one.bits.blocks)) for one in buckets],
        list(cluster.running),
        [[job.job_id for job in jobs] for jobs in cluster.jobs_on],
    )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "release", "block"]), st.integers(0, 7), st.integers(1, 4), st.integers(0, 3)
    ),
    max_size=12,
)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 4)), max_size=8, unique_by=lambda part: part[0]), STEPS)
def test_nothing_is_left_of_a_trial(gangs: Parts, steps: list[tuple[str, int, int, int]]) -> None:
    cluster = Cluster(grid(2, 2, 2, 4))
    jobs = [placed(cluster, index, [part]) for index, part in enumerate(gangs)]
    before = everything(cluster)
    with cluster.trial() as trial:
        free = list(cluster.free[0])
        blocked: set[int] = set()
        for what, machine, gpus, tier in steps:
            if what == "block":
                domain = machine >> tier
                trial.block(tier, domain)
                blocked |= set(range(domain << tier, (domain + 1) << tier))
                free = [0 if number in blocked else count for number, count in enumerate(free)]
            elif what == "take" and free[machine] >= gpus:
                trial.take(make_allocation(0, [(machine, gpus)]))
                free[machine] -= gpus
            elif what == "release" and jobs:
                allocation = jobs.pop().allocation
                assert allocation is not None
                where, count = allocation.parts()[0]
                if free[where] + count > 4:
                    with pytest.raises(PolicyError, match="free already"):
                        trial.release(allocation)
                else:
                    trial.release(allocation)
                    free[where] += 0 if where in blocked else count
            assert list(cluster.free[0]) == free
            assert cluster.free_gpus == sum(free)
            for level in range(4):
                sums = [sum(free[first : first + 2**level]) for first in range(0, 8, 2**level)]
                assert list(cluster.free[level]) == sums
                fitting = sorted((count, domain) for domain, count in enumerate(sums) if count >= gpus)
                assert cluster.best_domain(level, gpus) == (fitting[0][1] if fitting else -1)
                assert cluster.fullest(level, gpus, 3) == [domain for _, domain in fitting[:3]]
    assert everything(cluster) == before


def test_a_move_is_tried_out() -> None:
    # Machines of 4 with 2, 2 and 1 free; a gang of 4 fits one machine only where another's GPUs come back.
    cluster = Cluster.grid(1, 3, 4)
    small = [placed(cluster, 0, [(0, 2)]), placed(cluster, 1, [(1, 2)]), placed(cluster, 2, [(2, 3)])]
    assert best_fit(cluster, 0, 4) is None
    held = small[0].allocation
    assert held is not None
    trial = cluster.trial()
    trial.block(0, 0)
    elsewhere = best_fit(cluster, 0, 2)
    assert elsewhere is not None
    assert elsewhere.parts() == [(1, 2)]
    trial.undo()
    with cluster.trial() as trial:
        trial.release(held)
        trial.take(elsewhere)
        found = best_fit(cluster, 0, 4)
        assert found is not None
        assert found.parts() == [(0, 4)]
    assert cluster.free_gpus == 5


def test_one_trial_at_a_time_and_no_action_during_it() -> None:
    cluster = Cluster.grid(1, 2, 8)
    job = placed(cluster, 0, [(0, 2)])
    assert job.allocation is not None
    trial = cluster.trial()
    with pytest.raises(PolicyError, match="another trial while a trial is open: undo it first"):
        cluster.trial()
    with pytest.raises(PolicyError, match="job j0 loses its GPUs while a trial is open"):
        cluster.give_back(job, job.allocation)
    with pytest.raises(PolicyError, match="job j1 is placed while a trial is open"):
        placed(cluster, 1, [(1, 2)])
    for act in (cluster.fail, cluster.repair):
        with pytest.raises(PolicyError, match="while a trial is open"):
            act(1)
    trial.undo()
    trial.undo()
    cluster.give_back(job, job.allocation)
    with pytest.raises(PolicyError, match="used after its end"):
        trial.take(make_allocation(0, [(0, 1)]))


def test_what_is_not_free_cannot_be_taken_and_leaves_nothing_behind() -> None:
    cluster = Cluster.grid(1, 2, 8)
    before = everything(cluster)
    with pytest.raises(PolicyError, match="which is not free"), cluster.trial() as trial:
        trial.take(make_allocation(1, [(0, 8), (1, 9)]))
    assert everything(cluster) == before
