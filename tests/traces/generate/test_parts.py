"""The parts of the sampler: shares, curves, bursts, the calendar."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.traces.generate.arrivals import Calendar
from dally.traces.generate.campaigns import burst_totals, draw_bursts
from dally.traces.generate.recipe import RECIPE_NAMES, Curve, find_recipe
from dally.traces.generate.stream import Stream, near_shares, nearest_shares
from dally.traces.generate.workload import draw_work, gpu_seconds, mean_gpu_seconds

WEIGHTS = st.lists(st.floats(0.01, 100), min_size=1, max_size=30)


@given(total=st.integers(0, 10_000), weights=WEIGHTS, offset=st.floats(0, 0.999))
def test_shares_add_up_and_are_near(total: int, weights: list[float], offset: float) -> None:
    for counts in (near_shares(total, weights, offset), nearest_shares(total, weights)):
        assert sum(counts) == total
        for count, weight in zip(counts, weights, strict=True):
            assert abs(count - total * weight / sum(weights)) < 1 + 1e-6


def test_shares_are_fair_over_offsets() -> None:
    found = [near_shares(1, [3.0, 1.0], offset / 100)[1] for offset in range(100)]
    assert sum(found) == 25


def test_a_curve_runs_straight_in_log_duration() -> None:
    curve = Curve((0.0, 0.5, 1.0), (10.0, 1000.0, 1000.0))
    assert [curve.at(point) for point in (0.0, 0.25, 0.5, 0.75, 1.0)] == [10, 100, 1000, 1000, 1000]
    assert curve.mean_s() == pytest.approx(0.5 * 990 / log(100) + 0.5 * 1000)


def test_streams_depend_on_their_key_alone() -> None:
    assert Stream(1, "a").point() == Stream(1, "a").point()
    assert len({Stream(*key).point() for key in ((1, "a"), (2, "a"), (1, "b"), (1, "a", 0))}) == 4


def test_shuffle_keeps_everything_and_picks_follow_weights() -> None:
    stream = Stream("shuffle")
    items = list(range(50))
    stream.shuffle(items)
    assert items != list(range(50))
    assert sorted(items) == list(range(50))
    picks = [stream.pick([1.0, 1.0, 4.0]) for _ in range(4000)]
    assert picks.count(1) == 0
    assert picks.count(2) / 4000 == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("name", RECIPE_NAMES)
def test_work_has_the_mean_of_the_curves(name: str) -> None:
    recipe = find_recipe(name)
    work = draw_work(recipe, 100_000, 10_000, seed=3)
    assert gpu_seconds(work) / 100_000 == pytest.approx(mean_gpu_seconds(recipe, 10_000), rel=0.01)
    for gpus, share in recipe.shares.items():
        assert len(work[gpus]) == pytest.approx(1000 * share * 100 / sum(recipe.shares.values()), abs=1)


@pytest.mark.parametrize("share", [0.1, 0.26, 0.65, 0.73])
def test_bursts_hold_their_share(share: float) -> None:
    totals = burst_totals(share, 300)
    chances = [here - before for before, here in zip([0.0, *totals], totals, strict=False)]
    mean = sum((place + 1) * chance for place, chance in enumerate(chances))
    assert sum(chances) == pytest.approx(1.0)
    assert 1 - 1 / mean == pytest.approx(share, abs=1e-6)


def test_no_bursts() -> None:
    assert burst_totals(0.0, 300) == [1.0]
    assert burst_totals(0.5, 1) == [1.0]


@pytest.mark.parametrize("name", RECIPE_NAMES)
def test_bursts_hold_all_of_the_work(name: str) -> None:
    work = draw_work(find_recipe(name), 5000, 10_000, seed=2)
    bursts = draw_bursts(find_recipe(name), work, seed=2)
    for gpus, durations_s in work.items():
        held = [duration_s for burst in bursts if burst.gpus == gpus for duration_s in burst.durations_s]
        assert sorted(held) == durations_s


@given(jobs=st.integers(1, 400), days=st.floats(0.01, 20), seed=st.integers(0, 100))
def test_the_calendar_places_every_job_inside_the_window(jobs: int, days: float, seed: int) -> None:
    calendar = Calendar(find_recipe("lingjun-like"), days * 86400, jobs, Stream(seed))
    assert sum(calendar.left) == jobs
    placed = 0
    for campaign in range(jobs):
        hour, count = calendar.take_hour(1)
        for _ in range(2):  # its first burst, and another within the week
            day = calendar.day_of(campaign, hour)
            assert calendar.open_s(day, hour) > 0.0
        placed += count
    assert placed == jobs
    assert set(calendar.left) == {0}


def test_a_burst_too_long_for_any_hour_is_cut() -> None:
    calendar = Calendar(find_recipe("venus-like"), 86400, 48, Stream(1))
    largest = max(calendar.left)
    _, count = calendar.take_hour(40)
    assert count == largest < 40
