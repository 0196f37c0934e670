"""Logs that grow, rotate, shrink and are no logs at all, read in slices."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dally.progress.line_progress import LineProgress
from dally.progress.log_reader import LogReader
from dally.progress.log_tail import SLICE_BYTES, LogTail


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text("")
    return path


def add(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def line(step: int) -> str:
    return f"step {step}/1000 loss=0.5\n"


def steps(rows: list[LineProgress]) -> list[int | None]:
    return [row.step for row in rows]


def test_only_what_is_new_is_read(log: Path) -> None:
    tail = LogTail(str(log))
    add(log, "Num Epochs = 3\n" + line(1))
    assert tail.look() == [LineProgress(epochs=3), LineProgress(1, 1000)]
    assert tail.look() == []
    add(log, line(2) + line(3) + "saved\n")
    assert steps(tail.look()) == [3]


def test_line_without_an_end_waits_for_it(log: Path) -> None:
    tail = LogTail(str(log))
    add(log, line(1) + "step 12")
    assert steps(tail.look()) == [1]
    add(log, "3/1000 loss=0.5")
    assert tail.look() == []
    add(log, "\n")
    assert steps(tail.look()) == [123]


def test_bars_that_overwrite_themselves(log: Path) -> None:
    tail = LogTail(str(log))
    add(log, " 1%|   | 1/100 [00:01<01:39,  1.00s/it]\r 2%|   | 2/100 [00:02<01:38,  1.00s/it]\r 3%|  | 3/1")
    assert steps(tail.look()) == [1, 2]
    add(log, "00 [00:03<01:37,  1.00s/it]\r")
    assert steps(tail.look()) == [3]


def test_of_a_log_that_grew_by_much_the_end_counts(log: Path) -> None:
    tail = LogTail(str(log))
    add(log, line(1))
    tail.look()
    add(log, "".join(line(step) for step in range(2, 900)) * 50)
    assert log.stat().st_size > 50 * SLICE_BYTES
    assert steps(tail.look()) == [899]
    assert tail.look() == []


def test_truncated_and_replaced_logs_are_read_from_their_beginning(log: Path) -> None:
    tail = LogTail(str(log))
    add(log, line(500) * 20)
    tail.look()
    log.write_text(line(1))
    assert steps(tail.look()) == [1]
    log.rename(log.with_name("log.1"))
    assert tail.look() == []
    log.write_text(line(2) * 3)
    assert steps(tail.look()) == [2, 2, 2]


def test_what_is_no_log_of_the_owner_is_not_read(log: Path, tmp_path: Path) -> None:
    add(log, line(1))
    (tmp_path / "link").symlink_to(log)
    os.mkfifo(tmp_path / "pipe")
    for path, owner in (
        (tmp_path / "link", None), (tmp_path / "pipe", None), (tmp_path, None), (Path("/dev/zero"), None),
        (log, os.getuid() + 1), (tmp_path / "none", None),
    ):  # fmt: skip
        assert LogTail(str(path), owner).look() == []
    assert steps(LogTail(str(log), os.getuid()).look()) == [1]


def test_log_that_holds_anything(log: Path) -> None:
    tail = LogTail(str(log))
    log.write_bytes(os.urandom(100_000) + b"\0" * 10_000 + b"\n" + line(7).encode())
    while tail._offset < log.stat().st_size:
        rows = tail.look()
    assert steps(rows)[-1] == 7


def test_reader_looks_at_each_log_in_its_turn_and_at_no_more_than_it_may(tmp_path: Path) -> None:
    now = [0.0]
    reader = LogReader(lambda: now[0], every_s=5.0, most_per_s=10.0)
    for number in range(40):
        path = tmp_path / f"{number}"
        path.write_text(line(number))
        reader.follow(str(number), str(path))
    seen: dict[str, int] = {}
    for _ in range(40):
        now[0] += 0.125
        before = len(seen)
        seen |= {key: rows[-1].step or 0 for key, rows in reader.look().items()}
        assert len(seen) - before <= 2  # 10 in a second
    assert seen == {str(number): number for number in range(40)}
    reader.keep(["3"])
    for number in (3, 4):
        add(tmp_path / f"{number}", line(77))
    now[0] += 60.0
    assert list(reader.look()) == ["3"]


def test_another_file_under_the_same_key(tmp_path: Path) -> None:
    now = [0.0]
    reader = LogReader(lambda: now[0], every_s=1.0)
    for name in ("a", "b"):
        (tmp_path / name).write_text(line(1))
    reader.follow("j", str(tmp_path / "a"))
    now[0] += 1.0
    assert len(reader.look()) == 1
    reader.follow("j", str(tmp_path / "a"))
    reader.follow("j", str(tmp_path / "b"))
    now[0] += 2.0
    assert len(reader.look()) == 1
    assert len(reader._due) == 1
