"""Traces in DataFrames: the same jobs as in a csv, and errors that name column and row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.errors import InputError
from dally.traces import read_history
from dally.traces.readers.csv_trace import frame_csv, is_frame

GOOD: dict[str, list[Any]] = {"job_id": ["a", "b"], "submit_s": [0, 5], "gpus": [8, 4], "duration_s": [10.5, 20.0]}


def test_a_frame_is_told_without_its_library() -> None:
    assert is_frame(pl.DataFrame(GOOD))
    assert not is_frame(pl.LazyFrame(GOOD))
    assert not is_frame("jobs.csv")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"gpus": None}, "DataFrame: gpus or num_gpu: no such column; the header has job_id, submit_s, duration_s"),
        ({"duration_s": None}, "DataFrame: duration_s, duration, compute_s or iterations: no such column"),
        ({"gpus": ["8", "four"]}, "DataFrame:1: gpus: 'four' is not a number"),
        ({"gpus": [8, 2.5]}, "DataFrame:1: gpus: '2.5': must be a whole number, at least 1"),
        ({"gpus": [True, True]}, "DataFrame:0: gpus: 'True' is not a number"),
        ({"submit_s": [0, -5]}, "DataFrame:1: submit_s: '-5': must be a number, not negative"),
        ({"duration_s": [1.0, float("inf")]}, "DataFrame:1: duration_s: 'inf': must be a number"),
        ({"job_id": ["a", "a"]}, "DataFrame:1: job_id: 'a' is already in row 0"),
        ({"job_id": ["a", None]}, "DataFrame:1: job_id: empty: every job needs a name"),
        ({"job_id": ["a", "b\0"]}, "DataFrame:1: holds a NUL character"),
        ({"gpus": [None, None]}, "DataFrame: holds no jobs; 2 rows without GPUs"),
    ],
)
def test_errors_name_the_column_and_the_row(changes: dict[str, Any], problem: str) -> None:
    columns = {name: values for name, values in (GOOD | changes).items() if values is not None}
    with pytest.raises(InputError) as error:
        frame_csv(pl.DataFrame(columns, strict=False))
    assert str(error.value).startswith(problem)


def test_rows_that_cannot_be_used_are_errors_when_strict() -> None:
    frame = pl.DataFrame(GOOD | {"gpus": [8, None]})
    assert frame_csv(frame).splitlines()[2] == "b,5,,20.0"
    with pytest.raises(InputError, match="DataFrame:1: gpus: empty: must be a whole number, at least 1"):
        frame_csv(frame, strict=True)


def test_what_pandas_calls_missing_is_missing() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(GOOD | {"gpus": pandas.array([8, pandas.NA], "Int64"), "user": ["ana", float("nan")]})
    assert frame_csv(frame).splitlines() == ["job_id,submit_s,gpus,duration_s,user", "a,0,8,10.5,ana", "b,5,,20.0,"]
    frame.columns = ["job_id", "submit_s", "gpus", "gpus", "user"]
    with pytest.raises(InputError, match="DataFrame: gpus: stands for several columns"):
        frame_csv(frame)


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e12), st.integers(1, 1000), st.floats(0, 1e12), TEXT, st.none() | st.floats(0, 1e6)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_every_value_reads_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    columns = dict(
        zip(("submit_s", "gpus", "duration_s", "user", "wait_s"), map(list, zip(*rows, strict=True)), strict=True)
    )
    frame = pl.DataFrame({"job_id": [f"j{place}" for place in range(len(rows))], **columns}, strict=False)
    path: Path = tmp_path_factory.getbasetemp() / "frame.csv"
    path.write_text(frame_csv(frame), encoding="utf-8")
    found = {row.job_id: row for row in read_history(path, "csv").rows}
    for job_id, submit_s, gpus, duration_s, user, wait_s in frame.iter_rows():
        row = found[job_id]
        assert (row.submit_s, row.spec.gpus, row.stated, row.spec.user) == (
            submit_s,
            gpus,
            duration_s,
            user.strip(),
        )
        assert row.wait_s == (-1.0 if wait_s is None else wait_s)
