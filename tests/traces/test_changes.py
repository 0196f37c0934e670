"""Windows, loads and filters, worked out by hand."""

from __future__ import annotations

import pytest

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.traces import History
from dally.traces.changes import JobFilter, filtered, load_of, scaled, window
from dally.traces.rows import NOT_KNOWN, TraceRow
from dally.traces.times import span_s


def history(*rows: TraceRow, epoch_s: float | None = None, length: str = "duration_s") -> History:
    return History(list(rows), length, "csv", {}, {}, epoch_s)


# Submitted, started and ended: a 0, 0, 100; b 10, 10, 300; c 20, 250, 350; d 200, 200, 260; e 400, 400, 500.
JOBS = history(
    TraceRow(2, "a", 0.0, JobSpec(1, user="ann"), 100.0, "Pass", 0.0),
    TraceRow(3, "b", 10.0, JobSpec(2, user="bob", account="acc", queue="team"), 290.0, "KILLED"),
    TraceRow(4, "c", 20.0, JobSpec(4, model="vgg16", user="ann"), 100.0, wait_s=230.0),
    TraceRow(5, "d", 200.0, JobSpec(8, gpu_type="V100", account="acc"), 60.0, wait_s=0.0),
    TraceRow(6, "e", 400.0, JobSpec(16), 100.0, wait_s=0.0),
    epoch_s=1000.0,
)


def facts(found: History) -> list[tuple[str, float, float, float]]:
    return [(row.job_id, row.submit_s, row.stated, row.wait_s) for row in found.rows]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0.0, 30.0, 0.0), [("a", 0, 100, 0), ("b", 10, 290, NOT_KNOWN), ("c", 20, 100, 230)]),
        # At 150 b runs on for 150, c waits another 100, a is over.
        ((150.0, 400.0, 0.0), [("b", 0, 150, 0), ("c", 0, 100, 100), ("d", 50, 60, 0)]),
        # The warm-up begins at 50: a has 50 left.
        (
            (150.0, 401.0, 100.0),
            [("a", 0, 50, 0), ("b", 0, 250, 0), ("c", 0, 100, 200), ("d", 150, 60, 0), ("e", 350, 100, 0)],
        ),
        # More warm-up than there is.
        ((10.0, 20.0, 1e9), [("a", 0, 100, 0), ("b", 10, 290, NOT_KNOWN)]),
        # d ends where the window begins; c has 90 left of the 100 it runs from 250.
        ((260.0, 261.0, 0.0), [("b", 0, 40, 0), ("c", 0, 90, 0)]),
    ],
)
def test_a_window(times: tuple[float, float, float], expected: list[tuple[str, float, float, float]]) -> None:
    assert facts(window(JOBS, *times)) == expected


def test_a_window_moves_the_date_of_second_0() -> None:
    assert window(JOBS, 150.0, 400.0, 100.0).epoch_s == 1050.0


def test_a_window_must_end_after_it_begins() -> None:
    with pytest.raises(InputError, match="--from 5 --to 5: the window must end after it begins"):
        window(JOBS, 5.0, 5.0)


def test_load_and_its_change() -> None:
    # 100 + 580 + 400 + 480 + 1600 GPU-seconds in 400 s on 10 GPUs.
    assert load_of(JOBS, 10) == 3160 / 4000
    twice = scaled(JOBS, 1.58, 10)
    assert [row.submit_s for row in twice.rows] == [0, 5, 10, 100, 200]
    assert [row.stated for row in twice.rows] == [row.stated for row in JOBS.rows]
    assert load_of(twice, 10) == pytest.approx(1.58)
    assert {row.wait_s for row in twice.rows} == {NOT_KNOWN}


def test_loads_that_cannot_be() -> None:
    with pytest.raises(InputError, match="arrive at once"):
        scaled(history(*JOBS.rows[:1]), 0.9, 8)
    for load in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"--load .*: must be more than 0"):
            scaled(JOBS, load, 8)
    with pytest.raises(InputError, match="states iterations"):
        scaled(history(*JOBS.rows, length="iterations"), 0.9, 8)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (JobFilter(), "abcde"),
        (JobFilter(min_gpus=2, max_gpus=8), "bcd"),
        (JobFilter(min_duration_s=100.0, max_duration_s=200.0), "ace"),
        (JobFilter(users=["ann", "eve"]), "ac"),
        (JobFilter(statuses=["pass", "killed"]), "ab"),
        (JobFilter(models=["vgg16"]), "c"),
        (JobFilter(gpu_types=["V100"], min_gpus=4), "d"),
        (JobFilter(accounts=["acc"]), "bd"),
        (JobFilter(accounts=["acc"], queues=["team"]), "b"),
        (JobFilter(users=["ann"], min_gpus=2), "c"),
    ],
)
def test_filters(wanted: JobFilter, expected: str) -> None:
    assert "".join(row.job_id for row in filtered(JOBS, wanted).rows) == expected


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5h", 5400), ("3d", 259200), ("2w", 1209600), ("15m", 900), ("7 s", 7)]
)
def test_spans(text: str, seconds: float) -> None:
    assert span_s("--from", text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "3x", "d", "nan", "1e5", "9" * 400])
def test_spans_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match=r"--from .*: expected seconds, or a number with s, m, h, d or w"):
        span_s("--from", text)
