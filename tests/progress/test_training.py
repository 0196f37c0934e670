"""`dally.report` and the callbacks: what a training script says arrives, and never stops it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import dally
from dally.progress import training
from dally.progress.line_parser import parse_line
from dally.progress.line_progress import LineProgress
from dally.progress.report_file import MOST_BYTES, Report, read_report
from dally.progress.training import keras_callback, lightning_callback, report, trainer_callback


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "progress")
    monkeypatch.setenv("DALLY_PROGRESS", path)
    for rank in training.RANKS:
        monkeypatch.delenv(rank, raising=False)
    monkeypatch.setattr(training, "EVERY_S", 0.0)
    return path


def said(file: str) -> tuple[int, int | None] | None:
    """(step, total) of the file."""
    found = read_report(file, os.getuid())
    return None if found is None else (found.step, found.total)


def test_report_arrives(file: str) -> None:
    assert report(3, 100)
    assert said(file) == (3, 100)
    assert report(4)
    assert said(file) == (4, None)
    assert os.listdir(os.path.dirname(file)) == ["progress"]


def test_dally_report_is_that_function_whatever_was_imported_before(file: str) -> None:
    assert dally.report(5, 10)
    import_module("dally.report.text_table")
    assert dally.report(6, 10)
    assert said(file) == (6, 10)


def test_it_needs_nothing_else_and_is_light() -> None:
    code = "import sys, dally; dally.report(1, 2); print(sorted(m for m in sys.modules if m.startswith('dally.')))"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env={
        "PYTHONPATH": str(Path(dally.__file__).parents[1]),
    })  # fmt: skip
    assert json.loads(done.stdout.replace("'", '"')) == [
        "dally.progress", "dally.progress.report_file", "dally.progress.training", "dally.report",
    ]  # fmt: skip


def test_not_more_than_once_a_second_but_the_end_is_said(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "EVERY_S", 1000.0)
    monkeypatch.setattr(training, "_written", {})
    assert [report(step, 5) for step in (1, 2, 3, 5)] == [True, False, False, True]
    assert said(file) == (5, 5)


def test_a_line_where_no_file_would_arrive(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DALLY_PROGRESS", "-")
    monkeypatch.setattr(training, "_written", {})
    assert [report(step, 5) for step in (1, 2, 5)] == [True, False, True]
    lines = capsys.readouterr().out.splitlines()
    assert [parse_line(line) for line in lines] == [LineProgress(1, 5), LineProgress(5, 5)]
    assert parse_line("[default0]:dally: training step 7") == LineProgress(7)
    monkeypatch.setattr(sys, "stdout", None)
    assert report(5, 5)
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    assert not report(5, 5)


@pytest.mark.parametrize("rank", training.RANKS)
def test_only_the_first_process_reports(file: str, rank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rank, "3")
    assert not report(1, 2)
    monkeypatch.setenv(rank, "0")
    assert report(1, 2)


def test_outside_of_a_job_and_where_nothing_can_be_written_training_goes_on(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DALLY_PROGRESS", "/nowhere/at/all")
    assert not report(1, 2)
    monkeypatch.delenv("DALLY_PROGRESS")
    assert not report(1, 2)


@pytest.mark.parametrize(("step", "total"), [(-1, 2), ("x", 2), (1, 0), (1, -5), (float("nan"), 2), (None, 3)])
def test_what_is_no_number_of_steps_is_refused(file: str, step: Any, total: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        report(step, total)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "3", '{"step": 1}', '{"step": -1, "total": 2, "at_s": 1}', '{"step": 1.5, "total": 2, "at_s": 1}',
        '{"step": 1, "total": 0, "at_s": 1}', '{"step": 1, "total": 2, "at_s": NaN}', "[" * 3000, "\xff\xfe",
        '{"step": true, "total": 2, "at_s": 1}', " " * MOST_BYTES + '{"step": 1, "total": 2, "at_s": 1}',
    ],
)  # fmt: skip
def test_file_that_says_nothing_sensible(tmp_path: Path, text: str) -> None:
    path = tmp_path / "progress"
    path.write_bytes(text.encode("latin-1"))
    assert read_report(str(path)) is None


def test_file_of_somebody_else_or_no_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    path.write_text('{"step": 1, "total": 2, "at_s": 3.5}')
    assert read_report(str(path), os.getuid()) == Report(1, 2, 3.5)
    assert read_report(str(path), os.getuid() + 1) is None
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "none", "."):
        assert read_report(str(tmp_path / name)) is None


def framework(monkeypatch: pytest.MonkeyPatch, name: str, base: str) -> None:
    """A stand-in for the module of a framework, with an empty base class of callbacks."""
    parts = name.split(".")
    for place in range(len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[: place + 1]), ModuleType(".".join(parts[: place + 1])))
    setattr(sys.modules[name], base, type(base, (), {}))


def test_callback_of_the_trainer(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    framework(monkeypatch, "transformers", "TrainerCallback")
    callback = trainer_callback()
    callback.on_step_end(None, SimpleNamespace(global_step=7, max_steps=90, is_world_process_zero=True), None)
    assert said(file) == (7, 90)
    callback.on_step_end(None, SimpleNamespace(global_step=8, max_steps=90, is_world_process_zero=False), None)
    assert said(file) == (7, 90)
    callback.on_step_end(None, SimpleNamespace(global_step=9, max_steps=-1), None, model=None)
    assert said(file) == (9, None)


@pytest.mark.parametrize("module", ["lightning.pytorch", "pytorch_lightning"])
def test_callback_of_lightning(file: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    framework(monkeypatch, module, "Callback")
    callback = lightning_callback()
    trainer = SimpleNamespace(global_step=7, estimated_stepping_batches=90, is_global_zero=True)
    callback.on_train_batch_end(trainer, None, None, None, 6)
    assert said(file) == (7, 90)
    callback.on_train_batch_end(SimpleNamespace(global_step=8, estimated_stepping_batches=float("inf")), None)
    assert said(file) == (8, None)


def test_callback_of_keras(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    framework(monkeypatch, "keras.callbacks", "Callback")
    callback = keras_callback()
    callback.params = {"steps": 40, "epochs": 3}
    callback.on_train_begin()
    callback.on_epoch_begin(1)
    callback.on_train_batch_end(4)
    assert said(file) == (45, 120)
    callback.params = {"steps": None, "epochs": 3}
    callback.on_epoch_begin(0)
    callback.on_train_batch_end(9)
    assert said(file) == (10, None)
