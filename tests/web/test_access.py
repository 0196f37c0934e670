"""Tokens, roles and limits: who may ask for what, how often and how much at once."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import httpx
import pytest
from sqlalchemy import select

from dally.errors import InputError
from dally.live.assembly import Service
from dally.live.store.schema import TOKENS
from dally.web.auth import token_cache
from dally.web.auth.peers import is_loopback
from dally.web.auth.tokens import add_token, remove_token
from dally.web.server import ApiServer, LocalServer
from tests.web.conftest import Desk

JOB = {"gpus": 1, "duration_s": 60}


def test_open_without_tokens_and_closed_with_one(desk: Desk) -> None:
    assert desk.client.get("/api/v1/jobs").status_code == 200
    header = desk.token("op", "operator")
    refused = desk.client.get("/api/v1/jobs")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert desk.client.get("/metrics").status_code == 401
    for wrong in ("Bearer x", "Bearer", "Basic eDp5", f"{header['Authorization']}x"):
        assert desk.client.get("/api/v1/jobs", headers={"Authorization": wrong}).status_code == 401
    assert desk.get("jobs", headers=header)["total"] == 0
    for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
        assert desk.client.get(path).status_code == 200


def test_only_a_digest_is_kept(desk: Desk) -> None:
    text = add_token(desk.service.store, "op", "operator")
    row = desk.service.store.rows(select(TOKENS))[0]
    assert len(row["digest"]) == 64
    assert text not in str(row)


def test_users_see_and_touch_their_own_jobs_alone(desk: Desk) -> None:
    hers, his = desk.submit(16, user="ann", name="secret"), desk.submit(32, user="bob")
    desk.cycle()
    desk.cycle()
    ann, bob = desk.token("a", "user", "ann"), desk.token("b", "user", "bob")
    assert [job["job_id"] for job in desk.get("jobs", headers=ann)["jobs"]] == [hers]
    assert desk.get("jobs?user=ann", headers=bob)["total"] == 0
    assert desk.get(f"jobs/{hers}", headers=ann)["name"] == "secret"
    for path in (f"jobs/{hers}", f"jobs/{hers}/explanation", f"jobs/{hers}/eta", "jobs/99"):
        assert desk.client.get(f"/api/v1/{path}", headers=bob).status_code == 404
    assert desk.client.delete(f"/api/v1/jobs/{hers}", headers=bob).status_code == 404
    assert all(node["jobs"] == [] for node in desk.get("nodes", headers=bob)["nodes"])
    assert desk.get("status", headers=bob)["jobs"] == {"waiting": 1}
    everything = [
        desk.client.get(f"/api/v1/{path}", headers=bob).text
        for path in ("jobs", "nodes", "timers", "status", f"jobs/{his}", f"jobs/{his}/explanation")
    ]
    assert not any("secret" in text or "ann" in text for text in everything)
    assert desk.client.delete(f"/api/v1/jobs/{hers}", headers=ann).status_code == 202
    desk.cycle()
    assert desk.client.get(f"/api/v1/jobs/{hers}", headers=bob).status_code == 404  # ended ones too
    assert desk.get("jobs?state=cancelled", headers=bob)["total"] == 0
    assert desk.get("jobs?state=cancelled&user=ann", headers=bob)["total"] == 0


def test_who_may_submit_for_whom(desk: Desk) -> None:
    viewer, ann, operator = (
        desk.token("v", "viewer"), desk.token("a", "user", "ann"), desk.token("o", "operator"),
    )  # fmt: skip
    for header, body, status in (
        (viewer, JOB, 403),
        (ann, JOB | {"user": "bob"}, 403),
        (ann, JOB, 201),
        (ann, JOB | {"user": "ann"}, 201),
        (operator, JOB | {"user": "bob"}, 201),
    ):
        assert desk.client.post("/api/v1/jobs", json=body, headers=header).status_code == status
    desk.cycle()
    assert [job["user"] for job in desk.get("jobs", headers=viewer)["jobs"]] == ["ann", "ann", "bob"]
    assert desk.client.delete("/api/v1/jobs/1", headers=viewer).status_code == 403
    assert desk.client.delete("/api/v1/jobs/1", headers=operator).status_code == 202


def test_a_removed_token_opens_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.token("other", "operator")
    header = desk.token("op", "operator")
    assert desk.client.get("/api/v1/jobs", headers=header).status_code == 200
    remove_token(desk.service.store, "op")
    monkeypatch.setattr(token_cache, "FRESH_S", 0.0)
    assert desk.client.get("/api/v1/jobs", headers=header).status_code == 401


def test_a_new_token_is_known_without_a_restart(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.token("other", "operator")
    text = add_token(desk.service.store, "new", "viewer")
    monkeypatch.setattr(token_cache, "RETRY_S", 0.0)
    assert desk.client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {text}"}).status_code == 200


def test_tokens_that_make_no_sense(desk: Desk) -> None:
    store = desk.service.store
    add_token(store, "a", "viewer")
    for name, role, user, problem in (
        ("b", "admin", "", "unknown role 'admin'"),
        ("b", "user", "", "needs --user"),
        ("b", "viewer", "ann", "takes no --user"),
        ("a", "viewer", "", "there is a token of that name"),
        ("\x1b[2J", "viewer", "", "must be a name"),
    ):
        with pytest.raises(InputError, match=problem):
            add_token(store, name, role, user)
    with pytest.raises(InputError, match="unknown token 'z'"):
        remove_token(store, "z")


def test_pages_of_other_sites_may_not_ask(desk: Desk) -> None:
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[", "Host": "127.0.0.1:8642"},
        {"Host": "evil.example:8642"},
        {"Host": "["},
    ):
        assert desk.client.post("/api/v1/jobs", json=JOB, headers=headers).status_code == 403
    own = {"Origin": "http://127.0.0.1:8642"}
    assert desk.client.post("/api/v1/jobs", json=JOB, headers=own).status_code == 201
    plain = {"Content-Type": "text/plain"}  # what a form of another site can send without being asked
    assert (
        desk.client.post("/api/v1/jobs", content=b'{"gpus": 1, "duration_s": 1}', headers=plain).status_code == 422
    )


def test_too_much_and_too_often(desks: Callable[..., Desk]) -> None:
    desk = desks(requests_per_s=2.0)
    large = desk.client.post("/api/v1/jobs", json={"gpus": 1, "command": ["x" * (1 << 20)]})
    assert large.status_code == 413
    answers = [desk.client.get("/healthz")]
    while answers[-1].status_code == 200 and len(answers) < 1000:  # a slow machine earns some meanwhile
        answers.append(desk.client.get("/healthz"))
    assert answers[-1].status_code == 429
    assert answers[-1].headers["retry-after"] == "1"


def test_text_stays_text(desk: Desk) -> None:
    """Whatever a cluster's tools tell of names."""
    nasty = "<script>alert(1)</script>\x1b]0;x\x07\"'\ud800"
    job = desk.submit(8, name=nasty, user=nasty, model=nasty)
    desk.cycle()
    found = desk.client.get(f"/api/v1/jobs/{job}")
    assert found.headers["content-type"] == "application/json"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert b"\x1b" not in found.content
    assert found.json()["name"] == nasty.replace("\ud800", "?")
    assert desk.client.get(f"/api/v1/jobs/{job}/explanation").status_code == 200
    assert desk.get("jobs")["total"] == 1
    html = desk.client.get("/docs")
    assert html.headers["content-security-policy"].startswith("default-src 'none'")
    to_hold = (
        "-d &#x27;{&quot;why&quot;: &quot;a deadline on Friday&quot;}&#x27;"  # and not what a submission takes
    )
    assert to_hold in html.text


def test_who_asks_for_nothing_is_let_go(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dally.web.protocol.HEADERS_WITHIN_S", 0.2)
    server = LocalServer(desk.app, "127.0.0.1:0")
    server.start()
    host, port = server.url.removeprefix("http://").split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=20.0) as silent:
            assert silent.recv(1) == b""
        with httpx.Client() as asks:  # who asks for something stays
            for _ in range(2):
                assert asks.get(f"{server.url}/healthz").status_code == 200
                time.sleep(0.4)
    finally:
        server.stop()


def test_where_it_listens_without_tokens(desk: Desk) -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    service: Service = desk.service
    object.__setattr__(service.config, "listen", "0.0.0.0:0")
    with pytest.raises(InputError, match="tokens would cross the network in the clear; give --tls-certificate"):
        ApiServer(service)
    object.__setattr__(service.config, "plain_http", True)
    with pytest.raises(InputError, match="there is no token; make one with `dally token add"):
        ApiServer(service)


def test_errors_of_ours_tell_clients_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.service.backend, "submit", lambda request: 1 / 0)
    found = desk.client.post("/api/v1/jobs", json=JOB)
    assert (found.status_code, found.json()) == (500, {"detail": "an error of the server; its log says more"})
    assert not desk.service.daemon.lock.locked()
