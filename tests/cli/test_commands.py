"""The smaller commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dally import __version__, is_compiled
from dally.cli.demo import POLICIES as DEMO
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
    assert rows[-1]["parameters"][0]["name"] == "lease_s"


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


def test_demo_compares_policies_and_leaves_a_report(dally: Run, tmp_path: Path) -> None:
    done = dally("demo")
    assert done.returncode == 0, done.stderr
    assert len(DEMO) >= 8
    assert all(f" {name} " in done.stdout for name in DEMO)
    assert done.stdout.endswith("open demo-out/report.html\n")
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
        ["topology", "show"],
        ["topology", "check"],
        ["demo"],
    ],
)
def test_help_has_an_example(dally: Run, command: list[str]) -> None:
    done = dally(*command, "--help")
    assert done.returncode == 0
    assert f"dally {' '.join(command)}" in done.stdout.split("Example")[1]


def test_unknown_command_is_bad_input(dally: Run) -> None:
    assert dally("simulat").returncode == 2
