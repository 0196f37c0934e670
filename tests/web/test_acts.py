"""What people do to jobs and machines: it works, it is written down with who and why, and stories tell it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from dally.live.backends import base
from dally.live.backends.base import BackendError
from dally.live.config import Setup
from dally.live.store.database import StoreError
from dally.live.store.schema import ACTIONS
from tests.web.conftest import ME, Desk

WHY = {"why": "maintenance of rack 3"}


def act(desk: Desk, path: str, status: int = 200, **body: Any) -> Any:
    """Do it, with a reason unless there is one."""
    headers = body.pop("headers", {})
    answer = desk.client.post(f"/api/v1/{path}", json=WHY | body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


def story(desk: Desk, job: str) -> list[str]:
    return [line["text"] for line in desk.get(f"jobs/{job}/explanation")["history"]]


def test_a_waiting_job_is_held_and_released(desk: Desk) -> None:
    op = desk.token("alice", "operator")
    job = desk.submit(8)
    act(desk, f"jobs/{job}/hold", 404, headers=op)  # no cycle has seen it yet
    desk.backend.refusing.add(job)
    desk.cycle()
    done = act(desk, f"jobs/{job}/hold", headers=op)
    assert done["text"] == "put on hold by alice: maintenance of rack 3"
    desk.backend.refusing.clear()
    for _ in range(50):
        desk.cycle(10.0)
    found = desk.get(f"jobs/{job}", headers=op)
    assert (found["state"], found["why"], found["held_by"]) == ("held", f"held by alice: {WHY['why']}", "alice")
    assert desk.backend.starts == []
    again = act(desk, f"jobs/{job}/hold", 409, headers=op)
    assert again["detail"] == f"job '{job}' is held already, by alice: maintenance of rack 3"
    act(desk, f"jobs/{job}/release", why="done", headers=op)
    for _ in range(5):
        desk.cycle()
    assert desk.backend.jobs[job].state == base.RUNNING
    told = [line["text"] for line in desk.get(f"jobs/{job}/explanation", headers=op)["history"]]
    assert "put on hold by alice: maintenance of rack 3" in told
    assert "taken off hold by alice: done" in told
    assert not any(line.startswith("put on hold;") or line == "taken off hold" for line in told)
    rows = desk.get("actions", headers=op)["actions"]
    assert [(row["who"], row["what"], row["job_id"], row["outcome"]) for row in rows] == [
        ("alice", "release", job, "done"), ("alice", "hold", job, "done"),
    ]  # fmt: skip


def test_a_running_job_that_is_held_gives_its_gpus_back(desk: Desk) -> None:
    job, other = desk.submit(32), desk.submit(32)
    desk.cycle()
    assert desk.backend.jobs[job].state == base.RUNNING
    act(desk, f"jobs/{job}/hold")
    for _ in range(3):
        desk.cycle()
    assert desk.get(f"jobs/{job}")["state"] == "held"
    assert {name: told.state for name, told in desk.backend.jobs.items()} == {job: base.QUEUED, other: base.RUNNING}
    assert story(desk, job)[-2:] == [f"put on hold by {ME}: {WHY['why']}", "preempted; waits again"]
    act(desk, f"jobs/{job}/release")
    desk.backend.cancel_job(other)
    for _ in range(3):
        desk.cycle()
    assert desk.backend.jobs[job].state == base.RUNNING


def test_a_hold_of_the_cluster_is_not_ours_to_release(desk: Desk) -> None:
    job = desk.submit(8)
    desk.backend.hold(job)
    desk.cycle()
    assert act(desk, f"jobs/{job}/release", 409)["detail"] == (
        f"job '{job}': fake holds it; only its own tools release it"
    )
    act(desk, f"jobs/{job}/hold")
    desk.backend.release(job)
    desk.cycle()
    assert desk.get(f"jobs/{job}")["state"] == "held"


def test_a_restart_forgets_nothing_and_the_end_everything(desk: Desk) -> None:
    job = desk.submit(32)
    desk.cycle()
    act(desk, f"jobs/{job}/hold")
    desk.service.daemon._scheduler = None  # it dies before it could act on it
    for _ in range(3):
        desk.cycle()
    assert desk.get(f"jobs/{job}")["state"] == "held"
    assert desk.client.delete(f"/api/v1/jobs/{job}?why=no+longer+needed").json()["text"] == (
        f"cancel requested by {ME}: no longer needed"
    )
    desk.cycle()
    scheduler = desk.service.daemon.scheduler
    assert scheduler is not None
    assert scheduler.overrides.of("hold") == {}
    assert story(desk, job)[-2:] == [f"cancel requested by {ME}: no longer needed", "cancelled"]
    assert act(desk, f"jobs/{job}/hold", 409)["detail"] == f"job '{job}' has ended already: cancelled"


def test_who_may(desk: Desk) -> None:
    hers, his = desk.submit(8, user="ann"), desk.submit(8, user="bob")
    desk.cycle()
    ann, op, viewer = desk.token("ann", "user", "ann"), desk.token("op", "operator"), desk.token("v", "viewer")
    assert act(desk, f"jobs/{hers}/hold", headers=ann, why="")["text"] == "put on hold by ann"
    act(desk, f"jobs/{his}/hold", 404, headers=ann)
    act(desk, f"jobs/{his}/hold", 403, headers=viewer)
    assert act(desk, f"jobs/{his}/hold", 422, headers=op, why=" ")["detail"].startswith("why: must be given")
    act(desk, f"jobs/{his}/hold", 422, headers=op, why="x" * 501)
    act(desk, f"jobs/{his}/hold", headers=op)
    act(desk, f"jobs/{hers}/release", headers=op)
    mine = desk.get("actions", headers=ann)
    assert (mine["total"], {row["job_id"] for row in mine["actions"]}) == (2, {hers})
    assert desk.get(f"actions?job_id={his}", headers=ann)["total"] == 0
    assert desk.get("actions?limit=1&offset=1", headers=viewer)["total"] == 3


def test_what_an_operator_holds_no_user_releases(desk: Desk) -> None:
    job = desk.submit(8, user="ann")
    desk.cycle()
    ann, op = desk.token("ann", "user", "ann"), desk.token("op", "operator")
    act(desk, f"jobs/{job}/hold", headers=ann, why="")
    act(desk, f"jobs/{job}/release", headers=ann, why="")
    act(desk, f"jobs/{job}/hold", headers=ann, why="")
    act(desk, f"jobs/{job}/hold", headers=op)  # over hers
    act(desk, f"jobs/{job}/hold", 409, headers=ann)
    desk.service.daemon._scheduler = None  # a restart
    desk.cycle()
    assert act(desk, f"jobs/{job}/release", 409, headers=ann)["detail"] == (
        f"job '{job}' is held by op: {WHY['why']}; only operators release what operators hold"
    )
    act(desk, f"jobs/{job}/release", headers=op)
    assert desk.get("actions", headers=op)["total"] == 5


def test_a_dry_run_does_nothing_to_the_cluster(desks: Callable[..., Desk]) -> None:
    desk = desks(dry_run=True)
    running, waiting = desk.submit(8), desk.submit(8)
    desk.backend.put(running, {desk.backend.topology().names[0][0]: 8})
    desk.cycle()
    refused = {"detail": "this is a dry run: nothing is done to the cluster"}
    assert act(desk, f"jobs/{running}/hold", 409) == refused
    assert desk.client.delete(f"/api/v1/jobs/{running}").json() == refused
    answer = desk.client.post("/api/v1/jobs", json={"gpus": 8, "duration_s": 60})
    assert (answer.status_code, answer.json()) == (409, refused)
    act(desk, f"jobs/{waiting}/hold")  # that is between us and the policy
    desk.cycle()
    assert {job: told.state for job, told in desk.backend.jobs.items()} == {
        running: base.RUNNING, waiting: base.QUEUED,
    }  # fmt: skip
    assert desk.get("actions")["total"] == 1


def test_written_before_it_is_done(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the backend refuses is in the log; what cannot be written does not happen."""
    job = desk.submit(8)
    desk.cycle()

    def refuse(_job: str) -> None:
        assert desk.service.store.rows(select(ACTIONS))[0]["outcome"] == "asked"
        raise BackendError("not today")

    monkeypatch.setattr(desk.backend, "cancel_job", refuse)
    assert desk.client.delete(f"/api/v1/jobs/{job}").json() == {"detail": "not today"}
    assert desk.get("actions")["actions"][0]["outcome"] == "refused: not today"

    def broken() -> Any:
        raise StoreError("disk full")

    monkeypatch.setattr(desk.service.store, "transaction", broken)
    assert act(desk, f"jobs/{job}/hold", 503)["detail"] == "the store cannot be written: disk full; ask again"
    monkeypatch.undo()
    desk.cycle()
    assert desk.get(f"jobs/{job}")["state"] != "held"


def test_names_of_others_stay_theirs(desks: Callable[..., Desk]) -> None:
    desk = desks("srtf")
    job = desk.submit(8, user="ann")
    desk.cycle()
    op, ann = desk.token("op", "operator"), desk.token("ann", "user", "ann")
    nasty = "<b>\N{RIGHT-TO-LEFT OVERRIDE}&"
    act(desk, f"jobs/{job}/hold", headers=op, why=nasty)
    desk.cycle()
    assert desk.get(f"jobs/{job}", headers=ann)["why"] == f"held by op: {nasty}"
    act(desk, f"jobs/{job}/release", 422, headers=op, why="a\nb")


@pytest.mark.parametrize("policy", ["dally", "srtf"])
def test_a_machine_drains_and_comes_back(policy: str, desks: Callable[..., Desk]) -> None:
    desk = desks(policy)
    job = desk.submit(4)
    desk.cycle()
    desk.cycle()
    machine = next(iter(desk.get(f"jobs/{job}")["placement"]))
    act(desk, f"nodes/{machine}/drain")
    desk.cycle()
    node = next(node for node in desk.get("nodes")["nodes"] if node["name"] == machine)
    assert (node["state"], node["reason"], node["free"]) == ("draining", WHY["why"], 0)
    others = [desk.submit(4) for _ in range(6)]
    for _ in range(3):
        desk.cycle()
    assert desk.backend.jobs[job].state == base.RUNNING  # what runs goes on
    assert all(desk.backend.jobs[other].state == base.RUNNING for other in others)  # elsewhere, and at once
    assert desk.backend.held()[machine] == 4
    late = desk.submit(4)
    desk.cycle()
    assert desk.get(f"jobs/{late}")["why"] == "first in the queue; it needs 4 GPUs and none is free"
    assert not any("could not be started" in text for text in story(desk, late))
    act(desk, f"nodes/{machine}/resume", why="mended")
    for _ in range(2):
        desk.cycle()
    assert desk.backend.jobs[late].placement == {machine: 4}
    assert [(row["what"], row["machine"]) for row in desk.get(f"actions?machine={machine}")["actions"]] == [
        ("resume", machine), ("drain", machine),
    ]  # fmt: skip


def test_who_may_drain(desks: Callable[..., Desk]) -> None:
    desk = desks()
    name = desk.get("nodes")["nodes"][0]["name"]
    ann, op = desk.token("ann", "user", "ann"), desk.token("op", "operator")
    act(desk, f"nodes/{name}/drain", 403, headers=ann)
    act(desk, f"nodes/{name}/drain", 422, headers=op, why="")
    act(desk, "nodes/nowhere/drain", 404, headers=op)
    desk.backend.failing = "slurmctld is away"
    assert act(desk, f"nodes/{name}/drain", 409, headers=op) == {"detail": "slurmctld is away"}
    assert desk.get("actions", headers=op)["actions"][0]["outcome"] == "refused: slurmctld is away"
    assert desk.get("actions", headers=ann)["total"] == 0
    dry = desks(dry_run=True)
    assert "dry run" in act(dry, f"nodes/{name}/drain", 409)["detail"]


def test_first_in_line(desks: Callable[..., Desk]) -> None:
    desk = desks("fifo")
    running, early, late = (desk.submit(32, seconds) for seconds in (100.0, 600.0, 600.0))
    desk.cycle()
    assert act(desk, f"jobs/{late}/priority")["text"] == f"put first in the queue by {ME}: {WHY['why']}"
    desk.cycle()
    lines = {job["job_id"]: job for job in desk.get("jobs")["jobs"]}
    assert (lines[late]["place"], lines[late]["first_by"], lines[early]["place"]) == (1, ME, 2)
    assert lines[late]["why"].startswith("first in the queue")
    act(desk, f"jobs/{late}/priority", 409)
    desk.service.daemon._scheduler = None  # a restart
    desk.cycle()
    assert desk.get(f"jobs/{late}")["place"] == 1
    act(desk, f"jobs/{late}/priority", first=False, why="enough")
    act(desk, f"jobs/{late}/priority", 409, first=False)
    desk.cycle()
    assert desk.get(f"jobs/{late}")["place"] == 2
    act(desk, f"jobs/{late}/priority")
    desk.cycle(100.0)
    desk.cycle()
    assert [desk.backend.jobs[job].state for job in (running, late, early)] == [
        base.FINISHED, base.RUNNING, base.QUEUED,
    ]  # fmt: skip
    assert f"put back in its place in the queue by {ME}: enough" in story(desk, late)


@pytest.mark.parametrize("policy", ["dally", "dally-paper"])
def test_how_long_to_hold_out(policy: str, desks: Callable[..., Desk]) -> None:
    """3 GPUs are free on each machine, and a gang of 6 would rather have one."""
    desk = desks(policy, "slow")
    for _ in range(4):
        desk.submit(5, 100_000.0)
    act(desk, "timers", gpus=6, seconds=5000)
    desk.cycle()
    job = desk.submit(6, 100_000.0, model="gpt2-xl")
    desk.cycle()
    assert desk.get(f"jobs/{job}")["state"] == "waiting"
    assert "any place from now on" in act(desk, f"jobs/{job}/delay", seconds=0)["text"]
    desk.service.daemon._scheduler = None  # a restart
    desk.cycle()
    desk.cycle()
    found = desk.get(f"jobs/{job}")
    assert (desk.backend.jobs[job].state, found["delay_by"]) == (base.RUNNING, ME)
    other = desk.submit(6, 100_000.0, model="gpt2-xl")
    desk.cycle()
    act(desk, f"jobs/{other}/delay", 409, seconds=None)
    act(desk, f"jobs/{other}/delay", seconds=60)
    desk.cycle()
    assert desk.get(f"jobs/{other}")["state"] == "waiting"
    act(desk, "timers", gpus=6, seconds=None)
    act(desk, "timers", 409, gpus=6, seconds=None)
    assert [row["message"] for row in desk.get("actions?limit=2")["actions"]] == [
        "gangs of 6 GPUs set to delay as the policy has it",
        "set to delay for a closer place for 60.0 s",
    ]


def test_a_policy_without_timers_says_so(desks: Callable[..., Desk]) -> None:
    desk = desks("srtf")
    job = desk.submit(8)
    desk.cycle()
    refused = act(desk, f"jobs/{job}/delay", 409, seconds=0)
    assert refused["detail"] == "policy srtf has no timers: its jobs do not delay for closer places"
    act(desk, "timers", 409, gpus=8, seconds=60)
    act(desk, "timers", 422, gpus=0, seconds=60)
    ann = desk.token("ann", "user", "ann")
    act(desk, f"jobs/{job}/priority", 403, headers=ann)


def test_what_was_said_of_timers_is_taken_back_under_a_policy_without(desks: Callable[..., Desk]) -> None:
    desk = desks()
    job = desk.submit(8)
    desk.cycle()
    act(desk, f"jobs/{job}/delay", seconds=60)
    act(desk, "timers", gpus=8, seconds=60)
    desk.service.config = replace(desk.config, setup=Setup("srtf"))
    desk.service.daemon._scheduler = None  # a restart
    desk.cycle()
    act(desk, f"jobs/{job}/delay", 409, seconds=30)
    act(desk, f"jobs/{job}/delay", seconds=None)
    act(desk, "timers", gpus=8, seconds=None)
    scheduler = desk.service.daemon.scheduler
    assert scheduler is not None
    assert not scheduler.overrides.of("delay")
    assert not scheduler.overrides.of("timer")


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_dialogs(desk: Desk) -> None:
    """What the page's dialogs ask, do and say; without a browser."""
    waiting, job = desk.submit(32, user="ann"), desk.submit(32, user="ann", name="<i>&")
    desk.cycle()
    op, ann, viewer = desk.token("op", "operator"), desk.token("a", "user", "ann"), desk.token("v", "viewer")

    def post(path: str, text: str, header: dict[str, str]) -> Any:
        return desk.client.post(path, content=text.encode(), headers=FORM | header)

    for what in ("hold", "cancel", "priority", "delay"):
        shown = desk.client.get(f"/act/{what}/{job}", headers=op)
        assert shown.status_code == 200
        assert "&lt;i&gt;&amp;" in shown.text
        assert desk.client.get(f"/act/{what}/{job}", headers=viewer).status_code == 403
    assert desk.client.get(f"/act/priority/{job}", headers=ann).status_code == 403
    assert desk.client.get("/act/hold/99", headers=op).status_code == 404
    assert desk.client.get(f"/act/fly/{job}", headers=op).status_code == 404
    assert "why: must be given" in post(f"/act/hold/{job}", "why=", op).text.lower()
    assert "at most 500 characters" in post(f"/act/hold/{job}", f"why={'x' * 501}", op).text
    done = post(f"/act/hold/{job}", "why=r%C3%A4ume", op)
    assert json.loads(done.headers["hx-trigger"]) == {"dally:acted": "put on hold by op: räume"}
    assert "only operators release what operators hold" in post(f"/act/release/{job}", "", ann).text
    assert post(f"/act/release/{job}", "why=now", op).headers["hx-trigger"]
    assert post(f"/act/priority/{job}", "why=now", op).headers["hx-trigger"]
    assert post(f"/act/delay/{job}", "why=now&how=wait&minutes=x", op).text.count("Minutes: must be a number") == 1
    assert post(f"/act/delay/{job}", "why=now&how=wait&minutes=2", op).headers["hx-trigger"]
    assert "gpus: " in post("/act/timer/new", "why=now&how=any&gpus=", op).text.lower()
    assert post("/act/timer/8", "why=now&how=any&gpus=8", op).headers["hx-trigger"]
    machine = desk.backend.topology().names[0][0]
    assert post(f"/act/drain/{machine}", "why=now", op).headers["hx-trigger"]
    desk.cycle()
    assert "It was drained: now." in desk.client.get(f"/act/resume/{machine}", headers=op).text
    assert "&amp;) back to its place in the queue?" in desk.client.get(f"/act/priority/{job}", headers=op).text
    page = desk.client.get("/log", headers=op).text
    assert "Gangs of 8 GPUs take any place, by op: now" in page
    assert "Gangs of 8" not in desk.client.get("/log", headers=ann).text
    assert "set to delay for a closer place for 2.0 min" in page
    assert post(f"/act/cancel/{waiting}", "why=over", op).headers["hx-trigger"]
    assert desk.get("actions?limit=1", headers=op)["actions"][0]["why"] == "over"


def test_a_daemon_that_stands_by_takes_no_orders(desk: Desk) -> None:
    """The store may be shared, and the one that leads would never hear of what is written there."""
    job = desk.submit(8)
    desk.cycle()
    desk.backend.begin_term()
    for path in (f"jobs/{job}/hold", f"jobs/{job}/priority", "nodes/rack0-m0/drain"):
        assert act(desk, path, 409)["detail"].endswith("another daemon leads")
    assert desk.service.store.rows(select(ACTIONS)) == []
