"""Damaged traces of every format: one clear line that says where, never a traceback, never a hang."""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.fuzz import check, check_use, huge_cases, mutated, one_case, seeds
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.errors import InputError
from dally.traces import read_history
from dally.traces.formats import FORMATS
from dally.traces.rows import counts_text
from tests.traces.documented import first_seed, put


def refused(path: Path, name: str) -> str:
    """The message with which the file is refused, the folder cut off."""
    with pytest.raises(InputError) as caught:
        read_history(path, name)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path.parent}/")
    return message.removeprefix(f"{path.parent}/")


@pytest.mark.parametrize("name", FORMATS)
def test_truncated_gzip(name: str, tmp_path: Path) -> None:
    path = put(first_seed(name), tmp_path)
    whole = gzip.compress(path.read_bytes() * 50)
    path.write_bytes(whole[: len(whole) // 2])
    assert f"{path.name}:" in (message := refused(path, name))
    assert "broken gzip: compressed file ended" in message


@pytest.mark.parametrize("name", FORMATS)
def test_nul_bytes_and_bytes_that_are_no_text(name: str, tmp_path: Path) -> None:
    path = put(first_seed(name), tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"x\0y", *lines[2:]]))
    assert "3: holds a NUL byte" in refused(path, name)
    path.write_bytes(b"".join([*lines[:3], b"x\xffy", *lines[3:]]))
    assert "4: is not text in UTF-8: byte 0xff" in refused(path, name)


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("sacct", "pai", "kubernetes")])
def test_ids_that_stand_twice(name: str, tmp_path: Path) -> None:
    path = put(first_seed(name), tmp_path)
    text = path.read_text()
    if name == "philly":
        path.write_text(text.replace("14200", "14199").replace("null", '"2017-10-07 03:00:00"'))
        assert ":3: job_id: 'application_1506638472019_14199' is already in line 1" in refused(path, name)
    else:
        lines = text.splitlines(keepends=True)
        first = 3 if name == "swf" else 2
        path.write_text("".join([*lines, lines[first - 1]]))
        assert f"is already in line {first}" in refused(path, name)


def unused_rows(path: Path) -> str:
    """What of the file could not be used, in words; also if that was all of it."""
    try:
        return counts_text(read_history(path).unused)
    except InputError as error:
        return str(error).partition("holds no jobs; ")[2]


@pytest.mark.parametrize("times", ["null", "Unknown", ""])
@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("helios", "2020-04-01 00:08:50"),
        ("acme", "2023-03-01 00:18:54+08:00"),
        ("sacct", "2023-05-01T11:00:30"),
        ("philly", "2017-10-07 01:12:00"),
        ("lingjun", "2023/7/15 02:20"),
        ("kubernetes", '"startTime": "2024-05-01T11:00:00Z"'),
    ],
)
def test_times_that_are_not_known_are_counted(name: str, start: str, times: str, tmp_path: Path) -> None:
    path = put(first_seed(name), tmp_path)
    text = path.read_text()
    assert start in text
    path.write_text(text.replace(start, f'"startTime": "{times}"' if start[0] == '"' else times))
    assert "that never started" in unused_rows(path)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("helios", "2020-04-01 05:00:00", "2020-04-01 00:30:00"),
        ("acme", "2023-03-01 01:09:04+08:00", "2023-03-01 01:09:04+09:00"),
        ("sacct", "2023-05-01T12:01:00|COMPLETED|cpu=64,gres/gpu=8,node=1", "2023-05-01T09:00:00|F|gres/gpu=8"),
        ("philly", "2017-10-07 02:00:00", "2017-10-06 02:00:00"),
        ("lingjun", "2023/7/15 03:23", "2023/7/15 02:19"),
        ("kubernetes", "2024-05-01T11:20:00Z", "2024-05-01T10:20:00Z"),
        ("openb", "7320,120", "7320,9999"),
        ("pai", "498000.0,600.0,29.3,100.0", "400000.0,600.0,29.3,100.0"),
    ],
)
def test_end_before_start_is_counted_or_refused(name: str, old: str, new: str, tmp_path: Path) -> None:
    path = put(first_seed(name), tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert "with end before start" in unused_rows(path)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("csv", "a1,ann,0,4", "a1,ann,0,0.5", "plain.csv:2: gpus: '0.5': must be a whole number"),
        ("helios", "u1,vc1,1,6", "u1,vc1,0.25,6", "cluster_log.csv:2: gpu_num: '0.25': must be a whole number"),
        ("sacct", "gpu=8,node", "gpu=1.5,node", "accounting.txt:2: AllocTRES: '1.5': must be a whole number"),
        ("lingjun", '""8""', '""0.5""', "worker.csv:2: RES: '0.5': must be a whole number"),
        ("swf", "3600 8 ", "3600 0.5 ", "cluster.swf:3: allocated processors: '0.5': must be a whole number"),
        ("pai", ",100.0,V100", ",many,V100", "pai_task_table.csv:2: plan_gpu: 'many' is not a number"),
        ("openb", "1,460,", "0.5,460,", "openb_pods.csv:3: num_gpu: '0.5': must be a whole number"),
        ("openb", "1,460,", "1,half,", "openb_pods.csv:3: gpu_milli: 'half' is not a number"),
        ("kubernetes", '"8"', '"500m"', "cluster_jobs.json:2: nvidia.com/gpu: '500m' is not a number"),
        ("kubernetes", '"8"', "1.5", "cluster_jobs.json:2: nvidia.com/gpu: '1.5': must be a whole number"),
        ("kubernetes", ": 2,", ": true,", "cluster_jobs.json:2: parallelism: True: must be a whole number"),
        ("kubernetes", "2024-05-01T10:30:02Z", "soon", "cluster_jobs.json:2: startTime: 'soon' is not a date"),
        ("kubernetes", '"kind": "Workload", ', '"kind": "", ', "cluster_jobs.json:3: kind: missing"),
        ("kubernetes", '"name": "tune", ', "", "cluster_jobs.json:4: metadata.name: missing"),
        ("kubernetes", "[{}]", "[7]", "cluster_jobs.json:5: containers: [7]: must be a list of objects"),
        ("helios", "2020-04-01 00:20:00", "yesterday", "cluster_log.csv:3: submit_time: 'yesterday' is not a date"),
        ("lingjun", '"{""nvidia.com/gpu"": ""4""}"', "{4", "worker.csv:4: RES: '{4': must be a JSON object"),
    ],
)
def test_fractions_and_nonsense_name_line_field_and_value(
    name: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    path = put(first_seed(name), tmp_path)
    for file in first_seed(name).files:
        text = (tmp_path / file).read_text()
        (tmp_path / file).write_text(text.replace(old, new, 1))
    assert message in refused(path, name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "log:1: the JSON ends in the middle"),
        ("[\n{", "log:2: broken JSON"),
        ('[\n{"jobid": "a"}', "log:2: the JSON ends in the middle"),
        ('[\n{"jobid": "a"},\n', "log:3: the JSON ends in the middle"),
        ('[\n{"jobid": "a"}\n{}]', "log:3: '{': expected a comma or ]"),
        ('[{"jobid": "a"}]\nx', "log:2: 'x': nothing may follow the list"),
        ("[1]", "log:1: 1: must be an object with jobid"),
        ("{}", "log:1: must begin with ["),
        ('[{"jobid": 7}]', "log:1: jobid: 7: must be text"),
        ('[{"jobid": ""}]', "log:1: jobid: empty"),
        ('[{"jobid": "\\ud800"}]', "log:1: jobid: '\\ud800': must be text"),
        ('[{"jobid": "a", "attempts": [1]}]', "log:1: attempts: [1]: must be a list of objects"),
        ('[{"jobid": "a", "attempts": [{"detail": [{"gpus": 3}]}]}]', "log:1: gpus: 3: must be a list of names"),
        ("[" * 100_000, "log:1: broken JSON"),
        ("[" + "9" * 10_000 + "]", "log:1: broken JSON"),
        ("[]", "log: holds no jobs"),
    ],
)
def test_broken_json(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    assert refused(path, "philly").startswith(message)


def test_json_cut_anywhere_is_refused_with_its_line(tmp_path: Path) -> None:
    path = put(first_seed("philly"), tmp_path)
    whole = path.read_text().rstrip()
    for end in range(1, len(whole)):
        path.write_text(whole[:end])
        assert refused(path, "philly").startswith(f"{path.name}:{whole[:end].count(chr(10)) + 1}: ")


@pytest.mark.parametrize("name", FORMATS)
def test_lines_of_ten_megabytes(name: str, tmp_path: Path) -> None:
    path = put(first_seed(name), tmp_path)
    began = time.process_time()
    for place, content in enumerate(huge_cases(name, first_seed(name))):
        if place in (1, 6, 10, 15):  # the rest is for benchmarks.fuzz
            path.write_bytes(content)
            check(path, name, False, "UTC")
    assert time.process_time() - began < 60.0


@pytest.mark.parametrize("name", FORMATS)
def test_damage_of_any_kind(name: str, tmp_path: Path) -> None:
    mine = [seed for seed in seeds() if seed.format == name]

    @settings(max_examples=150)
    @given(st.integers(0, 2**64), st.sampled_from(mine))
    def run(number: int, seed: object) -> None:
        one_case(random.Random(number), next(each for each in mine if each == seed), tmp_path)

    run()


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_of_any_kind(name: str, tmp_path: Path) -> None:
    seed = first_seed(name)

    @settings(max_examples=100)
    @given(st.binary(max_size=300), st.booleans())
    def run(content: bytes, after: bool) -> None:
        path = put(seed, tmp_path)
        path.write_bytes(path.read_bytes() + content if after else content)
        history = check(path, name, False, "UTC")
        if history is not None:
            check_use(history, tmp_path)

    run()


def test_the_fuzz_notices_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("gpus")

    fault: Callable[..., None] = broken
    monkeypatch.setattr("benchmarks.fuzz.read_history", fault)
    with pytest.raises(KeyError):
        one_case(random.Random(1), first_seed("csv"), tmp_path)
    assert mutated(random.Random(1), b"a,b\n") != b"a,b\n"
