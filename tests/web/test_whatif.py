"""What-ifs through the API: one at a time, for those who see all jobs, and nothing is touched."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

import dally
from dally.live.config import Setup
from dally.live.forecast.outlook import content_of
from dally.live.forecast.whatif.from_now import Report
from dally.live.forecast.whatif.runner import ProcessRunner, Runner, WhatIfTask
from dally.live.history.recorded_trace import history_csv
from dally.live.store.schema import METADATA
from dally.sweep.whatif.change import WhatIfAnswer
from tests.web.conftest import Desk

MORE = {"cluster_delta": "+1 rack", "futures": 3}


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Desk]:
    """All 32 GPUs are taken for ten minutes, and two jobs wait."""
    desk = Desk(tmp_path / "service", "fifo")
    desk.service.whatifs.make_runner = Runner  # here: a process takes a second to start
    for gpus, user in ((32, "ann"), (16, "bob"), (8, "ann")):
        desk.submit(gpus, 600.0, user=user)
        desk.cycle()
    yield desk
    desk.service.close()


def told(desk: Desk, asked: dict[str, Any], **more: Any) -> dict[str, Any]:
    begun = desk.client.post("/api/v1/whatif", json=asked, **more)
    assert begun.status_code == 202, begun.text
    desk.service.whatifs.wait()
    found: dict[str, Any] = desk.get(f"whatif/{begun.json()['number']}", **more)
    return found


def test_more_racks_for_those_who_wait(busy: Desk) -> None:
    scheduler = busy.service.daemon.scheduler
    assert scheduler is not None
    before = (busy.service.daemon.status, content_of(scheduler), rows(busy))
    found = told(busy, MORE)
    assert (found["state"], found["done"], found["total"]) == ("done", 3, 3)
    assert (busy.service.daemon.status, content_of(scheduler), rows(busy)) == before
    answer = found["answer"]
    assert answer["headline"].startswith("fifo, +1 rack instead of fifo: jobs that wait now wait ")
    waits = next(one for one in answer["figures"] if one["name"] == "wait_mean_s")
    assert waits["before"] == pytest.approx(600.0, abs=3.0)
    assert waits["after"] == pytest.approx(300.0, abs=3.0)  # 16 of 48 GPUs are free, and the line goes on
    assert [one["user"] for one in answer["winners"]] == ["bob"]


def rows(desk: Desk) -> list[Any]:
    """All that the store holds."""
    return [desk.service.store.tuples(select(table)) for table in METADATA.sorted_tables]


def test_who_may_ask_and_what(busy: Desk) -> None:
    ann, eve = busy.token("ann", "user", "ann"), busy.token("eve", "viewer")
    assert busy.client.post("/api/v1/whatif", json=MORE, headers=ann).status_code == 403
    number = told(busy, MORE, headers=eve)["number"]
    assert busy.client.get(f"/api/v1/whatif/{number}", headers=ann).status_code == 403
    for wrong, why in (
        ({"policy": "fife"}, "did you mean"),
        ({"cluster_delta": "-3 machines"}, "job '1' asks for 32"),
    ):
        answer = busy.client.post("/api/v1/whatif", json=wrong, headers=eve)
        assert (answer.status_code, why in answer.json()["detail"]) == (422, True)
    assert busy.client.get("/api/v1/whatif/nobody", headers=eve).status_code == 404
    failed = told(busy, {"start": "history", "policy": "dally"}, headers=eve)
    assert (failed["state"], failed["why"]) == (
        "failed",
        "no job has ended in that time: there is nothing to tell yet",
    )


class Endless(Runner):
    """Never comes to an end by itself."""

    def run(self, task: WhatIfTask, report: Report) -> WhatIfAnswer:
        while True:
            super().run(task, report)


def test_one_at_a_time_until_it_is_taken_back(busy: Desk) -> None:
    busy.service.whatifs.make_runner = Endless
    first = busy.client.post("/api/v1/whatif", json=MORE).json()
    second = busy.client.post("/api/v1/whatif", json=MORE)
    assert (second.status_code, "wait for it, or cancel it" in second.json()["detail"]) == (409, True)
    busy.cycle()  # the daemon goes on
    assert busy.client.delete(f"/api/v1/whatif/{first['number']}").json()["state"] == "cancelled"
    busy.service.whatifs.wait()
    busy.service.whatifs.make_runner = Runner
    assert told(busy, MORE)["state"] == "done"


def test_a_process_of_its_own_says_the_same_and_can_be_stopped(busy: Desk) -> None:
    here = told(busy, MORE)["answer"]
    busy.service.whatifs.make_runner = ProcessRunner
    assert told(busy, MORE)["answer"] == here
    number = busy.client.post("/api/v1/whatif", json=MORE | {"futures": 200}).json()["number"]
    began_s = time.monotonic()
    assert busy.client.delete(f"/api/v1/whatif/{number}").json()["state"] == "cancelled"
    busy.service.whatifs.wait()
    assert time.monotonic() - began_s < 5.0


def test_the_last_days_are_those_of_the_command(busy: Desk, tmp_path: Path) -> None:
    for _ in range(4):
        busy.cycle(700.0)
    found = told(busy, {"start": "history", "policy": "fifo-backfill", "cluster_delta": "+1 rack"})
    path = tmp_path / "jobs.csv"
    path.write_text(history_csv(busy.service.store, 0.0, 1e6))
    asked = dally.whatif(
        path, busy.service.topology, "fifo-backfill", current="fifo", network="none", cluster_delta="+1 rack"
    )
    assert found["answer"]["headline"] == asked.answer
    by_name = {one["name"]: (one["before"], one["after"]) for one in found["answer"]["figures"]}
    total = json.loads(json.dumps(asked.summary))["total"]
    assert by_name == {name: (total["current"][name], total["new"][name]) for name in by_name}


def test_other_quotas_from_now_on(tmp_path: Path) -> None:
    """A limit of 8 lets one of a team's jobs run at a time; without it they would all start at once."""
    (tmp_path / "queues.toml").write_text("[queues.a]\nlimit = 8\ndefault = true\n")
    desk = Desk(tmp_path / "service", setup=Setup("fifo", queues=str(tmp_path / "queues.toml")))
    desk.service.whatifs.make_runner = Runner
    for _ in range(3):
        desk.submit(8, 600.0)
    desk.cycle()
    found = told(desk, {"quotas": ["a.limit=32"], "futures": 2})
    wrong = desk.client.post("/api/v1/whatif", json={"quotas": ["b.limit=32"]})
    desk.service.close()
    assert found["after"] == "fifo, a.limit=32"
    starts = next(one for one in found["answer"]["figures"] if one["name"] == "first_start_s")
    assert (starts["before"], starts["after"]) == (pytest.approx(900.0, abs=30.0), pytest.approx(0.0, abs=3.0))
    assert (wrong.status_code, "'b'" in wrong.json()["detail"]) == (422, True)
