"""Advice from jobs that have ended here: in the answer to a submission, and before one; nobody reads another's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dally.report.advice import ScriptRequest, shape_line
from tests.web.conftest import Desk


def run_one(desk: Desk, seconds: float, failed: str = "") -> None:
    """A job of Ana's runs to its end."""
    job = desk.submit(8, seconds + 10.0, user="ana", name="train", limit_s=6000.0, model="gpt2-xl")
    desk.cycle()
    desk.cycle(seconds)
    if failed:
        desk.backend.fail(job, failed)
    desk.cycle(10.0)


def test_a_submission_says_what_earlier_runs_say(desk: Desk) -> None:
    headers = desk.token("ana", "user", "ana")
    body = {"gpus": 8, "name": "train", "limit_s": 6000, "duration_s": 60}
    first = desk.client.post("/api/v1/jobs", json=body, headers=headers).json()
    assert first["advice"] == []
    desk.cycle()
    desk.cycle(70.0)
    for _ in range(6):
        run_one(desk, 600.0)
    lines = desk.client.post("/api/v1/jobs", json=body, headers=headers).json()["advice"]
    assert lines[0].startswith("It is expected to run 10.2 min; ")
    assert lines[0].endswith("(7 earlier jobs of this user, name and size).")
    assert lines[1] == "Your latest 7 runs like this used 9 % of their time limit."
    assert lines[2].startswith("A limit of 15.2 min would do")


def test_what_is_asked_before_a_submission(desk: Desk) -> None:
    ana, ben = desk.token("ana", "user", "ana"), desk.token("ben", "user", "ben")
    for _ in range(4):
        run_one(desk, 600.0)
    run_one(desk, 100.0, "exit code 1: out of GPU memory (CUDA out of memory.)")
    found = desk.get("advice?gpus=8&name=train&limit_s=6000", headers=ana)
    assert (found["alike"], found["failed"]) == (5, ["5"])
    assert 90.0 < found["expected_s"]["0.5"] < 650.0
    assert "Your latest runs like this named the model gpt2-xl, and this one names none." in found["lines"]
    why = "exit code 1: out of GPU memory (CUDA out of memory.)"
    assert f"(5, failed: {why}) ran " in found["lines"][-1]
    other = desk.get("advice?gpus=8&name=train", headers=ben)
    assert (other["alike"], other["failed"]) == (0, [])
    assert desk.client.get("/api/v1/advice?gpus=8&user=ana", headers=ben).status_code == 403
    assert desk.client.get("/api/v1/advice?gpus=0", headers=ben).status_code == 422
    assert desk.get("advice?gpus=8&name=train&user=ana", headers=desk.token("o", "operator"))["alike"] == 5


def test_a_daemon_that_starts_again_knows_the_same(desk: Desk) -> None:
    for _ in range(4):
        run_one(desk, 600.0)
    request = ScriptRequest("ana", "train", 8)
    past = desk.service.past
    assert past.advise(request) == type(past)(desk.service.store).advise(request)
    run_one(desk, 700.0)
    assert [run.duration_s for run in past.advise(request).latest][-1] == pytest.approx(700.0, abs=15.0)
    assert past.advise(request) == type(past)(desk.service.store).advise(request)


def test_farther_places_are_part_of_it(desks: Callable[..., Desk]) -> None:
    desk = desks("dally", "slow")
    found = desk.get("advice?gpus=16&model=gpt2-xl")
    assert found["lines"][-1].startswith("Slowdown of gpt2-xl on 16 GPUs: 1.00 in one rack, ")
    assert found["lines"][-1].endswith(" across the network.")
    assert max(found["slowdowns"].values()) > 1.05
    assert shape_line(ScriptRequest(gpus=16), {"rack": 1.0, "network": 1.01}) == ""
    assert shape_line(ScriptRequest(gpus=16), {}) == ""
