"""The smaller commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from dally import __version__, is_compiled
from dally.cli.main import app, exit_code
from dally.cli.runs.compare import POLICIES as DEMO
from dally.cli.runs.compare import WORKLOAD
from dally.cluster.presets import PRESETS, SOURCES
from dally.policies.registry import POLICIES
from tests.cli.conftest import Run


def test_version_says_which_build(dally: Run) -> None:
    build = "compiled" if is_compiled() else "not compiled"
    assert dally("--version").stdout == f"dally {__version__} ({build})\n"


def test_policies_as_table_and_json(dally: Run) -> None:
    table = dally("policies").stdout
    rows = json.loads(dally("policies", "--json").stdout)
    assert [row["name"] for row in rows] == list(POLICIES)
    assert all(name in table for name in POLICIES)
    coded = next(row for row in rows if row["name"] == "gandiva-as-coded")
    assert coded["parameters"][0]["name"] == "lease_s"


def test_topology_show(dally: Run) -> None:
    assert dally("topology", "show", "2x3x4").stdout.splitlines() == [
        "network: 24 GPUs",
        "└── rack0 … rack1: 2 × 12 GPUs",
        "    └── rack0-m0 … rack0-m2: 3 × 4 GPUs",
    ]


def test_topology_check(dally: Run, tmp_path: Path) -> None:
    text = '[[tiers]]\nname = "machine"\n[[tiers]]\nname = "network"\n[[machines]]\ncount = 2\ngpus = 8\n'
    (tmp_path / "a.toml").write_text(text)
    (tmp_path / "b.toml").write_text(text.replace("gpus = 8", "gpus = eight"))
    good, bad = dally("topology", "check", "a.toml"), dally("topology", "check", "b.toml")
    assert (good.returncode, good.stdout) == (0, "a.toml: fine: 16 GPUs; 1 network, 2 machine\n")
    assert bad.returncode == 2
    assert bad.stderr.startswith("dally: b.toml:7: Invalid value")


def test_networks_as_table_and_json(dally: Run) -> None:
    table = dally("networks").stdout
    rows = json.loads(dally("networks", "--json").stdout)
    assert [row["name"] for row in rows] == list(PRESETS) == [name for name in SOURCES if name in PRESETS]
    assert {*SOURCES} == {*PRESETS}, "each has its source"
    assert all(row["name"] in table and row["source"] for row in rows)
    slow = next(row for row in rows if row["name"] == "slow")
    assert (slow["nic_count"], slow["nic_gbps"], slow["oversubscription"]) == (1, 12.5, 4.0)
    assert "1 × 100 Gb/s" in table


def test_demo_compares_policies_and_leaves_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dally.cli.runs.compare.WORKLOAD", WORKLOAD._replace(jobs=150))  # docs run it whole
    monkeypatch.chdir(tmp_path)
    assert exit_code(["demo"]) == 0
    told = capfd.readouterr().out
    assert len(DEMO) >= 8
    assert all(f" {name} " in told for name in DEMO)
    assert told.endswith("open demo-out/report.html\n")
    page = (tmp_path / "demo-out" / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in DEMO)


@pytest.mark.parametrize(
    "command",
    [
        ["simulate"],
        ["compare"],
        ["sweep"],
        ["whatif"],
        ["benchmark"],
        ["policies"],
        ["networks"],
        ["topology", "show"],
        ["topology", "check"],
        ["demo"],
    ],
)
def test_help_has_an_example(dally: Run, command: list[str]) -> None:
    done = dally(*command, "--help")
    assert done.returncode == 0
    assert f"dally {' '.join(command)}" in done.stdout.split("Example")[1]


def helps(width: int) -> dict[str, str]:
    """The help texts of all commands on a terminal of that width."""

    def walk(command: Any, words: list[str]) -> Iterator[list[str]]:
        yield words
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, [*words, name])

    def text(words: list[str]) -> str:
        return CliRunner().invoke(app, [*words, "--help"], terminal_width=width, max_content_width=width).output

    return {" ".join(words): text(words) for words in walk(typer.main.get_command(app), [])}


def test_help_breaks_no_word_at_80_columns() -> None:
    narrow, wide = helps(80), helps(4000)
    assert len(narrow) > 20
    for name, text in narrow.items():
        assert max(map(len, text.splitlines())) <= 80, name
        assert text.split() == wide[name].split(), name


def test_the_trace_may_stand_alone(dally: Run, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,4,1000\n")
    one = dally("simulate", "jobs.csv", "--cluster", "1x2x8")
    assert one.returncode == 0, one.stderr
    both = dally("simulate", "jobs.csv", "--trace", "jobs.csv", "--cluster", "1x2x8")
    assert (both.returncode, both.stderr) == (2, "dally: jobs.csv and --trace jobs.csv: give one of them\n")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("dally simu", "simulate"),
        ("dally simulate --pol", "--policy"),
        ("dally simulate --policy gand", "gandiva"),
        ("dally simulate --network h100-nvswitch-8x4", "h100-nvswitch-8x400g"),
        ("dally compare --network slow,cong", "slow,congested"),
        ("dally trace conv", "convert"),
    ],
)
def test_the_shell_completes(words: str, offered: str, monkeypatch: pytest.MonkeyPatch, dally: Run) -> None:
    monkeypatch.setenv("_DALLY_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert offered in dally().stdout.split()


def test_a_script_for_the_shell(dally: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # make runs it in none of those known
    assert "_DALLY_COMPLETE=complete_bash" in dally("--show-completion", "bash").stdout


def test_a_network_by_its_gpu_alone(dally: Run) -> None:
    done = dally("simulate", "--trace", "t.csv", "--cluster", "1x2x8", "--network", "v100")
    assert "known: v100-nvlink-100g, v100-nvlink-100g-efa, v100-nvswitch-8x100g" in done.stderr


@pytest.mark.parametrize("words", [["demo"], ["explain", "j1", "--run", "run"], ["report", "run"]])
def test_without_polars_a_command_says_which_extra_brings_it(words: list[str], tmp_path: Path) -> None:
    """As where only the core is installed."""
    code = (
        f"import sys; sys.modules['polars'] = None; from dally.cli.main import exit_code; exit(exit_code({words}))"
    )
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "summary.json").touch()
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith(": polars is missing; pip install 'dally[report]' brings it\n")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_unknown_command_is_bad_input(dally: Run) -> None:
    assert dally("simulat").returncode == 2
