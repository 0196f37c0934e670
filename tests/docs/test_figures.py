"""The committed figures are what their commands make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


GENERATE = [
    "-m", "dally", "trace", "generate", "venus-like", "--jobs", "1500", "--load", "1.0", "--cluster", "3x6x8",
    "--seed", "1", "--out", "full.csv",
]  # fmt: skip


def check(name: str, commands: list[list[str]], tmp_path: Path) -> None:
    """Run the commands; the last one draws the committed figure of that name."""
    for command in commands:
        subprocess.run([sys.executable, *command], cwd=tmp_path, check=True, capture_output=True)
    committed = (ROOT / "docs/images" / name).read_bytes()
    assert (tmp_path / name).read_bytes() == committed, "run the commands in docs/dally.md again"


def test_timers_figure(tmp_path: Path) -> None:
    simulate = [
        "-m", "dally", "simulate", "--trace", "full.csv", "--cluster", "3x6x8", "--network", "slow", "--policy",
        "dally-paper", "--out", "run",
    ]  # fmt: skip
    draw = [str(ROOT / "scripts/timers_figure.py"), "run", "timers.svg"]
    check("timers.svg", [GENERATE, simulate, draw], tmp_path)


def test_ranks_figure(tmp_path: Path) -> None:
    learn = ["-m", "dally", "learn", "--trace", "full.csv", "--out", "full.json"]
    draw = [str(ROOT / "scripts/ranks_figure.py"), "full.json", "ranks.svg"]
    check("ranks.svg", [GENERATE, learn, draw], tmp_path)


def test_architecture_figure() -> None:
    command = [sys.executable, str(ROOT / "scripts/architecture_figure.py")]
    drawn = subprocess.run(command, check=True, capture_output=True).stdout
    assert drawn == (ROOT / "docs/images/architecture.svg").read_bytes(), "draw it again: see docs/architecture.md"
