"""Pages as the server makes them, without a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dally.live.forecast.whatif.runner import Runner
from dally.live.reconcile.unschedulable import NOT_OURS
from dally.live.store import Store
from dally.live.store.database import StoreError
from dally.web.dashboard import queue_page
from dally.web.routes.bodies import Eta
from tests.web.conftest import ME, Desk

READS = {"accept": "text/html"}
HTMX = {"hx-request": "true"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_filters_name_what_was_asked_for(desk: Desk) -> None:
    desk.submit(8, user="ann", model="vgg16")
    desk.cycle()
    page = desk.client.get("/queue?tab=ended&user=bob&model=gpt-13b").text
    assert re.search(r"<option selected>bob</option>", page)
    assert re.search(r"<option selected>gpt-13b</option>", page)


def test_a_list_that_shrank_is_shown_to_its_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_page, "ROWS", 2)
    jobs = [desk.submit(32, 100.0) for _ in range(4)]
    desk.cycle()
    for path in ("/queue?page=9", f"/queue?page={10**30}"):
        page = desk.client.get(path, headers=HTMX).text
        assert f'id="job-{jobs[3]}"' in page
        assert '<input type="hidden" name="page" value="2">' in page
    for job in jobs:
        desk.client.delete(f"/api/v1/jobs/{job}")
    desk.cycle()
    assert 'id="job-' in desk.client.get("/queue?tab=ended&page=9", headers=HTMX).text
    assert "No job is waiting." in desk.client.get("/queue?page=2", headers=HTMX).text


def test_the_way_back_from_a_job(desk: Desk) -> None:
    runs, waits, held = (desk.submit(32) for _ in range(3))
    desk.cycle()
    desk.client.post(f"/api/v1/jobs/{held}/hold", json={"why": "later"})
    desk.cycle()
    for job, tab in ((runs, "running"), (waits, "waiting"), (held, "held")):
        assert f'href="/queue?tab={tab}"' in desk.client.get(f"/jobs/{job}").text
    assert "job &#39;a/b&#39;: there is no such job" in desk.client.get("/jobs/a%2Fb", headers=READS).text


def test_of_a_job_that_cannot_be_stopped_it_is_said_why(desk: Desk) -> None:
    job = desk.submit(8)
    desk.cycle()
    for managed, why in ((True, ""), (False, NOT_OURS), (True, "")):
        desk.backend.jobs[job] = replace(desk.backend.jobs[job], managed=managed)
        desk.cycle()
        assert desk.get(f"jobs/{job}")["non_preemptible"] == why
        assert (f"It is not preempted: {NOT_OURS}." in desk.client.get(f"/jobs/{job}").text) == bool(why)


def test_a_start_that_is_overdue_is_not_told_as_one_ahead(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.submit(32)
    job = desk.submit(32)
    desk.cycle()
    now_s = desk.service.daemon.status.wall_s
    late = Eta.model_construct(
        starts_now=False,
        middle_s=now_s + 60.0,
        low_s=now_s - 3600.0,
        high_s=now_s - 60.0,
        confidence=0.9,
        calibrated=True,
    )
    monkeypatch.setattr(desk.app.state.scene, "eta", lambda _job_id: late)
    assert "<small>0 s to 0 s, 90&nbsp;%&nbsp;sure</small>" in desk.client.get(f"/jobs/{job}").text
    open_ended = late.model_copy(update={"high_s": None})
    monkeypatch.setattr(desk.app.state.scene, "eta", lambda _job_id: open_ended)
    assert "not before 0 s" in desk.client.get("/queue").text


def test_of_two_who_put_a_job_first_the_second_is_told_so(desk: Desk) -> None:
    desk.submit(32)
    job = desk.submit(32)
    desk.cycle()
    assert 'name="first" value="yes"' in desk.client.get(f"/act/priority/{job}").text  # both read this

    def post() -> Any:
        return desk.client.post(f"/act/priority/{job}", content=b"first=yes&why=now", headers=FORM)

    assert "hx-trigger" in post().headers
    desk.cycle()
    second = post().text
    assert f"is first in the queue already, by {ME}: now" in second
    assert 'name="first" value="yes"' in second
    assert desk.get(f"jobs/{job}")["first_by"] == ME
    assert 'name="first" value="no"' in desk.client.get(f"/act/priority/{job}").text


def test_a_store_that_cannot_be_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(Store, "rows", broken)
    told = desk.client.get("/api/v1/jobs?state=cancelled")
    assert (told.status_code, told.json()) == (
        503,
        {"detail": "the store cannot be read: the disk is gone; ask again"},
    )
    page = desk.client.get("/queue?tab=ended", headers=READS)
    assert (page.status_code, "the disk is gone" in page.text) == (503, True)


def test_signing_in_leads_back(desk: Desk) -> None:
    token = desk.token("op", "operator")["Authorization"].removeprefix("Bearer ")
    at = {"hx-current-url": "http://127.0.0.1:8642/queue?tab=ended&user=bob"}
    asked = desk.client.get("/queue?tab=ended", headers=HTMX | at)
    assert (asked.status_code, asked.headers["hx-redirect"]) == (
        401,
        "/login?next=/queue%3Ftab%3Dended%26user%3Dbob",
    )
    for nonsense in ("", "http://["):
        there = desk.client.get("/queue", headers=HTMX | {"hx-current-url": nonsense}).headers["hx-redirect"]
        assert there == "/login?next=/"
    signed_in = desk.client.post("/login", content=f"token={token}&next=/log".encode(), headers=FORM)
    assert signed_in.headers["location"] == "/log"
    cookie = signed_in.headers["set-cookie"].lower()  # links in mails lead here, and other sites' forms do not
    assert "samesite=lax" in cookie
    assert "httponly" in cookie
    held = {"cookie": signed_in.headers["set-cookie"].partition(";")[0]}
    assert desk.client.get("/log", headers=held).status_code == 200
    for more in ({}, {"origin": "https://evil.example"}):
        assert desk.client.post("/act/timer/new", headers=held | FORM | more).status_code == 403


def test_a_what_if_of_before_a_restart_is_not_waited_for(desks: Callable[..., Desk]) -> None:
    desk = desks("fifo")
    for path, method in (("/whatif/nobody", "GET"), ("/whatif/nobody/cancel", "POST")):
        piece = desk.client.request(method, path, headers=HTMX)
        assert (piece.status_code, "not known any more" in piece.text, "every 1s" in piece.text) == (
            200,
            True,
            False,
        )


def test_a_what_if_is_shown_to_who_asks_another(desks: Callable[..., Desk]) -> None:
    desk = desks("fifo")
    desk.submit(32)
    desk.cycle()
    whatifs = desk.service.whatifs
    whatifs.make_runner = Runner
    desk.client.post("/api/v1/whatif", json={"futures": 1})
    whatifs.wait()
    begun = whatifs.latest()
    assert begun is not None
    whatifs._known[begun.number] = replace(begun, state="running")
    piece = desk.client.post("/whatif", content=b"futures=1", headers=FORM | HTMX).text
    assert "Another what-if is being worked on" in piece
    assert f'hx-get="/whatif/{begun.number}"' in piece
