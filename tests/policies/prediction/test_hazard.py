"""Hazards by age: hand-worked counts, censored jobs, shrinkage, forgetting, and ranks against a plain sum."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.job_spec import JobSpec
from dally.model import Job
from dally.policies.prediction.hazard import GROWTH, HazardTable, size_class


def job(gpus: int = 1, user: str = "ann") -> Job:
    return Job(0, "j", 0.0, gpus, 100.0, spec=JobSpec(gpus, user=user))


@pytest.mark.parametrize(("gpus", "size"), [(1, 1), (2, 2), (3, 4), (8, 8), (9, 16), (128, 128), (744, 128)])
def test_sizes_share_a_class_up_to_the_next_power_of_two(gpus: int, size: int) -> None:
    assert size_class(gpus) == size


def test_age_bins_grow_from_30_seconds_to_60_days() -> None:
    table = HazardTable()
    edges = list(table.edges_s)
    assert edges[:3] == [0.0, 30.0, 39.0]
    assert edges[-1] <= 60 * 86400 < edges[-1] * GROWTH
    for number, (low, high) in enumerate(pairwise(edges)):
        assert table.bin_of(low) == number
        assert table.bin_of((low + high) / 2) == number
        assert table.end_s(number) == high
    assert table.bin_of(1e12) == len(edges) - 1


def test_without_a_job_half_of_those_alive_at_an_age_end_by_twice_that() -> None:
    table = HazardTable()
    leaf = table.class_of(job())
    survival, place = 1.0, 10
    edges = list(table.edges_s)
    while edges[place] < 2 * edges[10]:
        survival *= 1 - table.prior[place]
        place += 1
    assert survival == pytest.approx(edges[10] / edges[place])
    assert table.rank_s(leaf, 10) > table.rank_s(leaf, 5) > 0


def test_who_outlives_a_bin_counts_as_far_as_he_got() -> None:
    # Two jobs end in bin 0, two outlive it: with weight 0 the hazard there is 2 / 4.
    table = HazardTable(weight=1e-12, forget=0.0)
    leaf = table.class_of(job())
    for _ in range(2):
        table.ended(leaf, 0)
        table.outlived(leaf, 0)
    # What is left at age 0: 30 s less half of the hazard, then what is left of those who outlive it.
    left_s = 30 * (1 - 0.5 / 2) + 0.5 * table.left_s(leaf, 1)
    assert table.left_s(leaf, 0) == pytest.approx(left_s)


def test_a_class_is_shrunk_towards_the_wider_one() -> None:
    # Eight jobs of eight users: each user's own class has met one, and believes the others for eight.
    table = HazardTable(forget=0.0)
    for number in range(8):
        table.ended(table.class_of(job(user=f"u{number}")), 0)
    newcomer = table.class_of(job(user="new"))
    known = table.class_of(job(user="u0"))
    everyone = (8 + 8 * 0.15) / 16  # shrunk towards the prior,
    size = (8 + 8 * everyone) / 16  # as is the size towards everyone
    assert table._hazards(newcomer)[0] == pytest.approx(size)
    assert table._hazards(known)[0] == pytest.approx((1 + 8 * size) / 9)


def test_only_the_narrowest_class_forgets() -> None:
    table = HazardTable(forget=0.5)
    leaf = table.class_of(job())
    table.ended(leaf, 3)
    table.ended(leaf, 3)
    rows = {row[0]: row for row in table.saved()["classes"]}
    assert rows["1/ann"][3][3] == (1 * 0.5 + 1) * 0.5
    assert rows["1"][3][3] == rows[""][3][3] == 2


def test_without_users_the_size_is_the_narrowest_class() -> None:
    assert HazardTable(by_user=False).class_of(job()) == HazardTable().class_of(job(user="")) == 1


finishes = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", ""]), st.sampled_from([1, 8, 64]), st.integers(0, 46)), max_size=40
)


@given(finishes, st.integers(0, 46))
def test_the_rank_is_the_best_ratio_over_all_horizons(seen: list[tuple[str, int, int]], age_bin: int) -> None:
    table = HazardTable()
    for user, gpus, last in seen:
        leaf = table.class_of(job(gpus, user))
        for place in range(last):
            table.outlived(leaf, place)
        table.ended(leaf, last)
    leaf = table.class_of(job())
    edges = list(table.edges_s)
    age_bin = min(age_bin, len(edges) - 1)
    lengths = [high - low for low, high in pairwise([*edges, edges[-1] * GROWTH])]
    hazards = list(table._hazards(leaf))
    least_s = max(600.0, edges[age_bin] / 2)
    survival, service, ends, best = 1.0, 0.0, 0.0, float("inf")
    for place in range(age_bin, len(edges)):
        service += survival * lengths[place] * (1 - hazards[place] / 2)
        ends += survival * hazards[place]
        survival *= 1 - hazards[place]
        if place + 1 == len(edges) or edges[place + 1] >= edges[age_bin] + least_s:
            best = min(best, service / ends)
        if survival < 0.02:
            break
    assert table.rank_s(leaf, age_bin) == pytest.approx(min(best, service / ends) if best == float("inf") else best)
    assert table.left_s(leaf, age_bin) > 0


@given(finishes)
def test_what_is_saved_and_restored_ranks_the_same(seen: list[tuple[str, int, int]]) -> None:
    table = HazardTable()
    for user, gpus, last in seen:
        table.ended(table.class_of(job(gpus, user)), last)
    other = HazardTable()
    other.restore(table.saved())
    copy = pickle.loads(pickle.dumps(table))
    for gpus in (1, 8):
        for age_bin in (0, 7, 20):
            rank_s = table.rank_s(table.class_of(job(gpus)), age_bin)
            assert other.rank_s(other.class_of(job(gpus)), age_bin) == rank_s
            assert copy.rank_s(copy.class_of(job(gpus)), age_bin) == rank_s
