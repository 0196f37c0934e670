"""The time that jobs have left: hand-worked courses, and errors and intervals on made-up ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.progress_remaining import ASKED, made, run

from dally.progress.line_parser import parse_line
from dally.progress.line_progress import LineProgress
from dally.progress.step_times import StepTimes
from dally.progress.time_left import RemainingTime


def course(*samples: tuple[float, int], total: int | None = 1000) -> StepTimes:
    """A job that printed after so many seconds that so many steps were done."""
    result = StepTimes()
    for worked_s, step in samples:
        result.observe(worked_s, LineProgress(step, total))
    return result


def even(step_s: float, last: int, every: int = 10, start_s: float = 0.0) -> list[tuple[float, int]]:
    return [(start_s + step_s * step, step) for step in range(every, last + 1, every)]


def raw_s(one: StepTimes) -> float:
    result = RemainingTime().raw_s(one)
    assert result is not None
    return result


def test_even_steps() -> None:
    assert raw_s(course(*even(2.0, 100))) == pytest.approx(1800.0)


def test_a_slow_start_does_not_count() -> None:
    assert raw_s(course(*even(2.0, 100, start_s=500.0))) == pytest.approx(1800.0)


def test_pauses_that_come_again_count_and_one_alone_by_half() -> None:
    # 1 s a step, 40 s after every 100: 1.4 s a step, less half a pause of four seen in 350 steps.
    often = [(step * 1.0 + 40.0 * (step // 100), step) for step in range(10, 401, 10)]
    assert raw_s(course(*often)) == pytest.approx(600.0 * (1.0 + 40.0 * 3.5 / 350.0), rel=0.02)
    once = [(step * 1.0 + 40.0 * (step >= 200), step) for step in range(10, 401, 10)]
    assert raw_s(course(*once)) == pytest.approx(600.0 * (1.0 + 20.0 / 350.0), rel=0.02)


def test_steps_lost_to_a_restart_are_done_again() -> None:
    one = course(*even(2.0, 200))
    one.moved(1.0)
    for worked_s, step in ((20.0, 160), (40.0, 170), (60.0, 180)):
        one.observe(worked_s, LineProgress(step, 1000))
    assert raw_s(one) == pytest.approx(820 * 2.0)


def test_after_a_move_the_speed_model_says_what_that_changes_until_it_is_seen() -> None:
    one = course(*even(2.0, 500))
    one.moved(1.5)
    one.observe(30.0, LineProgress(510, 1000))
    assert raw_s(one) == pytest.approx(490 * 3.0)
    for step in range(520, 901, 10):  # the model was wrong: it is as fast as before
        one.observe(30.0 + 2.0 * (step - 510), LineProgress(step, 1000))
    assert raw_s(one) == pytest.approx(100 * 2.0, rel=0.2)


def test_steps_within_epochs() -> None:
    one = StepTimes()
    bars = [f" {step}/50 [=>..] - ETA: 3s - loss: 0.5" for step in range(1, 51)]
    for number, text in enumerate(("Epoch 1/4", *bars, "Epoch 2/4", bars[0])):
        row = parse_line(text)
        assert row is not None
        one.observe(float(number), row)
    assert (one.done, one.total) == (51.0, 200.0)


def test_epochs_from_0_and_a_last_index() -> None:
    one = StepTimes()
    for epoch, step in ((0, 99), (0, 100), (1, 1)):
        one.observe(100.0 * epoch + step, LineProgress(step, 100, float(epoch)))
    assert one.done == 101.0


@pytest.mark.parametrize(("begins_s", "done"), [(1.0, 6.0), (61.0, 7.0)])
def test_epochs_count_where_nothing_else_is_printed(begins_s: float, done: float) -> None:
    """An epoch takes 60 s; its line comes when it begins, or with its loss when it has ended."""
    one = StepTimes()
    for epoch in range(1, 8):
        row = parse_line(f"Epoch [{epoch}/20], Loss: 0.{epoch}")
        assert row is not None
        one.observe(begins_s + 60.0 * (epoch - 1), row)
        one.observe(begins_s + 60.0 * (epoch - 1) + 5.0, row)  # said again, as of validation
    assert (one.done, one.total) == (done, 20.0)
    assert raw_s(one) == pytest.approx((20.0 - done) * 60.0)


def test_steps_count_once_there_are_any() -> None:
    one = StepTimes()
    for epoch in range(1, 5):
        one.observe(60.0 * epoch, LineProgress(epoch=float(epoch), epochs=20))
    assert one.done > 0.0
    for step in range(10, 101, 10):
        one.observe(300.0 + 2.0 * step, LineProgress(step, 100, 5.0, 20))
    assert (one.done, one.total) == (500.0, 2000.0)
    assert raw_s(one) == pytest.approx(1500.0 * 2.0)


def test_steps_of_the_whole_run_beside_a_fraction_of_epochs() -> None:
    one = course()
    one.observe(60.0, LineProgress(660, 3758, 0.35, 2))
    assert (one.done, one.total) == (660.0, 3758.0)


def test_a_total_that_is_only_in_the_header() -> None:
    one = StepTimes()
    one.observe(0.0, LineProgress(total=1000))
    for step in range(10, 101, 10):
        one.observe(2.0 * step, LineProgress(step))
    assert raw_s(one) == pytest.approx(1800.0)


def test_nothing_is_said_where_nothing_is_known() -> None:
    estimator = RemainingTime()
    assert estimator.left(StepTimes()) is None
    assert estimator.left(course((1.0, 1))) is None
    assert estimator.left(course(*even(1.0, 100), total=None)) is None


def test_past_its_total_nothing_is_left() -> None:
    assert raw_s(course(*even(1.0, 120), total=100)) == 0.0


def test_intervals_of_replayed_jobs_hold_and_estimates_are_close() -> None:
    draw, estimator = random.Random(4), RemainingTime()
    errors, held = [], []
    for number in range(260):
        for row in run(made(draw, []), estimator, draw):
            estimator.learn(row.share, row.raw_s, row.left, row.true_s)
            if number >= 60 and row.true_s > 0.0:
                held.append(row.left.low_s <= row.true_s <= row.left.high_s)
                if row.share == ASKED[0]:
                    errors.append(abs(row.left.middle_s / row.true_s - 1.0))
    assert sorted(errors)[len(errors) // 2] < 0.05
    assert 0.74 < sum(held) / len(held) < 0.86


def test_wrong_totals_move_the_interval() -> None:
    estimator = RemainingTime()
    one = course(*even(1.0, 100))
    for _ in range(60):  # jobs like it end at half of what they print
        estimator.learn(0.1, 900.0, estimator.left(one), 400.0)
    left = estimator.left(one)
    assert left is not None
    assert left.middle_s == pytest.approx(400.0)


def test_the_corpus_of_step_times_is_read(tmp_path: Path) -> None:
    from benchmarks.progress_remaining import ratios

    file = tmp_path / "steps.csv"
    file.write_text("job,step,step_s\nA,1,2.0\nA,2,4.0\nB,1,5.0\n")
    assert ratios(file) == [[2 / 3, 4 / 3], [1.0]]
    assert ratios(tmp_path / "none") == []
