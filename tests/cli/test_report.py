"""`dally report` and the report that `dally simulate` leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

TRACE = "job_id,submit_s,gpus,duration_s\na,0,4,10\nb,1,8,5\nc,2,4,3\n"


@pytest.fixture
def run(dally: Run, tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(TRACE)
    done = dally("simulate", "--trace", "t.csv", "--cluster", "1x1x8", "--out", "one")
    assert done.returncode == 0, done.stderr
    return tmp_path / "one"


def test_simulate_leaves_the_same_report(dally: Run, run: Path) -> None:
    left = (run / "report.html").read_bytes()
    done = dally("report", "one")
    assert (done.returncode, done.stdout) == (0, "Report of a run written to one/report.html\n"), done.stderr
    assert (run / "report.html").read_bytes() == left
    again = json.loads(dally("report", "one", "--out", "else.html", "--perfetto", "run.json", "--json").stdout)
    assert again == {"kind": "run", "report": "else.html", "runs": 0, "figures": [], "perfetto": "run.json"}
    assert json.loads((run.parent / "run.json").read_text())["otherData"]["policy"] == "dally"
    assert (run.parent / "else.html").read_bytes() == left


def test_simulate_without_a_report(dally: Run, run: Path) -> None:
    assert (
        dally("simulate", "--trace", "t.csv", "--cluster", "1x1x8", "--out", "two", "--no-report").returncode == 0
    )
    assert not (run.parent / "two" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("report", "nowhere"), "dally: nowhere: is not a folder"),
        (("report", "."), "dally: .: holds neither summary.json"),
        (("report", "one", "--baseline", "las"), "dally: --baseline las: one holds a single run"),
        (("report", "one", "--runs"), "dally: --runs: one holds a run, not a comparison"),
        (("report", "one", "--size", "84x55"), "dally: --size: is of figures; say where with --figures DIR"),
        (("report", "one", "--no-title"), "dally: --no-title: is of figures; say where"),
        (("report", "one", "--figures", "f", "--format", "gif"), "dally: unknown format 'gif'"),
        (("report", "one", "--perfetto", "no/t.json"), "dally: no/t.json: cannot be written"),
        (("report", "one", "--out", "no/r.html"), "dally: no/r.html: cannot be written"),
        (("simulate", "--trace", "t.csv", "--cluster", "1x1x8", "--report"), "dally: --report: say where"),
    ],
)
def test_bad_input_exits_2(dally: Run, run: Path, arguments: tuple[str, ...], expected: str) -> None:
    done = dally(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(expected)
    assert "Traceback" not in done.stderr
