"""The plain trace: columns, order, and a clear word on everything that is wrong."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.errors import InputError
from dally.traces import read_csv, read_trace

HEADER = "job_id,submit_s,gpus,duration_s"


def write(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "t.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_reads_both_spellings_and_the_optional_columns(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "model,job_id,submit_time,num_gpu,duration,user,priority,odd",
        "vgg16,a,5,2,10.5,ann,3,x",
        ",b,7,1.0,0,,,,, ",
    )
    first, second = read_csv(file, 8).jobs
    assert (first.job_id, first.submit_s, first.gpus, first.duration_s) == ("a", 5.0, 2, 10.5)
    assert (first.model, first.user, first.priority) == ("vgg16", "ann", 3.0)
    assert (second.model, second.user, second.priority, second.gpus) == ("", "", 0.0, 1)


def test_sorts_by_submission_and_keeps_the_file_order_of_equals(tmp_path: Path) -> None:
    file = write(tmp_path, HEADER, "late,9,1,1", "x,3,1,1", "first,0,1,1", "y,3,1,1")
    jobs = read_csv(file, 8).jobs
    assert [job.job_id for job in jobs] == ["first", "x", "y", "late"]
    assert [job.index for job in jobs] == [0, 1, 2, 3]


@pytest.mark.parametrize("ending", ["\r\n", "\n\n", "\n"])
def test_gzip_bom_and_line_ends(tmp_path: Path, ending: str) -> None:
    file = tmp_path / "t.csv.gz"
    file.write_bytes(gzip.compress(f"\ufeff{HEADER}{ending}a,0,1,2{ending}".encode()))
    assert read_csv(file, 1).jobs[0].duration_s == 2.0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["job_id,submit_s,gpus", "a,0,1"],
            "t.csv:1: duration_s, duration, compute_s or iterations: no such column; the header has job_id",
        ),
        ([HEADER, "a,zero,1,1"], "t.csv:2: submit_s: 'zero' is not a number"),
        ([HEADER, "a,0,1,1", "b,0,1,ten"], "t.csv:3: duration_s: 'ten' is not a number"),
        ([HEADER, "a,-1,1,1"], "t.csv:2: submit_s: '-1': must be a number, not negative"),
        ([HEADER, "a,0,1,nan"], "t.csv:2: duration_s: 'nan': must be a number, not negative"),
        ([HEADER, "a,0,1,inf"], "t.csv:2: duration_s: 'inf': must be a number, not negative"),
        ([HEADER, "a,0,1,"], "t.csv:2: duration_s: empty: must be a number, not negative"),
        ([HEADER, "a,1_0,1,1"], "t.csv:2: submit_s: '1_0': must be a number, not negative"),
        ([HEADER, "a,0,0,1"], "t.csv:2: gpus: '0': must be a whole number, at least 1"),
        ([HEADER, "a,0,1.5,1"], "t.csv:2: gpus: '1.5': must be a whole number, at least 1"),
        ([HEADER, "a,0,1,1", "a,1,1,1"], "t.csv:3: job_id: 'a' is already in line 2"),
        ([HEADER, ",0,1,1"], "t.csv:2: job_id: empty: every job needs a name"),
        ([HEADER, "a,0,1"], "t.csv:2: 3 fields where the header has 4"),
        ([HEADER, "a,b,0,1,1"], "t.csv:2: 5 fields where the header has 4; a text with a comma needs quotes"),
        ([f"{HEADER},gpus", "a,0,1,1,2"], "t.csv:1: gpus: appears twice in the header"),
        (
            [HEADER, "a,0,9,1"],
            "t.csv:2: gpus: job 'a' asks for 9 GPUs and the cluster has 8; --skip-impossible",
        ),
        ([HEADER], "t.csv: holds no jobs"),
        ([""], "t.csv: is empty; expected a csv with columns job_id, submit_s, gpus, duration_s"),
    ],
)
def test_names_line_field_and_value(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_trace(write(tmp_path, *lines), 8, format="csv", strict=True)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_that_cannot_be_used_are_counted_by_reason(tmp_path: Path) -> None:
    rows = ["a,0,0,5", "b,1,,5", "c,2,1,", "d,,1,5", "e,9,2,7"]
    trace = read_csv(write(tmp_path, HEADER, *rows), 8)
    assert [job.job_id for job in trace.jobs] == ["e"]
    assert trace.unused == {"without GPUs": 2, "without a duration": 1, "without a submit time": 1}
    with pytest.raises(InputError, match="holds no jobs; 2 rows without GPUs, 1 without a duration"):
        read_csv(write(tmp_path, HEADER, *rows[:-1]), 8)


def test_leaves_out_impossible_jobs_when_asked(tmp_path: Path) -> None:
    trace = read_csv(write(tmp_path, HEADER, "a,0,9,1", "b,0,8,1"), 8, skip_impossible=True)
    assert [job.job_id for job in trace.jobs] == ["b"]
    assert trace.skipped == 1


def test_truncated_gzip(tmp_path: Path) -> None:
    file = tmp_path / "t.csv.gz"
    whole = gzip.compress("\n".join([HEADER, *(f"j{i},{i},1,{i * 7919 % 1000}" for i in range(2000))]).encode())
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"t\.csv\.gz:\d+: broken gzip"):
        read_csv(file, 8)


@pytest.mark.parametrize("content", [b"\x1f\x8b\x08garbage", b"\xff\xfe\x00", b"job_id,\xff"])
def test_not_text(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"t\.csv"):
        read_csv(file, 8)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read_csv(path, 8)


@given(st.binary(max_size=200))
def test_never_anything_but_jobs_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.csv"
    file.write_bytes(HEADER.encode() + b"\n" + content)
    with contextlib.suppress(InputError):
        assert read_csv(file, 8).jobs


def test_every_shared_trace_loads(shared: Path) -> None:
    rows = {
        "helios_venus_window20d": 10796,
        "alibaba_lingjun2023": 2498,
        "ms_itp2021_cluster04": 15802,
        "philly_win14d": 18792,
    }
    for name, count in rows.items():
        assert len(read_csv(shared / "traces" / f"{name}.csv.gz", 10_000).jobs) == count
