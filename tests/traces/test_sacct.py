"""Slurm's accounting: arrays, requeues, steps, typed GRES, odd states and times."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.errors import InputError
from dally.traces import History, read_history, read_trace

HEADER = "JobID|User|JobName|Submit|Start|End|State|AllocTRES|ReqTRES|NNodes|NodeList|Elapsed"
DAY = "2023-05-01T"
BOTH = "gres/gpu:a100=8,gres/gpu:h100=8"


def line(job: str, times: tuple[str, str, str], state: str, tres: str, elapsed: str, nodes: str = "1") -> str:
    submit, start, end = (f"{DAY}{time}" if time[:1].isdigit() else time for time in times)
    return f"{job}|ann|train|{submit}|{start}|{end}|{state}|{tres}||{nodes}|n1|{elapsed}"


ACCOUNTING = [
    line("7_1", ("10:00:00", "10:00:10", "11:00:10"), "COMPLETED", "cpu=8,gres/gpu=4,mem=9G", "01:00:00"),
    line("7_1.batch", ("10:00:10", "10:00:10", "11:00:10"), "COMPLETED", "cpu=8,gres/gpu=4", "01:00:00"),
    line("7_1.0", ("10:00:10", "10:00:10", "11:00:10"), "COMPLETED", "cpu=8,gres/gpu=4", "01:00:00"),
    line("7_2", ("10:00:00", "10:30:00", "10:45:00"), "FAILED", "gres/gpu:a100=4,gres/gpu=4", "00:15:00"),
    line("7_[3-9%2]", ("10:00:00", "Unknown", "Unknown"), "PENDING", "gres/gpu=4", "00:00:00"),
    # Failed, requeued, preempted, and done at the third try.
    line("8", ("10:05:00", "10:06:00", "10:16:00"), "NODE_FAIL", BOTH, "00:10:00", "2"),
    line("8.extern", ("10:06:00", "10:06:00", "10:16:00"), "CANCELLED", "gres/gpu:a100=8", "00:10:00"),
    line("8", ("10:16:00", "10:20:00", "10:40:00"), "PREEMPTED", BOTH, "00:20:00", "2"),
    line("8", ("10:40:00", "11:00:00", "12:00:00"), "COMPLETED", BOTH, "01:00:00", "2"),
    line("9", ("10:07:00", "10:08:00", "10:18:00"), "CANCELLED by 1000", "gres/gpu=1", "00:07:30"),  # was suspended
    line("10", ("10:07:00", "None", "10:09:00"), "CANCELLED by 0", "gres/gpu=1", "00:00:00"),
    line("11", ("10:07:00", "10:08:00", "Unknown"), "RUNNING", "gres/gpu=1", "5-00:00:00"),
    line("12", ("10:07:00", "10:08:00", "10:09:00"), "COMPLETED", "gres/gpumem=80G,gres/gpuutil=3", "00:01:00"),
    line("13+0", ("10:08:00", "10:08:00", "10:09:00"), "COMPLETED", "gres/gpu=2", "00:01:00"),
    line("13+1", ("10:08:00", "10:08:00", "10:09:00"), "COMPLETED", "gres/gpu=1", "00:01:00"),
]  # fmt: skip


def read(folder: Path, *lines: str, header: str = HEADER, strict: bool = False) -> History:
    path = folder / "accounting.txt"
    path.write_text("\n".join([header, *lines]) + "\n")
    return read_history(path, strict=strict)


def test_arrays_requeues_steps_and_typed_gres(tmp_path: Path) -> None:
    history = read(tmp_path, *ACCOUNTING)
    assert history.format == "sacct"
    assert [
        (r.job_id, r.submit_s, r.spec.gpus, r.stated, r.wait_s, r.status, r.spec.gpu_type) for r in history.rows
    ] == [
        ("7_1", 0, 4, 3600, 10, "COMPLETED", ""),
        ("7_2", 0, 4, 900, 1800, "FAILED", "a100"),
        ("8", 300, 16, 600 + 1200 + 3600, 60, "COMPLETED", "a100+h100"),
        ("9", 420, 1, 450, 60, "CANCELLED", ""),
        ("13+0", 480, 2, 60, 0, "COMPLETED", ""),
        ("13+1", 480, 1, 60, 0, "COMPLETED", ""),
    ]
    assert history.unused == {"that never started": 2, "without an end": 1, "without GPUs": 1}
    assert history.notes == {"were requeued: their running times are added up": 1}
    assert [row.runs for row in history.rows] == [1, 1, 3, 1, 1, 1]
    assert {row.spec.name for row in history.rows} == {"train"}


def test_jobs_carry_names_and_users(tmp_path: Path) -> None:
    read(tmp_path, *ACCOUNTING)
    jobs = read_trace(tmp_path / "accounting.txt", 16).jobs
    assert {(job.user, job.name) for job in jobs} == {("ann", "train")}
    with pytest.raises(InputError, match=r"txt:7: gpus: job '8' asks for 16 GPUs and the cluster has 8"):
        read_trace(tmp_path / "accounting.txt", 8)


def test_months_exported_with_an_overlap_count_once(tmp_path: Path) -> None:
    history = read(tmp_path, ACCOUNTING[0], ACCOUNTING[0])
    assert [row.stated for row in history.rows] == [3600]
    assert history.notes == {"are in the file twice: counted once": 1}


def test_requested_gpus_epoch_times_and_trailing_bars(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|End|AllocTRES|ReqTRES|"
    history = read(tmp_path, "5|1682935200|1682935260|1682935320||billing=4,gres/gpu=4|", header=header)
    assert [(r.spec.gpus, r.stated, r.wait_s) for r in history.rows] == [(4, 60, 60)]
    assert history.epoch_s == 1682935200


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["8|ann"], "accounting.txt:2: 2 fields where the header has 12"),
        (
            [ACCOUNTING[0].replace("01:00:00", "an hour")],
            "accounting.txt:2: Elapsed: 'an hour': must be [days-]hours",
        ),
        ([ACCOUNTING[0].replace("01:00:00", "9" * 400 + "-01:00:00")], "accounting.txt:2: Elapsed: '999999"),
        ([ACCOUNTING[0].replace("gpu=4", "gpu=four")], "accounting.txt:2: AllocTRES: 'four' is not a number"),
        (
            [ACCOUNTING[0].replace("10:00:00", "25:00:00")],
            "accounting.txt:2: Submit: '2023-05-01T25:00:00' is not a",
        ),
        ([ACCOUNTING[0].replace("7_1", "")], "accounting.txt:2: JobID: empty"),
    ],
)
def test_what_is_damaged_is_refused(lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, *lines)
    assert message in str(caught.value)


def test_a_header_without_gpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="AllocTRES: no such column"):
        read(tmp_path, header="JobID|Submit|Start|End")
    with pytest.raises(InputError, match="End: no such column; the header has JobID, Submit, Start"):
        read(tmp_path, header="JobID|Submit|Start")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (4, "accounting.txt:2: Start: 'Unknown': a row that never started"),
        (11, "accounting.txt:2: End: 'Unknown': a row without an end"),
        (12, "accounting.txt:2: AllocTRES: 'gres/gpumem=80G,gres/gpuutil=3': a row without GPUs"),
    ],
)
def test_strict_names_line_field_and_value(place: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, ACCOUNTING[place], strict=True)
    assert message in str(caught.value)


def test_bars_in_names(tmp_path: Path) -> None:
    row = ACCOUNTING[0].replace("|train|", "|sweep lr=1|2|3|")
    assert [one.spec.name for one in read(tmp_path, row, ACCOUNTING[3]).rows] == ["sweep lr=1|2|3", "train"]
    header, fields = (
        "JobID|Submit|Start|End|AllocTRES|Comment",
        "5|1682935200|1682935260|1682935320|gres/gpu=4|a|b|c",
    )
    assert [one.spec.gpus for one in read(tmp_path, fields, header=header).rows] == [4]
    with pytest.raises(InputError, match=r"txt:2: 13 fields where the header has 12"):
        read(tmp_path, ACCOUNTING[0] + "|")
    with pytest.raises(InputError, match=r"txt:2: 8 fields where the header has 6"):
        read(tmp_path, fields, header=header.replace("Comment", "Account"))


def test_no_header(tmp_path: Path) -> None:
    path = tmp_path / "accounting.txt"
    rows = [line.replace("||", "|") for line in ACCOUNTING]  # without ReqTRES, as the docs have it
    path.write_text("\n".join([rows[0].replace("|train|", "|a|b|"), *rows[1:]]) + "\n")
    history = read_history(path)
    assert history.format == "sacct"
    assert [(row.job_id, row.spec.user, row.spec.gpus, row.spec.name) for row in history.rows[:2]] == [
        ("7_1", "ann", 4, "a|b"), ("7_2", "ann", 4, "train")
    ]  # fmt: skip
    path.write_text("5|1682935200|1682935260|1682935320|gres/gpu=4\n")
    with pytest.raises(InputError, match=r"txt:1: JobID: the file has no header; sacct without -n prints it"):
        read_history(path, "sacct")


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [("01:30:00", 5400.0), ("2-00:00:00", 172800.0), ("UNLIMITED", None), ("Partition_Limit", None), ("", None)],
)
def test_what_was_asked_for(limit: str, seconds: float | None, tmp_path: Path) -> None:
    """Limit, account, partition, QOS and the machines it ran on; jobs of a simulation know the first four."""
    path = tmp_path / "sacct.txt"
    job = f"1|{DAY}10:00:00|{DAY}10:00:10|{DAY}10:05:00|gres/gpu=16|{limit}|nlp|long|high|n[01-02]"
    header = "JobID|Submit|Start|End|AllocTRES|Timelimit|Account|Partition|QOS|NodeList"
    path.write_text(f"{header}\n{job}\n")
    (row,) = read_history(path).rows
    assert (row.spec.limit_s, row.spec.account, row.spec.partition, row.spec.qos, row.nodes) == (
        seconds,
        "nlp",
        "long",
        "high",
        "n[01-02]",
    )
    (found,) = read_trace(path, 16).jobs
    assert (found.limit_s, found.account, found.partition, found.qos) == (seconds or -1.0, "nlp", "long", "high")


def test_a_limit_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    job = f"1|{DAY}10:00:00|{DAY}10:00:10|{DAY}10:05:00|gres/gpu=16|soon"
    path.write_text(f"JobID|Submit|Start|End|AllocTRES|Timelimit\n{job}\n")
    with pytest.raises(InputError, match=r"sacct\.txt:2: Timelimit: 'soon': must be"):
        read_history(path)


def test_types_of_gpus_are_not_told_apart_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    times = f"{DAY}10:00:00|{DAY}10:00:10|{DAY}10:05:00"
    kinds = ["a100", "a100", "v100"]
    lines = [f"{number}|{times}|gres/gpu:{kind}=8" for number, kind in enumerate(kinds, 1)]
    path.write_text("\n".join(["JobID|Submit|Start|End|AllocTRES", *lines]))
    expected = "ran on GPUs of one type (2 on a100, 1 on v100): HERE THEY MAY RUN ON ANY"
    assert read_trace(path, 8).notes == {expected: 3}
    path.write_text("\n".join(["JobID|Submit|Start|End|AllocTRES", *lines[:2]]))
    assert read_trace(path, 8).notes == {}
