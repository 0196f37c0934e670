"""Every format: the documented example, what is made of its fields, how it is told from the others."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dally.errors import InputError
from dally.traces import companions, read_history, read_trace
from dally.traces.formats import FORMATS, find_format
from dally.traces.rows import NOT_KNOWN, TraceRow, counts_text
from tests.traces.documented import first_seed, put

# name: (id, submit, GPUs, duration, user, wait) of each job, then what could not be used, then what was assumed
BEFORE_FIVE = '"2017-10-07 04:59:59"'
Facts = tuple[str, float, int, float, str, float]
EXPECTED: dict[str, tuple[list[Facts], dict[str, int], dict[str, int]]] = {
    "csv": (
        [("a1", 0, 4, 3600, "ann", 0), ("a2", 60, 16, 7200, "ann", 12.5), ("b2", 3600, 8, 86400, "bob", 0)],
        {"without GPUs": 1},
        {},
    ),
    "paper": (
        [
            ("396689", 0, 4, 158.25, "", NOT_KNOWN),
            ("399455", 0, 16, 707.375, "", NOT_KNOWN),
            ("399469", 30, 2, 322.5, "", NOT_KNOWN),
            ("399470", 90, 1, 250, "", NOT_KNOWN),
        ],
        {},
        {},
    ),
    "tiresias": (
        [
            ("1", 0, 1, 1800, "", NOT_KNOWN),
            ("2", 120, 8, 7200, "", NOT_KNOWN),
            ("3", 300, 4, 90, "", NOT_KNOWN),
            ("4", 301, 2, 600, "", NOT_KNOWN),
        ],
        {},
        {},
    ),
    "swf": ([("1", 0, 8, 3600, "3", 5), ("2", 60, 1, 120, "4", 0)], {"without a duration": 1}, {}),
    "sacct": ([("12_1", 0, 8, 7200, "ann", 60), ("13", 3600, 16, 86400, "bob", 30)], {"without GPUs": 1}, {}),
    "philly": (
        [("application_1506638472019_14199", 0, 3, 48 * 60, "ce2f4c", 24)],
        {"without an end": 1},
        {},
    ),
    "helios": (
        [
            ("582026", 0, 1, 84, "u1", 1),
            ("582027", 671, 16, 14400, "u1", 2400),
            ("582029", 10271, 8, 86400, "u3", 0),
        ],
        {"without GPUs": 1},
        {},
    ),
    "acme": (
        [("1001", 0, 8, 117, "u5", 32), ("1002", 336, 64, 2693, "u5", 13)],
        {"without GPUs": 1, "that never started": 1},
        {},
    ),
    "pai": (
        [("job-a", 0, 1, 103, "", 0), ("job-b", 81, 4, 3600, "", 0), ("job-c", 681, 4, 4000, "", 0)],
        {"without an end": 1},
        {"asked for fractions of GPUs: rounded up": 1},
    ),
    "lingjun": (
        [("dlc1", 0, 16, 3780, "ns1", 60), ("dlc2", 660, 4, 30, "ns1", 60), ("dlc3", 6060, 1, 86400, "ns2", 0)],
        {"without GPUs": 1},
        {"lasted 0 minutes: 30 s assumed": 1},
    ),
    "kubernetes": (
        [("vision/train", 0, 16, 7200, "ann", 1800), ("nlp/tune", 3600, 4, 1200, "nlp", 0)],
        {"without GPUs": 1},
        {"had no Kueue workload: waiting of their pods counts as running": 1},
    ),
    "openb": (
        [("pod-0", 0, 1, 3600, "", 0), ("pod-1", 60, 1, 570, "", 30), ("pod-2", 120, 8, 7200, "", 0)],
        {"without GPUs": 1, "that never started": 1},
        {"asked for a part of a GPU (0.5 GPUs together): each gets whole ones": 1},
    ),
}  # fmt: skip


def facts(row: TraceRow) -> Facts:
    return (row.job_id, row.submit_s, row.spec.gpus, row.stated, row.spec.user, row.wait_s)


def test_every_format_has_an_example() -> None:
    assert EXPECTED.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_the_documented_example_is_read(name: str, tmp_path: Path) -> None:
    seed = first_seed(name)
    path = put(seed, tmp_path)
    assert all(4 <= len(content.splitlines()) <= 6 for content in seed.files.values())
    history = read_history(path)
    rows, unused, notes = EXPECTED[name]
    assert history.format == name
    assert [facts(row) for row in history.rows] == rows
    assert history.unused == unused
    assert history.notes == notes
    trace = read_trace(path, 1000)
    stated = trace.stated or [job.duration_s for job in trace.jobs]
    read = [(job.job_id, job.submit_s, job.gpus) for job in trace.jobs]
    assert [(*job, length) for job, length in zip(read, stated, strict=True)] == [row[:4] for row in rows]
    assert [job.user for job in trace.jobs] == [row[4] for row in rows]
    types = {"ran on GPUs of one type (1 on MISC, 1 on T4, 1 on V100): HERE THEY MAY RUN ON ANY": 3}
    assert (trace.unused, trace.notes, trace.format) == (unused, notes | types if name == "pai" else notes, name)


@pytest.mark.parametrize("name", [name for name in FORMATS if EXPECTED[name][1]])
def test_strict_refuses_the_first_row_that_cannot_be_used(name: str, tmp_path: Path) -> None:
    path = put(first_seed(name), tmp_path)
    with pytest.raises(InputError, match=rf"^{path}:\d+: "):
        read_history(path, strict=True)


@pytest.mark.parametrize("name", FORMATS)
def test_told_by_content_whatever_the_name_the_packing_and_the_line_ends(name: str, tmp_path: Path) -> None:
    seed = first_seed(name)
    path = put(seed, tmp_path)
    content = path.read_bytes()
    for damage in (b"\xef\xbb\xbf" + content, content.replace(b"\n", b"\r\n"), gzip.compress(content)):
        path.write_bytes(damage)
        assert find_format(path) == name
        assert [facts(row) for row in read_history(path).rows] == EXPECTED[name][0]


def test_models_names_and_places_are_kept(tmp_path: Path) -> None:
    def read(name: str) -> list[TraceRow]:
        return read_history(put(first_seed(name), tmp_path)).rows

    assert [row.spec.model for row in read("lingjun")] == ["llama2-7b", "gpt-13b", ""]
    assert [row.spec.model for row in read("tiresias")] == ["resnet50", "vgg16", "alexnet", "vgg16"]
    assert [(row.spec.name, row.status, row.spec.gpu_type, row.machines) for row in read("sacct")] == [
        ("train", "COMPLETED", "", 1), ("big", "CANCELLED", "a100", 2),
    ]  # fmt: skip
    assert [(row.status, row.machines, row.placement) for row in read("philly")] == [("Pass", 2, "2+1")]
    assert [(row.spec.name, row.status) for row in read("swf")] == [("7", "completed"), ("9", "failed")]
    assert [(row.status, row.spec.gpu_type) for row in read("pai")] == [
        ("Terminated", "MISC"), ("Terminated", "V100"), ("Failed", "T4"),
    ]  # fmt: skip


def test_lengths_that_are_not_durations(tmp_path: Path) -> None:
    assert read_trace(put(first_seed("paper"), tmp_path), 99).length == "compute_s"
    assert read_trace(put(first_seed("tiresias"), tmp_path), 99).length == "duration_s"


def test_what_no_format_begins_with_is_refused_with_the_names_of_all(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("once upon a time\n")
    with pytest.raises(InputError, match=r"x:1: begins with 'once upon a time', .*philly, swf, .*csv"):
        read_history(path)
    path.write_text("JobID;Submitted;GPUs;Minutes\n")
    with pytest.raises(InputError, match="a csv of your own has columns job_id, submit_s, gpus, duration_s, with"):
        read_history(path)
    with pytest.raises(InputError, match="unknown trace format 'slurm'"):
        read_history(path, "slurm")
    path.write_text("")
    with pytest.raises(InputError, match="is empty; expected a csv"):
        read_history(path)


def test_zones_move_dates_and_the_hour_that_comes_twice_is_not_backwards(tmp_path: Path) -> None:
    path = tmp_path / "h.csv"
    head = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    row = "a,u,v,1,1,1,COMPLETED,2023-10-29 01:30:00,2023-10-29 02:45:00,2023-10-29 02:15:00,1800,0\n"
    path.write_text(head + row)
    here = read_history(path, zone="Europe/Berlin")
    assert here.rows[0].stated == 1800  # 02:45 summer time to 02:15 winter time
    assert here.epoch_s == 1698535800  # 2023-10-28 23:30 UTC
    with pytest.raises(InputError, match="holds no jobs; 1 row with end before start"):
        read_history(path, zone="UTC")


@pytest.mark.parametrize("zone", ["Nowhere/Town", "", "../etc/passwd", "America", "x" * 300, "\0"])
def test_unknown_zones(zone: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such time zone"):
        read_history(put(first_seed("helios"), tmp_path), zone=zone)


def test_a_job_table_beside_gives_users_and_submissions(tmp_path: Path) -> None:
    path = put(first_seed("pai"), tmp_path)
    table = tmp_path / "pai_job_table.csv"
    table.write_text("job-a,i1,ann,Terminated,494300.0,494422.0\njob-b,i2,bob,Terminated,494350.0,498000.0\n")
    rows = read_history(path).rows
    assert [facts(row) for row in rows][:2] == [("job-a", 0, 1, 103, "ann", 19), ("job-b", 50, 4, 3600, "bob", 50)]
    assert companions(path) == [table]
    table.write_text("job-a,i1\n")
    with pytest.raises(InputError, match=r"pai_job_table.csv:1: 2 fields where the job table has 6"):
        read_history(path)


def test_lingjun_needs_its_workers(tmp_path: Path) -> None:
    path = put(first_seed("lingjun"), tmp_path)
    assert companions(path) == [tmp_path / "worker.csv"]
    (tmp_path / "worker.csv").unlink()
    with pytest.raises(InputError, match=r"worker.csv: is not here; it says how many GPUs"):
        read_history(path)


def test_swf_parts_requests_and_what_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "t.swf"
    rest = "600 -1 1 3 1 7 1 1 -1 -1"
    path.write_text(
        f"1 0 5 100 -1 -1 -1 8 {rest}\n"  # allocated unknown: requested
        f"2 1 0 100 0 -1 -1 -1 {rest}\n"
        f"3 -1 0 100 1 -1 -1 1 {rest}\n"
        "1 0 5 50 8 -1 -1 8 600 -1 2 3 1 7 1 1 -1 -1\n"
        "1 60 5 50 8 -1 -1 8 600 -1 3 3 1 7 1 1 -1 -1\n"
    )
    history = read_history(path)
    assert [facts(row) for row in history.rows] == [("1", 0, 8, 100, "3", 5)]
    assert history.unused == {"without GPUs": 1, "without a submit time": 1, "that are parts of a job": 2}
    for line, message in {
        f"1 x 5 100 8 -1 -1 8 {rest}": "submit time: 'x': must be a number, or -1",
        f"1 0 nan 100 8 -1 -1 8 {rest}": "wait time: 'nan': must be a number, or -1",
        f"1 0 5 100 1.5 -1 -1 8 {rest}": "allocated processors: '1.5': must be a whole number",
        f"1 0 5 -7 8 -1 -1 8 {rest}": "run time: '-7': must be a number, or -1",
        "1 0 5": "3 fields where SWF has 18",
    }.items():
        path.write_text(f"; comment\n{line}\n")
        with pytest.raises(InputError) as caught:
            read_history(path)
        assert f"t.swf:2: {message}" in str(caught.value)


def test_philly_attempts_are_added_up_and_nulls_endured(tmp_path: Path) -> None:
    path = tmp_path / "log"
    run = '{"start_time": "2017-10-07 0%d:00:00", "end_time": %s, "detail": [{"ip": "m", "gpus": ["g0", "g1"]}]}'
    attempts = ", ".join(
        [run % (1, '"2017-10-07 02:00:00"'), run % (4, '"2017-10-07 04:30:00"'), run % (6, "null")]
    )
    entry = '{"jobid": "%s", "submitted_time": %s, "attempts": %s, "vc": "v", "user": null}'
    date = '"2017-10-07 00:59:00"'
    entries = [
        entry % ("a", date, f"[{attempts}]"),
        entry % ("b", "null", "[]"),
        entry % ("c", date, "null"),
        '{"jobid": "d", "submitted_time": "None"}',
        entry % ("e", date, f"[{run % (5, BEFORE_FIVE)}]"),
    ]
    path.write_text(f"[{','.join(entries)}]")
    history = read_history(path)
    assert [facts(row) for row in history.rows] == [("a", 0, 2, 5400, "v", 60)]
    assert history.unused == {
        "without a submit time": 2, "that never started": 1, "with end before start": 1,
    }  # fmt: skip
    assert history.notes == {"had several attempts: their running times are added up": 1}


def test_counts_as_a_sentence() -> None:
    assert (
        counts_text({"without GPUs": 12, "with end before start": 3})
        == "12 rows without GPUs, 3 with end before start"
    )
    assert counts_text({"without GPUs": 1}) == "1 row without GPUs"
    assert counts_text({}) == ""
