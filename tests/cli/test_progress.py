"""`dally progress parse`: a row for every line of a log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dally.cli.main import exit_code


def test_every_line_gets_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(
        b"starting \xff\0\nEpoch 2/3\n\n 10/100 [=>..] - ETA: 3s - loss: 0.5\r\nstep 7/20 loss=1.5 step_time=0.5"
    )
    assert exit_code(["progress", "parse", str(log), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    empty = {"step": None, "total": None, "epoch": None, "epochs": None, "s_per_step": None}
    assert rows == [
        None, empty | {"epoch": 2, "epochs": 3}, None, empty | {"step": 10, "total": 100},
        empty | {"step": 7, "total": 20, "s_per_step": 0.5},
    ]  # fmt: skip
    assert exit_code(["progress", "parse", str(log)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2: epoch 2/3", "4: step 10/100", "5: step 7/20, 0.5 s per step", "3 of 5 lines say how far training is.",
    ]  # fmt: skip


def test_own_pattern_and_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text("lap 3 of 9\nstep 7/20 loss=1.5\n")
    assert exit_code(["progress", "parse", str(log), "--json", "--pattern", "lap {step} of {total}"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert json.loads(first)["total"] == 9
    assert second == "null"
    assert exit_code(["progress", "parse", str(log), "--pattern", "lap"]) == 2
    assert "must have {step} or {epoch}" in capsys.readouterr().err
    assert exit_code(["progress", "parse", str(tmp_path / "none.log")]) == 2
