"""Estimates through the API: of a job that waits, of one that is not submitted, and how they held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dally.cli.live.queue import eta_lines, start_text
from dally.live.forecast.worker import Forecaster
from tests.web.conftest import Desk


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Desk]:
    """All 32 GPUs are taken for ten minutes, and one job waits."""
    desk = Desk(tmp_path / "service", "fifo")
    desk.service.outlook.forecaster = Forecaster()  # here: a worker takes a second to start
    desk.service.daemon.watchers.append(desk.service.outlook.on_cycle)
    desk.submit(32, 600.0, user="ann")
    desk.cycle()
    desk.waiting = desk.submit(16, 600.0, user="bob")  # type: ignore[attr-defined]
    desk.cycle()
    yield desk
    desk.service.close()


def test_a_waiting_job_has_an_interval(busy: Desk) -> None:
    waiting: str = busy.waiting  # type: ignore[attr-defined]
    found = busy.get(f"jobs/{waiting}/eta")
    assert found["middle_s"] == pytest.approx(602.0, abs=2.0)
    assert found["low_s"] < 120.0 < 6000.0 < found["high_s"]  # nothing is known yet of how well estimates hold
    assert not found["calibrated"]
    assert (found["confidence"], found["futures"], found["seen"]) == (0.8, 100, 1.0)
    assert sum(tier["chance"] for tier in found["tiers"]) == pytest.approx(1.0)
    assert busy.client.get("/api/v1/jobs/nobody/eta").status_code == 404
    running = next(job["job_id"] for job in busy.get("jobs")["jobs"] if job["state"] != "waiting")
    assert busy.client.get(f"/api/v1/jobs/{running}/eta").status_code == 409


def test_a_preview_says_the_same_and_what_would_start_now(busy: Desk) -> None:
    found = busy.client.post("/api/v1/preview", json={"gpus": 32, "duration_s": 60.0}).json()
    assert found["middle_s"] == pytest.approx(1202.0, abs=3.0)
    assert (found["starts_now"], found["gpus_now"]) == (False, 0)
    busy.cycle(700.0)
    busy.cycle()
    half = busy.client.post("/api/v1/preview", json={"gpus": 32, "duration_s": 60.0}).json()
    assert (half["starts_now"], half["gpus_now"]) == (False, 16)
    now = busy.client.post("/api/v1/preview", json={"gpus": 8, "duration_s": 60.0}).json()
    assert now["starts_now"]
    assert busy.client.post("/api/v1/preview", json={"gpus": 33}).status_code == 422
    assert len(busy.get("jobs")["jobs"]) == 1  # none of these was submitted


def test_the_queue_has_its_outlook_and_others_jobs_are_not_in_it(busy: Desk) -> None:
    busy.service.outlook.look()
    waiting: str = busy.waiting  # type: ignore[attr-defined]
    assert [one["job_id"] for one in busy.get("outlook")["etas"]] == [waiting]
    ann, bob = busy.token("ann", "user", "ann"), busy.token("bob", "user", "bob")
    assert busy.get("outlook", headers=ann) == {"etas": []}
    assert len(busy.get("outlook", headers=bob)["etas"]) == 1
    assert busy.client.get(f"/api/v1/jobs/{waiting}/eta", headers=ann).status_code == 404


def test_what_was_said_is_compared_with_what_came(busy: Desk) -> None:
    busy.service.outlook.look()
    assert busy.get("calibration") == {"confidence": 0.8, "days": []}
    busy.cycle(700.0)
    busy.cycle()
    (day,) = busy.get("calibration")["days"]
    assert (day["day"], day["answers"]) == ("1970-01-01", 1)
    assert day["error_s"] == pytest.approx(100.0, abs=5.0)
    assert (day["held"], day["first_answers"], day["first_held"]) == (1.0, 1, 1.0)
    assert busy.service.outlook._learnt().known() == 1
    store = busy.service.store
    store.prune(-1e9, -1e9)
    assert len(busy.get("calibration")["days"]) == 1
    store.prune(1e9, 1e9)
    assert busy.get("calibration")["days"] == []
    assert busy.get("outlook") == {"etas": []}


def test_a_job_taken_back_teaches_nothing(busy: Desk) -> None:
    busy.service.outlook.look()
    busy.client.delete(f"/api/v1/jobs/{busy.waiting}")  # type: ignore[attr-defined]
    busy.cycle()
    busy.cycle(700.0)
    assert busy.get("calibration")["days"] == []


def test_words_of_an_estimate(busy: Desk) -> None:
    found = busy.client.post("/api/v1/preview", json={"gpus": 32, "duration_s": 60.0}).json()
    assert eta_lines(found)[0].endswith("from 100 futures.")
    assert start_text(found | {"high_s": None}).startswith("after ")
    free = {"tier": "rack", "chance": 0.0, "start_s": None, "slowdown": None, "now": 1.5}
    assert "(not calibrated yet)" in eta_lines(found)[0]
    assert "(80%)" in eta_lines(found | {"calibrated": True})[0]
    told = eta_lines(found | {"tiers": [free], "pays_from_s": 600.0, "gpus_now": 8})
    assert told[1:] == [
        "Free now: one rack, slowdown 1.50; waiting is sooner done from 10 min of work on.",
        "With 8 GPUs it would start now.",
    ]
    assert eta_lines(found | {"tiers": [], "starts_now": True}) == ["Starts now."]
