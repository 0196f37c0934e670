"""Explanations of live jobs: what happened, why, and nothing of it that the reader may not see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dally.live.backends import base
from dally.live.config import Setup
from dally.policies.gate.gate import Gate
from tests.web.conftest import Desk


def noted(desk: Desk, job: str, **more: object) -> list[tuple[str, str]]:
    return [(line["kind"], line["text"]) for line in desk.get(f"jobs/{job}/explanation", **more)["history"]]


@pytest.mark.parametrize("policy", ["dally", "dally-paper", "srtf", "fifo", "easy-backfill"])
def test_from_submission_to_its_end(policy: str, desks: Callable[..., Desk]) -> None:
    desk = desks(policy, "slow")
    first = desk.submit(32, 100.0, model="gpt2-xl")
    desk.cycle()
    second = desk.submit(12, 50.0)
    desk.cycle()
    waits = noted(desk, second)
    assert waits[0] == ("submit", "submitted: 12 GPUs")
    found = desk.get(f"jobs/{second}/explanation")
    assert (
        found["job"]["why"].startswith("first in the queue; it needs 12 GPUs and none is free") or policy == "srtf"
    )
    assert list(found["slowdowns"]) == ["rack", "network"]
    for _ in range(40):
        desk.cycle(10.0)
    assert [kind for kind, _ in noted(desk, first)][-1] == "finish"
    kinds = [kind for kind, _ in noted(desk, second)]
    assert (kinds[0], kinds[-1]) == ("submit", "finish")
    assert "start" in kinds
    assert noted(desk, first)[0][1] == "submitted: 32 GPUs, model gpt2-xl"


def test_what_others_did(desk: Desk) -> None:
    job = desk.submit(8, 600.0)
    desk.backend.hold(job)
    desk.cycle()
    desk.backend.release(job)
    desk.backend.refusing.add(job)
    for _ in range(12):
        desk.cycle(30.0)
    desk.backend.refusing.clear()
    for _ in range(5):
        desk.cycle(30.0)
    elsewhere = next(name for name, gpus in desk.backend.free().items() if gpus == 8)
    desk.backend.requeue(job)
    desk.backend.put(job, {elsewhere: 8})
    desk.cycle()
    desk.backend.cancel_job(job)
    desk.cycle()
    story = noted(desk, job)
    kinds = [kind for kind, _ in story]
    assert [kind for kind in kinds if kind in ("hold", "release", "adopt", "cancel")] == [
        "hold", "release", "adopt", "cancel",
    ]  # fmt: skip
    refused = next(text for kind, text in story if kind == "start_failed")
    assert refused.startswith(f"could not be started: job {job} cannot be started")
    assert dict(story)["adopt"] == f"observed running on one machine and taken over: {elsewhere} (8 GPUs)"


def test_what_happens_to_those_who_wait_is_told_in_its_turn(desks: Callable[..., Desk]) -> None:
    desk = desks("fifo", "slow")
    jobs = [desk.submit(32, 100.0) for _ in range(3)]
    desk.cycle()
    desk.cycle(5.0)
    demanded = {"why": "a deadline"}
    assert desk.client.post(f"/api/v1/jobs/{jobs[2]}/priority", json=demanded).status_code == 200
    desk.cycle(10.0)
    story = desk.get(f"jobs/{jobs[2]}/explanation")["history"]
    assert {"act", "wait"} <= {line["kind"] for line in story}
    times_s = [line["at_s"] for line in story]
    assert times_s == sorted(times_s)


def test_failures_are_not_called_finished(desk: Desk) -> None:
    job = desk.submit(8, 600.0)
    desk.cycle()
    desk.cycle()
    desk.backend._become(job, base.FAILED)
    desk.cycle()
    assert noted(desk, job)[-1][1].startswith("failed 3 s after submission: waited 1 s, ran 2 s")


def test_users_hear_no_names_of_others(desks: Callable[..., Desk]) -> None:
    desk = desks("srtf")
    loser = desk.submit(32, 5000.0, user="ann")
    desk.cycle()
    desk.submit(32, 10.0, user="bob")
    desk.cycle()
    ann = desk.token("ann", "user", "ann")
    assert any("preempted for another1" in text for _, text in noted(desk, loser, headers=ann))


QUEUES = """
[queues.research]
limit = 8
match = {user = ["ann"]}

[queues.rest]
default = true
"""


def test_what_its_queue_has_to_do_with_it(desks: Callable[..., Desk], tmp_path: Path) -> None:
    (tmp_path / "queues.toml").write_text(QUEUES)
    desk = desks(setup=Setup("dally", queues=str(tmp_path / "queues.toml")))
    desk.submit(8, user="ann")
    desk.cycle()
    second = desk.submit(8, user="ann")
    desk.cycle()
    job = desk.get(f"jobs/{second}")
    assert job["why"].startswith("queue research is at its limit: it holds 8 of 8 GPUs; ")
    assert job["reason"] == "queue"
    noted = desk.get(f"jobs/{second}/explanation")["history"]
    assert any("queue research is at its limit" in line["text"] for line in noted)
    desk.cycle(30.0)
    later = desk.get(f"jobs/{second}")["why"]
    assert later.startswith("queue research is at its limit of 8 GPUs; "), "what it holds was noted long ago"
    scheduler = desk.service.daemon.scheduler
    assert scheduler is not None
    assert isinstance(scheduler.state.policy, Gate)
    assert scheduler.state.policy.take_notes() == []  # what was noted is in the store, and kept nowhere else


def test_where_the_slowdowns_of_a_job_come_from_that_names_no_model(desks: Callable[..., Desk]) -> None:
    desk = desks("dally", "slow")
    named = desk.submit(16, 20.0, model="gpt2-xl", name="gpt2-run1")
    desk.cycle()
    known = desk.get(f"jobs/{named}/explanation")
    assert known["slowdowns_from"] == ""
    nameless = desk.submit(16, 100.0, name="zzz")
    desk.cycle()
    before = desk.get(f"jobs/{nameless}/explanation")
    assert before["slowdowns_from"].endswith("the catalogue: no job has shown yet what it is like")
    for _ in range(10):
        desk.cycle(10.0)
    alike = desk.submit(16, 100.0, name="gpt2-run2")
    desk.cycle()
    after = desk.get(f"jobs/{alike}/explanation")
    assert after["slowdowns_from"].endswith(": jobs with names and commands like its own")
    assert after["slowdowns"]["network"] > before["slowdowns"]["network"]
