"""The trace-event file keeps the rules of its format, and says what the run says."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dally.report.perfetto import write_perfetto
from dally.runs.folder import FolderRecord

NEEDED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "i": {"name", "cat", "pid", "tid", "ts", "s"},
    "C": {"name", "pid", "tid", "ts", "args"},
    "M": {"name", "pid", "tid", "args"},
}


@pytest.fixture(scope="module")
def trace_file(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("perfetto") / "run.json.gz"
    count = write_perfetto(FolderRecord(run_folder), path)
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    assert len(found["traceEvents"]) == count
    return found


def test_every_event_has_what_its_phase_needs(trace_file: dict[str, Any]) -> None:
    seen = set()
    for event in trace_file["traceEvents"]:
        assert {"ph", *NEEDED[event["ph"]]} == set(event)
        numbers = [event[key] for key in ("pid", "tid", "ts", "dur") if key in event]
        assert all(type(number) is int and number >= 0 for number in numbers)
        assert isinstance(event["name"], str)
        assert event.get("s", "t") == "t"
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) and value >= 0 for value in event["args"].values())
        seen.add(event["ph"])
    assert seen == set(NEEDED)


def test_times_ascend_and_spans_of_a_track_do_not_overlap(trace_file: dict[str, Any]) -> None:
    timed = [event for event in trace_file["traceEvents"] if event["ph"] != "M"]
    assert all(one["ts"] <= other["ts"] for one, other in pairwise(timed))
    tracks: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in timed:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    for spans in tracks.values():
        assert all(one["ts"] + one["dur"] <= other["ts"] for one, other in pairwise(spans))
    named = {(event["pid"], event["tid"]) for event in trace_file["traceEvents"] if event["name"] == "thread_name"}
    assert set(tracks) <= named


def test_it_holds_every_gpu_second_and_every_wait(trace_file: dict[str, Any], run_folder: Path) -> None:
    run = FolderRecord(run_folder)
    spans = [event for event in trace_file["traceEvents"] if event["ph"] == "X"]
    held_s = sum(event["dur"] for event in spans if event["cat"] == "gang") / 1e6
    jobs = run.jobs
    assert held_s == pytest.approx((jobs["gpus"] * jobs["run_s"]).sum(), rel=1e-6)
    waited_s = sum(event["dur"] for event in spans if event["cat"] == "wait") / 1e6
    assert waited_s == pytest.approx(jobs["queue_s"].sum(), rel=1e-6)
    down = [event for event in spans if event["cat"] == "outage"]
    assert [(event["ts"], event["dur"]) for event in down] == [(90_000_000_000, 30_000_000_000)] * 8
    tracks = [event["args"]["name"] for event in trace_file["traceEvents"] if event["name"] == "thread_name"]
    assert sum(" GPU " in name for name in tracks) == 72
    assert len(tracks) == 72 + jobs.height
    counters = {event["name"] for event in trace_file["traceEvents"] if event["ph"] == "C"}
    assert {"jobs that wait", "GPUs held", "uplink of rack rack0, %"} <= counters
