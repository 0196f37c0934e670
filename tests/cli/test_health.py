"""`dally health plan`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dally.cli.main import exit_code


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors."""
    code = exit_code(["health", "plan", *arguments])
    captured = capsys.readouterr()
    assert isinstance(code, int)
    return code, captured.out, captured.err


def test_plan_of_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--machines", "16", "--rate", "0.05", "--gpus", "8,128", "--simulate", "--json")
    code, out, _ = answer(capsys, *arguments)
    plan = json.loads(out)
    assert code == 0
    assert [row["gpus"] for row in plan["sizes"]] == [8, 128]
    for row in plan["sizes"]:
        assert row["ettr_simulated"] == pytest.approx(row["ettr"], abs=0.02)
    assert plan["sizes"][1]["ettr"] < plan["sizes"][0]["ettr"]


def test_plan_of_a_history_names_lemons(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "outages.csv"
    rows = [f"rack0-m0,{1000 * turn},{1000 * turn + 500}\n" for turn in range(20)]
    path.write_text("machine,fail_s,repair_s\n" + "".join(rows) + "rack0-m1,100,600\n", encoding="utf-8")
    code, out, _ = answer(capsys, "--history", str(path), "--cluster", "2x8x8", "--days", "10", "--json")
    plan = json.loads(out)
    assert code == 0
    assert plan["lemons"] == ["rack0-m0"]
    assert plan["failures_per_machine_day"] == pytest.approx(21 / 16 / 10)
    assert plan["repair_s"] == 500.0
    code, out, _ = answer(capsys, "--history", str(path), "--cluster", "2x8x8", "--days", "10")
    assert "rack0-m0" in out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--rate", "-1"], "--rate"), (["--machines", "0"], "--machines"), (["--gpus", "7x"], "--gpus"),
        (["--restart-s", "-5"], "--restart-s"), (["--history", "missing.csv"], "--history"),
        (["--history", "missing.csv", "--cluster", "2x8x8", "--days", "3"], "missing.csv"),
    ],
)  # fmt: skip
def test_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str) -> None:
    code, _, err = answer(capsys, *arguments)
    assert code == 2
    assert problem in err
