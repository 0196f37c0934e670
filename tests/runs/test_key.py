"""The key of a run: everything that can change its row is in it, and nothing else."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import grimp
import pytest

import dally
from dally.runs.scenario import ABOVE, Scenario, digest_below, keyed

HOME = Path(dally.__file__).parent
ENTRIES = ("dally.runs.execute", "dally.metrics.summary")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Our sources, to be touched."""
    wanted = shutil.ignore_patterns("__pycache__", "*.so")
    return Path(shutil.copytree(HOME, tmp_path / "dally", ignore=wanted))


def changes(copy: Path, name: str) -> bool:
    """Whether another line in that file gives another digest."""
    before = digest_below(copy)
    with (copy / name).open("a") as file:
        file.write("\n# touched\n")
    return digest_below(copy) != before


def test_every_module_that_a_row_comes_from_is_covered() -> None:
    graph = grimp.build_graph("dally", exclude_type_checking_imports=True)  # those compute nothing
    behind = {name for entry in ENTRIES for name in (entry, *graph.find_upstream_modules(entry))}
    assert "dally.policies.paper_dally" in behind
    assert {name for name in behind if name.split(".")[1:2] and name.split(".")[1] in ABOVE} == set()


@pytest.mark.parametrize(
    "name",
    [
        "metrics/row.py", "metrics/summary.py", "metrics/bounds.py", "runs/assemble.py", "runs/execute.py",
        "traces/csv_trace.py", "perf/catalogue.toml", "policies/paper_dally.py", "engine/state.py", "switch.py",
    ],
)  # fmt: skip
def test_touching_what_computes_a_row_makes_it_another_run(copy: Path, name: str) -> None:
    assert changes(copy, name)


@pytest.mark.parametrize("name", ["cli/simulate.py", "report/html/page.py", "sweep/plan.py", "report/explain.py"])
def test_touching_what_only_shows_does_not(copy: Path, name: str) -> None:
    assert not changes(copy, name)


def test_files_beside_a_trace_and_a_policys_own_file_count(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,8,10\n")
    (tmp_path / "mine.py").write_text("class Mine: ...\n")
    (tmp_path / "topology.conf").write_text("SwitchName=s1 Nodes=n[1-2]\n")
    (tmp_path / "gres.conf").write_text("NodeName=n[1-2] Name=gpu Count=8\n")
    base = Scenario(str(tmp_path / "t.csv"), str(tmp_path / "topology.conf"), f"{tmp_path / 'mine.py'}:Mine")
    before = keyed(base, {})[1]
    assert keyed(replace(base, policy=f"{tmp_path / 'mine.py'}:Other"), {})[1] != before
    assert keyed(base, {})[1] == before
    for name, text in (("mine.py", "class Mine: pass\n"), ("gres.conf", "NodeName=n[1-2] Name=gpu Count=4\n")):
        (tmp_path / name).write_text(text)
        after = keyed(base, {})[1]
        assert after != before, name
        before = after


def test_a_policys_file_is_named_by_its_full_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,8,10\n")
    (tmp_path / "mine.py").write_text("class Mine: ...\n")
    monkeypatch.chdir(tmp_path)
    scenario, _ = keyed(Scenario("t.csv", "1x1x8", "mine.py:Mine"), {})
    assert scenario.policy == f"{tmp_path / 'mine.py'}:Mine"
    assert str(tmp_path / "mine.py") in scenario.digests
