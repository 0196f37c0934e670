"""The scan of the paper's own set-up: its runs, and the page that says where the paper's figures appear."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.benchmark.as_published import AS_CODED, CLUSTERS, FAIR, LOADS, SETTINGS, published_page, published_runs
from dally.cli.main import exit_code
from dally.metrics.comparison import compare_rows
from dally.sweep.run import make_row


def test_every_policy_runs_in_every_cell(shared: Path, tmp_path: Path) -> None:
    runs = published_runs(shared, tmp_path, [1])
    assert len(runs) == len(LOADS) * len(CLUSTERS) * len(SETTINGS) * (2 + len(AS_CODED) + len(FAIR))
    assert {run.scenario.profiles for run in runs} == {"as-published"}
    assert {run.scenario.contention for run in runs} == {"on", "off"}
    assert len({run.key for run in runs}) == len(runs)


def test_the_page_says_against_which_rival_a_figure_appears(shared: Path, tmp_path: Path) -> None:
    runs = [
        run
        for run in published_runs(shared, tmp_path, [1])
        if run.labels["workload"] == "paper-batch on 2x8x8"
        and run.labels["network"] == "as-published-older"
        and run.labels["policy"] in ("dally-paper", "gandiva-as-coded", "tiresias")
    ]
    rows = [{**run.labels, **make_row(run)} for run in runs]
    page = published_page(compare_rows(rows, ""), "dally reproduce --as-published")
    assert "−69 % makespan: against `gandiva-as-coded` in 1 of 1 cells" in page
    assert "−83 % mean JCT: in none of these cells." in page  # against fair rivals
    assert "| paper-batch on 2x8x8, as-published-older |" in page


@pytest.mark.parametrize("option", ["--cells", "--networks", "--policies"])
def test_the_scan_has_its_own_cells(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    value = {"--cells": "paper-batch", "--networks": "slow", "--policies": "las"}[option]
    assert exit_code(["reproduce", "--as-published", option, value]) == 2
    assert f"{option} {value}: --as-published has its own; leave it out" in capsys.readouterr().err
