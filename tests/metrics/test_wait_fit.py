"""How far replayed waits are from recorded ones: what the measure must and must not see."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.metrics.wait_fit import Wait, WaitFit, wait_fit

SECONDS = st.floats(0.0, 1e6)
PAIRS = st.lists(st.tuples(st.sampled_from((1, 2, 8, 16, 64)), SECONDS, SECONDS), min_size=1, max_size=80)


def fit(pairs: list[tuple[int, float, float]]) -> WaitFit:
    return wait_fit([Wait(str(place), gpus, 0.0, one, other) for place, (gpus, one, other) in enumerate(pairs)])


@given(PAIRS)
def test_only_a_perfect_replay_is_perfect(pairs: list[tuple[int, float, float]]) -> None:
    assert fit([(gpus, one, one) for gpus, one, _ in pairs]).misfit == 0.0
    found = fit(pairs)
    assert found.off >= 0.0
    assert (found.misfit == 0.0) == all(one == other or math.isclose(one, other) for _, one, other in pairs)


@given(PAIRS)
def test_too_long_counts_as_too_short_does(pairs: list[tuple[int, float, float]]) -> None:
    one, other = fit(pairs), fit([(gpus, second, first) for gpus, first, second in pairs])
    assert one.off == pytest.approx(other.off)
    assert one.misfit == pytest.approx(other.misfit)


@given(st.lists(SECONDS, min_size=2, max_size=60), st.integers(1, 59))
def test_who_waits_matters_to_the_choice_alone(waits: list[float], cycle: int) -> None:
    turned = [*waits[cycle % len(waits) :], *waits[: cycle % len(waits)]]
    found = fit([(4, one, other) for one, other in zip(waits, turned, strict=True)])
    assert found.off == pytest.approx(0.0, abs=1e-9)
    assert (found.misfit > 1e-9) == any(
        not math.isclose(math.log1p(one / 60), math.log1p(other / 60), abs_tol=1e-9)
        for one, other in zip(waits, turned, strict=True)
    )


@given(PAIRS, st.floats(1.0, 20.0))
def test_times_as_long_is_never_told_as_more(pairs: list[tuple[int, float, float]], times: float) -> None:
    """And nearly as much where waits are long: a minute is added to each."""
    found = fit([(gpus, one, one * times) for gpus, one, _ in pairs])
    assert found.off <= times - 1 + 1e-9
    long = fit([(gpus, 3600.0 + one, (3600.0 + one) * times) for gpus, one, _ in pairs])
    assert long.off >= 0.98 * (times - 1) - 1e-9


def test_seconds_among_zeros_hardly_count() -> None:
    assert fit([(1, 0.0, 3.0)] * 50).off < 0.06
    assert fit([(1, 0.0, 3.0)] * 50 + [(1, 7200.0, 7200.0)] * 5).off < 0.06


def test_sizes_that_cancel_out_are_seen() -> None:
    """Large gangs starve and small ones do not: the mean of all is right, the replay is not."""
    pairs = [(1, 600.0, 1200.0)] * 40 + [(16, 1200.0, 600.0)] * 40
    found = fit(pairs)
    assert found.recorded_mean_s == found.replayed_mean_s
    assert found.off == pytest.approx(21 / 11 - 1)
    assert [(size.name, size.jobs) for size in found.sizes] == [("1", 40), ("9–16", 40)]
    assert found.sizes[0].off_p50 == pytest.approx(21 / 11 - 1)


def test_few_of_a_size_go_with_their_neighbours() -> None:
    pairs = [(1, 60.0, 60.0)] * 30 + [(2, 60.0, 60.0)] * 5 + [(8, 60.0, 60.0)] * 25 + [(64, 60.0, 60.0)]
    assert [(size.name, size.jobs) for size in fit(pairs).sizes] == [("1–2", 35), ("5–64", 26)]
    assert fit([]).sizes == []
