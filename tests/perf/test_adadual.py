"""AdaDUAL's rule: whatever it picks is really the better choice in the exact model of two transfers."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dally.perf.adadual import BYTE_S, PENALTY_S
from tests.perf.reference_adadual import LATENCY_S, THRESHOLD, admits, admits_to, ends, ends_if_waiting

sizes = st.floats(1.0, 1e11)
MB = 1e6


def sharing_s(transfers: int, nbytes: float) -> float:
    """Seconds for that many bytes each when so many transfers go on together: the paper's T_k."""
    return LATENCY_S + transfers * BYTE_S * nbytes + (transfers - 1) * PENALTY_S * nbytes


def test_threshold_of_the_paper() -> None:
    assert pytest.approx(8.53 / (2 * (8.53 + 2.56))) == THRESHOLD


def test_equal_transfers_that_overlap_take_the_time_of_two() -> None:
    both = ends(100 * MB, 100 * MB)
    assert both.second_s == pytest.approx(sharing_s(2, 100 * MB))
    assert both.first_s == pytest.approx(sharing_s(2, 100 * MB) - LATENCY_S)  # its latency is behind it


def test_hand_worked_ends() -> None:
    # 100 MB left, 20 MB new: 20 MB of each at (2b + η) = 1.962e-9 s/B take 39.24 ms; the first then has
    # 80 MB left, alone: 68.24 ms more. Waiting: 85.3 ms, then 17.06 ms.
    both = ends(20 * MB, 100 * MB)
    assert both == pytest.approx((0.03924 + 0.06824, 0.03924 + LATENCY_S))
    assert ends_if_waiting(20 * MB, 100 * MB) == pytest.approx((0.0853, 0.0853 + 0.01706 + LATENCY_S))
    # The sums without latency, 146.72 and 187.66 ms, differ by b·100 MB - 2(b + η)·20 MB = 40.94 ms.
    assert ends_if_waiting(20 * MB, 100 * MB).sum_s() - both.sum_s() == pytest.approx(0.04094)
    # The longer one is the newcomer: 20 MB shared, 80 MB of its own left.
    assert ends(100 * MB, 20 * MB) == pytest.approx((0.03924, 0.03924 + 0.06824 + LATENCY_S))


@given(sizes, st.floats(1e-6, 0.999999))
def test_below_the_threshold_overlapping_is_better(left: float, share: float) -> None:
    new = share * THRESHOLD * left
    assert admits(new, left)
    assert ends(new, left).sum_s() < ends_if_waiting(new, left).sum_s()


@given(sizes, st.floats(1.000001, 1e6))
def test_above_the_threshold_waiting_is_better(left: float, share: float) -> None:
    new = share * THRESHOLD * left
    assert not admits(new, left)
    assert ends_if_waiting(new, left).sum_s() < ends(new, left).sum_s()


@given(sizes, sizes, st.floats(0.0, 1.0))
def test_the_rule_beats_every_delay(new: float, left: float, share: float) -> None:
    assume(abs(new / (THRESHOLD * left) - 1) > 1e-9)
    picked = ends(new, left) if admits(new, left) else ends_if_waiting(new, left)
    assert picked.sum_s() <= ends(new, left, share * BYTE_S * left).sum_s() * (1 + 1e-12)


@pytest.mark.parametrize(
    ("new", "left", "admitted"),
    [
        (500 * MB, [], True),  # an idle link
        (38 * MB, [100 * MB], True),  # 0.38 < 0.3846
        (39 * MB, [100 * MB], False),
        (1 * MB, [100 * MB, 100 * MB], False),  # two in flight: wait
    ],
)
def test_admission_to_a_link(new: float, left: list[float], admitted: bool) -> None:
    assert admits_to(new, left) is admitted
