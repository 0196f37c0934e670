"""Real traces with teams and types of GPU, end to end: the first jobs of Philly and of openb."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

import pytest

from dally.report.html.run_page import run_page
from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario

ROOT = Path(__file__).parents[2]
TRACES = next((path for path in (ROOT / "shared", ROOT.parent / "shared") if path.is_dir()), ROOT) / "traces"


def head(name: str, to: Path, rows: int) -> str:
    """The first rows of a trace, as a file."""
    if not (TRACES / name).exists():
        pytest.skip(f"{name} is not here")
    with gzip.open(TRACES / name, "rt") as file:
        to.write_text("".join(islice(file, rows + 1)))
    return str(to)


def test_philly_with_its_virtual_clusters_as_queues(tmp_path: Path) -> None:
    """The file has them in its column `user`."""
    trace = head("philly_win14d.csv.gz", tmp_path / "jobs.csv", 250)
    (tmp_path / "queues.toml").write_text('[queues.11cb48]\nguarantee = 16\n[accounts]\nmake = "user"\n')
    scenario = Scenario(trace, "2x8x8", "fifo-backfill", queues=str(tmp_path / "queues.toml"), skip_impossible=True)
    summary = execute(scenario, out=tmp_path / "run").summary
    assert summary["finished"] == summary["jobs"] == sum(queue["jobs"] for queue in summary["queues"].values())
    held_h = sum(queue["gpu_h"] for queue in summary["queues"].values())
    kept = FolderRecord(tmp_path / "run")
    assert held_h == pytest.approx((kept.jobs["run_s"] * kept.jobs["gpus"]).sum() / 3600)
    assert 0.0 < summary["jain"] <= 1.0
    assert 'id="teams"' in run_page(kept).to_html()


def test_openb_with_its_types_of_gpu(tmp_path: Path) -> None:
    trace = head("openb_pod_list_gpuspec33.csv.gz", tmp_path / "pods.csv", 150)
    nodes = str(TRACES / "openb_node_list_gpu_node.csv")
    record = execute(Scenario(trace, nodes, "fifo-backfill", skip_impossible=True), out=tmp_path / "run")
    use = record.summary["gpu_types"]
    assert len(use) == 7
    held_h = sum(row["gpu_h"] for row in use.values())
    assert held_h == pytest.approx((record.jobs["run_s"] * record.jobs["gpus"]).sum() / 3600)
    stated = {job.job_id: job.gpu_type.split("|") for job in record.outcomes if job.gpu_type}
    ran = dict(record.jobs.select("job_id", "gpu_type").iter_rows())
    assert stated
    assert all(ran[job_id] in types for job_id, types in stated.items())
    assert "GPU types" in run_page(FolderRecord(tmp_path / "run")).to_html()
