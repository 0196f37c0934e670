"""Predicted against published steps: reading, reasons, the choice of rows, and the bounds on the given file."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from statistics import median

import pytest
from benchmarks import llm_runs

from dally.errors import InputError
from dally.perf.llm.accelerators import gpu_types

ROOT = Path(__file__).parents[2]
GIVEN = ROOT.parent / "shared" / "reference" / "llm_training_runs.csv"
LLAMA = {
    "source": "a page", "year": "2025", "gpu": "H100-80GB SXM", "gpus": "64", "model": "llama3-70b",
    "params_b": "70.6", "layers": "80", "hidden": "8192", "heads": "64", "kv_heads": "8", "ffn": "28672",
    "vocab": "128256", "seq": "8192", "global_batch": "128", "micro_batch": "1", "tp": "4", "pp": "8", "vpp": "5",
    "cp": "2", "ep": "1", "zero_fsdp": "DDP", "precision": "FP8", "recompute": "", "iter_s": "10.2", "note": "",
}  # fmt: skip


def write(path: Path, *rows: dict[str, str]) -> Path:
    lines = [",".join(llm_runs.COLUMNS)]
    lines += [",".join(f'"{(LLAMA | row)[name]}"' for name in llm_runs.COLUMNS) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tp": ""}, "not stated: tp"),
        ({"layers": "", "ffn": ""}, "not stated: layers, ffn"),
        ({"gpu": "TPU-v5p"}, "GPU type 'TPU-v5p' is not known"),
        ({"precision": "nvfp4"}, "H100 has no fp4"),
        ({"tp": "3"}, "does not divide"),
        ({"model": "unheard-of", "ep": "8"}, "experts of 'unheard-of' are not known"),
        ({"params_b": "40"}, "not 40 B"),
    ],
)
def test_rows_that_are_not_modelled_say_why(tmp_path: Path, change: dict[str, str], reason: str) -> None:
    row = llm_runs.predicted(llm_runs.read_rows(write(tmp_path / "runs.csv", change))[0])
    assert row["iter_s"] is None
    assert reason in row["reason"]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"gpus": "many"}, "'many'"), ({"iter_s": "-1"}, "'-1'"), ({"tp": "0"}, "'0'"), ({"seq": "nan"}, "'nan'")],
)
def test_bad_numbers_name_line_and_field(tmp_path: Path, change: dict[str, str], words: str) -> None:
    path = write(tmp_path / "runs.csv", {}, change)
    with pytest.raises(InputError, match="runs") as caught:
        llm_runs.read_rows(path)
    assert words in str(caught.value)
    assert next(iter(change)) in str(caught.value)
    assert "3" in str(caught.value)


def test_a_pipeline_that_computes_during_the_exchange_is_read_from_the_note(tmp_path: Path) -> None:
    experts = {
        "model": "deepseek-v3", "gpus": "2048", "seq": "4096", "global_batch": "15360", "tp": "1", "pp": "16",
        "vpp": "", "cp": "1", "ep": "64", "iter_s": "",
    }  # fmt: skip
    rows = llm_runs.read_rows(write(tmp_path / "runs.csv", experts, experts | {"note": "DualPipe"}))
    plain, overlapped = [llm_runs.predicted(row)["parts_s"]["expert_s"] for row in rows]
    assert overlapped < plain / 2


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("gpu,gpus\nH100,8\n")
    with pytest.raises(InputError, match="source"):
        llm_runs.read_rows(path)


def test_the_command_prints_a_row_a_run(tmp_path: Path) -> None:
    path = write(tmp_path / "runs.csv", {}, {"tp": ""}, {"iter_s": ""})
    words = [sys.executable, "-m", "benchmarks.llm_runs", str(path), "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["iter_s"] is None for row in rows] == [False, True, False]
    assert rows[0]["iter_s"] == pytest.approx(sum(rows[0]["parts_s"].values()), rel=1e-4)
    assert rows[2]["error"] is None
    wrong = subprocess.run(
        [*words[:3], str(tmp_path / "none.csv")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert "none.csv" in wrong.stderr
    assert "Traceback" not in wrong.stderr


@cache
def given() -> list[llm_runs.Row]:
    if not GIVEN.exists():
        pytest.skip("the published runs are not here")
    return llm_runs.read_rows(GIVEN)


def test_published_steps_are_predicted() -> None:
    sizes = [abs(error) for error in llm_runs.errors(given())]
    assert len(sizes) > 500
    assert median(sizes) <= 0.08
    assert sum(size <= 0.2 for size in sizes) / len(sizes) >= 0.9


def test_rows_that_fix_no_efficiency_are_predicted_as_well() -> None:
    fit = {id(row) for row in llm_runs.chosen(given())}
    sizes = [abs(error) for error in llm_runs.errors([row for row in given() if id(row) not in fit])]
    assert median(sizes) <= 0.08
    assert sum(size <= 0.2 for size in sizes) / len(sizes) >= 0.9


def test_the_faster_of_two_layouts_is_predicted() -> None:
    right, count = llm_runs.pairs(given())
    assert count >= 50
    assert right / count >= 0.9


def test_efficiencies_are_those_that_a_fifth_of_the_rows_fixes() -> None:
    fit = llm_runs.chosen(given())
    modelled = [row for row in given() if row.run is not None and row.measured_s]
    assert len(fit) <= len(modelled) / 5
    shipped = {
        (name, precision): value for name, gpu in gpu_types().items() for precision, value in gpu.efficiency.items()
    }
    assert shipped == llm_runs.fitted(fit)
