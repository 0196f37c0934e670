"""A report of 100,000 jobs stays small and opens fast."""

from __future__ import annotations

from pathlib import Path
from random import Random

from dally.report.html.build import build_page, write_page
from dally.runs.scenario import Scenario
from tests.report.conftest import Open
from tests.report.folders import make_run

JOBS = 100_000
MOST_BYTES = 8_000_000
OPENS_WITHIN_S = 3.0


def write_trace(path: Path) -> None:
    """Jobs as they come: most are small and short, some neither; more than the cluster can take at times."""
    draw = Random(1)
    submit_s = 0.0
    with path.open("w") as file:
        file.write("job_id,submit_s,gpus,duration_s\n")
        for number in range(JOBS):
            submit_s += draw.expovariate(1 / 60)
            gpus = draw.choice([1, 1, 1, 2, 4, 8, 8, 16, 32])
            file.write(f"job-{number},{submit_s:.1f},{gpus},{min(draw.lognormvariate(7.5, 1.6), 2e5):.0f}\n")


def test_a_large_run_stays_small_and_opens_fast(tmp_path: Path, open_page: Open) -> None:
    write_trace(tmp_path / "t.csv")
    make_run(tmp_path / "run", Scenario(str(tmp_path / "t.csv"), "14x8x8", "fifo-backfill"))
    report = tmp_path / "report.html"
    write_page(build_page(tmp_path / "run"), report)
    assert report.stat().st_size < MOST_BYTES

    page = open_page(report)
    measured = page.context.new_cdp_session(page)
    measured.send("Performance.enable")
    found = {one["name"]: one["value"] for one in measured.send("Performance.getMetrics")["metrics"]}
    # CPU seconds of the page's process until all is drawn: other work on the machine does
    # not count in these. It does in the load event and the first paint, which take a fraction of the limit.
    assert 0.0 < found["ProcessTime"] < OPENS_WITHIN_S
    loaded_ms = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    painted_ms = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert 0.0 < max(loaded_ms, painted_ms) < 1000 * OPENS_WITHIN_S
    assert page.evaluate("dally.course.job_id.length") == JOBS
    assert page.evaluate("dally.course.left_out") == 0
    assert page.evaluate("dally.gantt.now.held") > 0
