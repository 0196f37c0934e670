"""Who got what, as commands and pages tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

import dally
from dally.errors import InputError
from dally.metrics.comparison import compare_rows
from dally.metrics.simulated import Simulated
from dally.metrics.summary import row_of
from dally.report.comparison_tables import to_markdown, to_values
from dally.report.explanation.job_timeline import Explainer
from dally.report.html.run_page import run_page
from dally.report.html.team_section import share_chart
from dally.report.run_summary import sharing_lines
from dally.report.text_table import TextTable
from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario

QUEUES = """
[queues.research]
guarantee = 4
match = {user = ["ada"]}
[queues.students]
limit = 12
default = true
"""
# bob's first jobs hold 12 of 16 GPUs, his limit; ada's want 8 an hour later, of which 4 are hers.
JOBS = """job_id,submit_s,gpus,duration_s,user
b0,0,8,9000,bob
b1,0,4,9000,bob
b2,60,4,600,bob
a0,3600,8,3600,ada
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FolderRecord:
    """A run under queues, kept."""
    folder = tmp_path_factory.mktemp("shares")
    carried_out(folder)
    return FolderRecord(folder / "run")


def carried_out(folder: Path, policy: str = "fifo") -> Simulated:
    """The run, left in `folder`/run."""
    (folder / "jobs.csv").write_text(JOBS)
    (folder / "queues.toml").write_text(QUEUES)
    scenario = Scenario(str(folder / "jobs.csv"), "2x8", policy, queues=str(folder / "queues.toml"))
    return execute(scenario, out=folder / "run")


def test_a_run_tells_who_got_what_by_queue(run: FolderRecord) -> None:
    lines = list(sharing_lines(run.summary))
    table = next(part for part in lines if isinstance(part, TextTable)).texts()
    assert [line[:2] for line in table] == [["research", "1"], ["students", "3"]]
    assert any("Finish-time fairness of 2 users" in part for part in lines if isinstance(part, str))
    assert list(sharing_lines({})) == []


def test_policies_are_compared_by_queue(tmp_path: Path) -> None:
    rows = []
    for policy in ("fifo", "las"):
        rows.append(row_of(carried_out(tmp_path, policy)) | {"workload": "w", "network": "", "policy": policy})
    contests = compare_rows(rows, "fifo")
    values = to_values(contests, "fifo")["results"]
    assert values[0]["queues"]["research"]["queue_mean_s"]["mean"] == rows[0]["queue_mean_s[research]"]
    text = to_markdown(contests)
    assert "Mean wait by queue" in text
    assert "| students | research | Jain index |" in text


def test_a_job_that_was_stopped_for_a_share_says_for_whose(run: FolderRecord) -> None:
    lost = run.reclaims.row(0, named=True)
    told = " ".join(line.text for line in Explainer(run).history(lost["loser"]))
    assert f"preempted for {lost['winner']} of queue research" in told
    assert "students held 12 and was due" in told


def test_the_page_has_a_section_about_teams(run: FolderRecord) -> None:
    chart = share_chart(run, "research", 0, [0.0, 3600.0, 20_000.0])
    assert [one.name for one in chart.series] == ["held", "due", "guaranteed"]
    assert chart.series[0].ys[0] == 0.0, "nobody of research in the first hour"
    assert 'id="teams"' in run_page(run).to_html()


def test_what_if_a_team_were_guaranteed_more(tmp_path: Path) -> None:
    """students may hold all 16 GPUs: b2 starts at once, and a0 takes its share from them in any case."""
    carried_out(tmp_path)
    trace, queues, more = str(tmp_path / "jobs.csv"), str(tmp_path / "queues.toml"), ["students.limit=+4"]
    out = tmp_path / "w"
    told = dally.whatif(
        trace, "2x8", current="fifo", network="none", seeds=[1], queues=queues, quotas=more, out=out
    )
    groups = {group["name"]: group for group in told.summary["queues"]}
    assert told.summary["new"] == "fifo, students.limit=+4", "the policy stays"
    assert groups["students"]["new"]["wait_mean_s"] < groups["students"]["current"]["wait_mean_s"]
    assert sorted(told.queues["name"]) == ["research", "students"]
    assert "limit = 16" in (out / "new-queues.toml").read_text()
    with pytest.raises(InputError, match=r"--quota students.limit=\+4: name the queues"):
        dally.whatif(trace, "2x8", current="fifo", network="none", quotas=more)


def test_a_job_says_that_its_queue_keeps_it_waiting(run: FolderRecord) -> None:
    found = Explainer(run).wait_of("b2", 120.0)
    assert found is not None
    assert found.why.startswith("queue students is at its limit of 12 GPUs; "), (
        "what it held was noted a minute ago"
    )
