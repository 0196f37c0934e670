"""Jobs, stories, loads and trends of a finished run agree with what it left."""

from __future__ import annotations

import polars as pl
import pytest

from dally.report.explanation.job_timeline import Explainer
from dally.runs.folder import FolderRecord
from dally.web.auth.tokens import USER, VIEWER, Caller
from dally.web.replay.replay_app import ReplayScene

ANY_USER = Caller("", VIEWER)


@pytest.fixture(scope="module")
def scene(day: FolderRecord) -> ReplayScene:
    return ReplayScene(day, "day")


def test_every_job_at_the_end_is_as_jobs_csv_says(scene: ReplayScene, day: FolderRecord) -> None:
    finished = 0
    for row in day.jobs.iter_rows(named=True):
        found = scene.find(ANY_USER, row["job_id"], None)
        if row["status"] == "pending":
            assert found is None
            continue
        assert found is not None
        assert (found.state, found.preemptions) == (row["status"], row["preemptions"])
        spent = scene.explanation(ANY_USER, found, None).spent
        assert spent.waiting_s == pytest.approx(row["queue_s"], abs=1e-3)
        if row["status"] == "finished":
            finished += 1
            assert found.work_s == pytest.approx(found.spec.duration_s)
            worked_s = row["compute_s"] + row["comm_s"]
            assert found.work_s * row["slowdown"] == pytest.approx(worked_s, rel=1e-3, abs=0.1)
            assert spent.useful_s + spent.network_s == pytest.approx(worked_s, rel=1e-3, abs=0.1)
            assert spent.other_s == pytest.approx(row["run_s"] - worked_s, rel=1e-3, abs=0.1)
    assert finished > 20
    total, latest = scene.ended(ANY_USER, "", 0, 5, None)
    assert total == finished
    assert [job.since_s for job in latest] == sorted((job.since_s for job in latest), reverse=True)


def test_a_story_ends_at_the_moment_that_is_shown(scene: ReplayScene, day: FolderRecord) -> None:
    row = max(day.jobs.iter_rows(named=True), key=lambda row: row["run_s"])
    at_s = row["start_s"] + 60.0
    job = scene.find(ANY_USER, row["job_id"], at_s)
    assert job is not None
    told = scene.explanation(ANY_USER, job, at_s)
    assert [line.text for line in told.history] == [
        line.text for line in Explainer(day).history(row["job_id"], at_s)
    ]
    assert max(line.at_s for line in told.history) <= at_s
    assert scene.find(ANY_USER, row["job_id"], row["submit_s"] - 1.0) is None
    assert scene.find(Caller("x", USER, "somebody"), row["job_id"], at_s) is None
    assert scene.find(ANY_USER, "nobody", at_s) is None


def test_waiting_jobs_are_in_the_order_that_explain_has(scene: ReplayScene, day: FolderRecord) -> None:
    at_s = Explainer(day).busiest_s()
    expected = [wait.job_id for wait in Explainer(day).waiting(at_s)]
    assert len(expected) > 1
    assert [line.job_id for line in scene.status(at_s).jobs if line.place is not None] == expected


def test_loads_are_those_last_logged(scene: ReplayScene, day: FolderRecord) -> None:
    at_s = 40_000.0
    expected: dict[str, float] = {}
    for time_s, link, load in day.all_events.filter(pl.col("link").is_not_null()).select(
        "time_s", "link", "load"
    ).iter_rows():  # fmt: skip
        if time_s <= at_s:
            expected[link] = load
    assert scene.loads(at_s) == expected


def test_trends_add_up_to_what_the_run_did(scene: ReplayScene, day: FolderRecord) -> None:
    first_s, last_s = scene.span()
    found = scene.trends(first_s, last_s, 50)
    values = {one.name: one.values for one in found.series}
    used = sum(value or 0.0 for value in values["gpus_used"]) * found.every_s
    assert used == pytest.approx(float((day.jobs["run_s"] * day.jobs["gpus"]).sum()), rel=1e-6)
    assert sum(value or 0.0 for value in values["preemptions"]) == day.summary["preemptions"]
    assert min(value or 0.0 for value in values["gpus_up"]) == 56.0
    waited = sum(
        sum(value or 0.0 for value in row) for name, row in values.items() if name.startswith("waiting_jobs")
    )
    assert waited * found.every_s == pytest.approx(float(day.jobs["queue_s"].sum()), rel=1e-6)
    assert all(
        (useful or 0.0) <= (used or 0.0) + 1e-9
        for useful, used in zip(values["gpus_useful"], values["gpus_used"], strict=True)
    )
    assert len(found.at_s) == 50
    assert 1.0 < max(value or 0.0 for value in values["fragmentation"]) <= 100.0  # per cent
