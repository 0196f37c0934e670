"""`dally benchmark` from end to end, on its smallest cells."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from tests.cli.conftest import Run


def test_tables_a_page_and_what_is_kept(dally_alone: Run, shared: Path, tmp_path: Path) -> None:
    arguments = ["--cells", "paper-batch,paper-poisson", "--networks", "slow", "--policies", "fifo-backfill,las"]
    arguments += [
        "--seeds",
        "1",
        "--replications",
        "2",
        "--shared",
        str(shared),
        "--out",
        "o",
        "--markdown",
        "pages/results.md",
    ]
    done = dally_alone("benchmark", *arguments)
    assert done.returncode == 0, done.stderr
    assert (
        "paper-batch: the paper's batch\njobs 500; restart 1 s per GPU; seeds 1; 2 replications; dally"
        in done.stdout
    )
    assert "\n8 runs, " in done.stdout
    table = pl.read_parquet(tmp_path / "o" / "results.parquet")
    assert table.select("workload", "network", "policy", "restart", "seed", "jobs").rows() == [
        (workload, "slow", policy, "1 s per GPU", 1, jobs)
        for workload, jobs in (("paper-batch", 500), ("paper-poisson", 411))
        for policy in ("fifo-backfill", "las")
        for _ in range(2)
    ]
    page = (tmp_path / "pages" / "results.md").read_text()
    assert f"Written by `dally benchmark {' '.join(arguments)}`" in page
    assert page.count("| `las` |") == 2

    journal = (tmp_path / "o" / "runs.jsonl").read_bytes()
    again = dally_alone("benchmark", *arguments[:4], "--policies", "las", *arguments[6:14], "--json")
    assert [row["policy"] for row in json.loads(again.stdout)["rows"]] == ["las"] * 4
    assert (tmp_path / "o" / "runs.jsonl").read_bytes() == journal, "nothing was run again"


def test_bad_names_are_refused(dally: Run, tmp_path: Path) -> None:
    for arguments, message in (
        (["--cells", "venus"], "did you mean 'venus80'?"),
        (["--networks", "slwo"], "did you mean 'slow'?"),
        (["--policies", "fifi"], "did you mean 'fifo'?"),
        (["--shared", "nowhere", "--out", "o"], "which is not here"),
    ):
        done = dally("benchmark", *arguments)
        assert done.returncode == 2
        assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
