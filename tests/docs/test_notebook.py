"""The tutorial notebook runs from top to bottom, and shows what it says it does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import dally

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outputs of each code cell, by the cell's id; the kernel runs the build under test."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    home = tmp_path_factory.mktemp("notebook")
    shutil.copytree(ROOT / "examples", home / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (home / "docs").mkdir()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(dally.__file__).parents[1]))
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
            patch.setenv(name, str(home / name.lower()))
        patch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        patch.setenv("TMPDIR", str(home))
        where = {"metadata": {"path": str(home / "docs")}}
        nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    left = {path.name for path in home.iterdir()} - {"ipythondir", "jupyter_runtime_dir", "jupyter_config_dir"}
    outputs: dict[str, Any] = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    return {**outputs, "left": left}


def shown(outputs: list[Any], kind: str = "text/html") -> str:
    """What the last output of a cell shows."""
    text: str = outputs[-1]["data"][kind]
    return text


def test_it_is_stored_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 8
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def test_results_show_themselves(executed: dict[str, Any]) -> None:
    assert "<b>Run of fifo</b>" in shown(executed["run"])
    assert "<b>Job d</b>" in shown(executed["story"])
    assert "started on one machine" in shown(executed["story"])
    assert "By user" in shown(executed["whatif"])
    assert "srcdoc=" in shown(executed["report"])


def test_the_policy_of_a_cell_runs_and_is_compared(executed: dict[str, Any]) -> None:
    assert executed["own"][-1]["text"] == "mean completion time: 5110 s under fifo, 3030 s now\n"
    told = shown(executed["compare"])
    for label in ("fifo-backfill", "las", "dally", "SmallFirst", "SmallFirst-2"):
        assert f'<td style="text-align:left">{label}</td>' in told
    assert "SmallFirst-2" in shown(executed["table"], "text/plain")
    assert "SmallFirst (new)" in shown(executed["whatif"])


def test_no_files_stay_behind(executed: dict[str, Any]) -> None:
    assert executed["left"] == {"docs", "examples"}
