"""The lines of the threat model in docs/security.md, each tried: as the user nobody and over the network."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.backends.base import Submission
from dally.live.config import Config
from dally.live.private_folder import user_name
from dally.web import protocol
from dally.web.auth import client_limits, token_cache
from dally.web.auth.access import operator_uids
from dally.web.auth.peers import Peer, uid_of
from dally.web.auth.tokens import add_token, remove_token, tokens
from dally.web.protocol import Connections
from dally.web.unix_socket import UnixSocket
from tests.web.hostile import NOBODY, Target, as_nobody, http, run_as_nobody, target

ROOT = Path(__file__).parents[2]
JOB: dict[str, object] = {"gpus": 1, "duration_s": 600}
ACTS: tuple[tuple[str, str, dict[str, object] | None], ...] = (
    ("POST", "/api/v1/jobs", JOB),
    ("DELETE", "/api/v1/jobs/1", None),
    ("POST", "/api/v1/jobs/1/hold", {"why": "x"}),
    ("POST", "/api/v1/jobs/1/release", {"why": "x"}),
    ("POST", "/api/v1/jobs/1/priority", {"why": "x"}),
    ("POST", "/api/v1/jobs/1/delay", {"seconds": 0, "why": "x"}),
    ("PUT", "/api/v1/jobs/1/progress", {"step": 1, "total": 2}),
    ("POST", "/api/v1/timers", {"gpus": 8, "seconds": 0, "why": "x"}),
    ("POST", "/api/v1/nodes/rack0-m0/drain", {"why": "x"}),
    ("POST", "/api/v1/nodes/rack0-m0/resume", {"why": "x"}),
    ("POST", "/api/v1/whatif", {}),
    ("DELETE", "/api/v1/whatif/1", None),
    ("POST", "/api/v1/preview", JOB),
    ("POST", "/act/cancel/1", None),
    ("POST", "/act/drain/rack0-m0", None),
)


@pytest.fixture(scope="module")
def real() -> Iterator[Target]:
    """A daemon of a real cluster, with a job of root's and one of nobody's."""
    with target() as made:
        for user in ("root", "nobody"):
            made.backend.submit(Submission(JobSpec(1, duration_s=600.0, user=user)))
        until_s = time.monotonic() + 20.0
        while len(made.service.daemon.status.by_id) < 2:
            assert time.monotonic() < until_s
            time.sleep(0.05)
        yield made


def test_every_mutating_route_is_among_the_attacks(real: Target) -> None:
    """So that a new one is tried too."""
    paths = real.server._app.openapi()["paths"]
    known = {
        (method, re.sub(r"/(1|rack0-m0)(?=/|$)", "/{}", path))
        for method, path, _ in ACTS
        if path.startswith("/api")
    }
    found = {
        (method.upper(), re.sub(r"{\w+}", "{}", path))
        for path, methods in paths.items()
        for method in methods
        if method != "get"
    }
    assert found == known


def test_nothing_that_acts_is_open_to_anybody_anonymous_on_loopback(real: Target) -> None:
    """The daemon's own user too: on a real cluster, a program of that user's may ask for anybody."""
    for method, path, body in ACTS:
        found = httpx.request(method, f"{real.server.url}{path}", json=body)
        assert found.status_code == 401, (method, path, found.text)
    assert httpx.get(f"{real.server.url}/api/v1/jobs").json()["total"] == 2


@as_nobody
def test_nothing_that_acts_is_open_to_another_user_on_loopback(real: Target) -> None:
    answers = real.as_nobody(False, *(http(*one) for one in ACTS))
    assert [answer.status for answer in answers] == [401] * len(ACTS)
    (reading,) = real.as_nobody(False, http("GET", "/api/v1/jobs"))
    assert reading.status == 200


@as_nobody
def test_a_user_acts_on_jobs_of_its_own_alone(real: Target) -> None:
    theirs = [http(method, path, body) for method, path, body in ACTS if "/jobs/1" in path or "/1" in path]
    assert {answer.status for answer in real.as_nobody(True, *theirs)} == {403}
    machine, timer, own, submitted, cancelled = real.as_nobody(
        True,
        http("POST", "/api/v1/nodes/rack0-m0/drain", {"why": "x"}),
        http("POST", "/api/v1/timers", {"gpus": 8, "seconds": 0, "why": "x"}),
        http("POST", "/api/v1/jobs/2/hold", {"why": "mine"}),
        http("POST", "/api/v1/jobs", JOB),
        http("DELETE", "/api/v1/jobs/2"),
    )
    assert (machine.status, timer.status, own.status, submitted.status, cancelled.status) == (
        403,
        403,
        200,
        201,
        202,
    )
    made = json.loads(submitted.body)["job_id"]
    assert real.backend.jobs[made].spec.user == "nobody"
    assert "by nobody: mine" in own.body


@as_nobody
def test_a_user_submits_for_no_other_user_and_never_as_root(real: Target) -> None:
    forged = [
        http("POST", "/api/v1/jobs", JOB | {"user": user})
        for user in ("root", "0", "+0", "bin", "root\x00", " root")
    ]
    forged += [
        http("POST", "/api/v1/jobs", JOB | {"user": "root"}, X_Forwarded_User="root", X_Remote_User="root"),
        http(
            "POST", "/api/v1/jobs", JOB | {"user": "root"}, Authorization="Bearer root", Cookie="dally_token=root"
        ),
    ]
    assert all(answer.status in (401, 403, 422) for answer in real.as_nobody(True, *forged))
    assert [job.spec.user for job in real.backend.jobs.values()].count("root") == 1


def test_operators_submit_for_others_but_not_for_root(real: Target) -> None:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(real.socket)), base_url="http://localhost") as client:
        answers = [
            client.post("/api/v1/jobs", json=JOB | {"user": user}) for user in ("nobody", "root", "no-such-user")
        ]
        assert [answer.status_code for answer in answers] == [201, 403, 403]
        assert "allow_root_jobs = true" in answers[1].text
        if os.geteuid() == 0:
            assert client.post("/api/v1/jobs", json=JOB).status_code == 403  # it would be root's
    text = add_or_read(real)
    found = httpx.post(f"{real.server.url}/api/v1/jobs", json=JOB, headers={"Authorization": f"Bearer {text}"})
    assert found.status_code == (403 if os.geteuid() == 0 else 201)


def add_or_read(real: Target) -> str:
    return (real.service.config.folder / "operator.token").read_text().strip()


def test_the_first_start_makes_a_token_for_the_operator(real: Target) -> None:
    path = real.service.config.folder / "operator.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    header = {"Authorization": f"Bearer {add_or_read(real)}"}
    assert httpx.get(f"{real.server.url}/api/v1/actions", headers=header).status_code == 200
    assert [(token.name, token.role) for token in tokens(real.service.store)] == [("operator", "operator")]
    assert add_or_read(real) not in str(tokens(real.service.store))


def test_removing_the_last_token_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "FRESH_S", 0.0)
    with target() as made:
        add_token(made.service.store, "op", "operator")
        assert httpx.get(f"{made.server.url}/api/v1/jobs").status_code == 401
        for name in ("op", "operator"):
            remove_token(made.service.store, name)
        for method, path in (("GET", "/api/v1/jobs"), ("GET", "/"), ("POST", "/api/v1/jobs")):
            assert httpx.request(method, f"{made.server.url}{path}").status_code == 401
        again = made.service
        made.server.stop()
        from dally.web.server import ApiServer

        made.server = ApiServer(again)
        assert made.server.first_token == ""  # nor does a restart make one that was removed
        made.server.start()
        assert httpx.get(f"{made.server.url}/api/v1/jobs").status_code == 401


@as_nobody
def test_after_the_first_token_users_see_their_own_jobs_alone() -> None:
    with target(open_reading="never") as made:
        made.backend.submit(Submission(JobSpec(1, duration_s=600.0, user="root", name="secret")))
        time.sleep(0.5)
        listed, one, page = made.as_nobody(
            True, http("GET", "/api/v1/jobs"), http("GET", "/api/v1/jobs/1"), http("GET", "/queue")
        )
        assert (listed.status, json.loads(listed.body)["total"], one.status) == (200, 0, 404)
        assert "secret" not in page.body
        (by_tcp,) = made.as_nobody(False, http("GET", "/api/v1/jobs"))
        assert by_tcp.status == 401


@as_nobody
def test_the_daemons_files_are_not_for_other_users(real: Target) -> None:
    code = (
        "import json, sys, os\nfor path in json.load(sys.stdin):\n try: open(path, 'rb').read(1); print(path)\n"
        " except OSError: pass"
    )
    folder = real.service.config.folder
    names = ("dally.db", "operator.token", "serve.lock", "dally.db-wal")
    locks = [str(path) for path in Path("/run/dally/locks").glob("*")]
    assert run_as_nobody(code, [*(str(folder / name) for name in names), *locks]) == ""
    swap = "import os, sys\ntry: os.rename(sys.argv[1], sys.argv[1] + '.old')\nexcept OSError: print('refused')"
    assert run_as_nobody(swap, None, str(real.socket)) == "refused\n"


def test_a_socket_is_made_only_where_no_other_user_can_put_one(tmp_path: Path) -> None:
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    config = Config(backend="slurm", folder=tmp_path, socket=str(place / "serve.sock"))
    with pytest.raises(InputError, match="other users can write to"):
        UnixSocket(config)
    place.chmod(0o755)
    (place / "serve.sock").write_text("precious")
    with pytest.raises(InputError, match="there is a file of that name"):
        UnixSocket(config)
    assert (place / "serve.sock").read_text() == "precious"
    (place / "serve.sock").unlink()
    made = UnixSocket(config)
    with pytest.raises(InputError, match="another `dally serve`"):
        UnixSocket(config)
    made.close()
    assert not (place / "serve.sock").exists()


def test_operators_that_are_none_are_refused() -> None:
    assert operator_uids(("nobody",)) == {0, os.geteuid(), NOBODY}
    for name in ("no-such-user", "@no-such-group"):
        with pytest.raises(InputError, match=f"operators: '{name}': there is no such"):
            operator_uids((name,))


def test_pages_of_other_sites_and_other_names_are_refused(real: Target) -> None:
    header = {"Authorization": f"Bearer {add_or_read(real)}"}
    cookie = {"Cookie": f"dally_token={add_or_read(real)}"}
    host = real.server.url.removeprefix("http://")
    hold = f"{real.server.url}/api/v1/jobs/1/hold"
    for headers, status in (
        (cookie, 403),  # a cookie without an Origin
        (cookie | {"Origin": "http://evil.example"}, 403),
        (cookie | {"Origin": "null"}, 403),
        (cookie | {"Origin": f"http://{host}", "Sec-Fetch-Site": "cross-site"}, 403),
        (header | {"Sec-Fetch-Site": "same-site"}, 403),
    ):
        assert httpx.post(hold, json={"why": "x"}, headers=headers).status_code == status, headers
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "[::ffff:1.2.3.4]"):
        assert httpx.get(f"{real.server.url}/api/v1/jobs", headers={"Host": host}).status_code == 403
    login = httpx.post(f"{real.server.url}/login", data={"token": "x"}, headers={"Origin": "http://evil.example"})
    assert login.status_code == 403


def test_a_cookie_is_not_for_scripts_nor_for_other_sites(real: Target) -> None:
    found = httpx.post(f"{real.server.url}/login", data={"token": add_or_read(real), "next": "//evil.example"})
    kept = found.headers["set-cookie"].lower()
    assert ("httponly" in kept, "samesite=lax" in kept) == (True, True)
    assert found.headers["location"] == "/"
    for name in ("content-security-policy", "x-frame-options", "x-content-type-options", "referrer-policy"):
        assert name in found.headers


def test_a_token_in_an_address_is_not_taken_and_not_logged(real: Target, capfd: pytest.CaptureFixture[str]) -> None:
    text = add_or_read(real)
    found = httpx.post(f"{real.server.url}/api/v1/jobs?token={text}&access_token={text}", json=JOB)
    assert found.status_code == 401
    printed = capfd.readouterr()
    assert text not in printed.out + printed.err


@pytest.mark.parametrize(
    "request_text",
    [
        http("GET", "/api/v1/jobs", Host="127.0.0.1\r\nHost: evil"),
        http("GET", "/api/v1/jobs", Authorization="Bearer a\r\nAuthorization: Bearer b"),
        http("POST", "/api/v1/jobs", JOB, Transfer_Encoding="chunked"),
        http("POST", "/api/v1/jobs", JOB, Transfer_Encoding="xchunked"),
        http("POST", "/api/v1/jobs", JOB, Content_Length="5\r\nContent-Length: 6"),
        "GET /api/v1/jobs HTTP/1.1\nHost: x\r\nBad\r\n\r\n",
        "GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_requests_that_mean_two_things_are_refused(real: Target, request_text: str) -> None:
    with socket.create_connection(real.address, timeout=20) as end:
        end.sendall(request_text.encode("latin-1"))
        answer = end.recv(65536)
    assert answer == b"" or int(answer.split()[1]) in (400, 501, 505), answer


@pytest.mark.parametrize(
    "path",
    ["../../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "....//etc/passwd",
     "/etc/passwd", "..\\..\\etc\\passwd", "%00", "vendor/../../../auth/tokens.py"],
)  # fmt: skip
def test_assets_are_a_list_and_not_a_folder(real: Target, path: str) -> None:
    with socket.create_connection(real.address, timeout=20) as end:
        end.sendall(f"GET /assets/x/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = end.recv(65536)
    assert int(answer.split()[1]) in (400, 404), answer


def silent(address: tuple[str, int], first: bytes = b"") -> socket.socket:
    end = socket.create_connection(address, timeout=30)
    end.sendall(first)
    return end


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nX-Slow: ",
    ],
    ids=["nothing", "headers in drops", "headers of the second request in drops"],
)
def test_slow_clients_are_let_go(real: Target, monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    monkeypatch.setattr(protocol, "HEADERS_WITHIN_S", 1.0)
    end = silent(real.address, first)
    began = time.monotonic()
    end.settimeout(0.2)
    gone = False
    while not gone and time.monotonic() < began + 20.0:
        try:
            end.sendall(b"x" if first else b"")
            gone = end.recv(65536) == b""
        except TimeoutError:
            continue
        except OSError:
            gone = True
    end.close()
    assert gone


def test_a_body_in_drops_and_a_huge_one_are_refused(real: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dally.web.auth.middleware.READ_WITHIN_S", 1.0)
    key = f"Authorization: Bearer {add_or_read(real)}\r\n".encode()
    head = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n" + key
    slow = silent(real.address, head + b"Content-Length: 100\r\n\r\nx")
    assert slow.recv(65536).split()[1] == b"408"
    huge = silent(real.address, head + b"Content-Length: 99999999999\r\n\r\n" + b"x" * (1 << 16))
    assert huge.recv(65536).split()[1] in (b"408", b"413")
    long = silent(real.address, b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 18))
    with suppress(ConnectionResetError):  # it was still writing
        assert long.recv(65536).split()[1] == b"400"
    for end in (slow, huge, long):
        end.close()


def test_one_client_does_not_take_all_connections() -> None:
    connections = Connections()
    hostile, other = Peer(NOBODY, by_socket=True), Peer(1234, by_loopback=True, address="127.0.0.1")
    assert [connections.enter(hostile) for _ in range(200)].count(True) == protocol.MOST_OF_ONE
    assert connections.enter(other)
    strangers = [Peer(address=f"2001:db8::{number:x}") for number in range(300)]  # a host has as many as it likes
    assert [connections.enter(peer) for peer in strangers].count(True) == protocol.MOST_OF_ONE
    while connections.enter(Peer(address=f"10.0.{time.monotonic_ns() % 250}.{time.monotonic_ns() // 250 % 250}")):
        pass
    assert connections.enter(Peer(os.geteuid(), by_socket=True))  # there is room for the operator
    for _ in range(protocol.MOST_OF_ONE):
        connections.leave(hostile)
    assert connections.enter(hostile)


def test_silent_streams_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_limits, "MOST_STREAMS", 20)
    with target() as made:
        ask = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ends = [silent(made.address, ask) for _ in range(60)]
        answers = [end.recv(65536).split()[1] for end in ends]
        assert (answers.count(b"200"), answers.count(b"429")) == (20, 40)
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(made.socket)), base_url="http://localhost"
        ) as client:
            assert client.get("/api/v1/jobs").status_code == 200
        for end in ends:
            end.close()


def test_requests_of_one_client_wait_for_each_other_and_not_others_for_them(
    real: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred at work would take all threads of the server."""
    lock = real.service.daemon.lock
    hold = f"{real.server.url}/api/v1/jobs/1/hold"
    header = {"Authorization": f"Bearer {add_or_read(real)}"}
    with lock:  # a cycle that takes its time
        threads = [
            threading.Thread(target=lambda: httpx.post(hold, json={"why": "x"}, headers=header, timeout=60))
            for _ in range(60)
        ]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        assert httpx.get(f"{real.server.url}/metrics", timeout=10).status_code == 200  # made in a thread, too
    for thread in threads:
        thread.join()


def test_names_of_jobs_are_text_on_pages_and_in_logs(capfd: pytest.CaptureFixture[str]) -> None:
    nasty = "<img src=x onerror=alert(1)>'\"&{{7*7}}"
    with target() as made:
        job = made.backend.submit(
            Submission(JobSpec(1, duration_s=600.0, user=nasty, name=nasty, account=nasty, model=nasty))
        )
        time.sleep(0.5)
        for path in ("/queue", "/queue?tab=running", f"/jobs/{job}", "/", "/log", f"/queue?search={nasty}"):
            page = httpx.get(f"{made.server.url}{path}", headers={"Accept": "text/html"}).text
            assert "<img src=x" not in page, path


def test_log_lines_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    import structlog

    from dally.live.logs import prepare

    for as_json in (False, True):
        prepare(as_json)
        structlog.get_logger("dally").info(
            "start", reason="x\n2026-01-01 [info] submitted user=root\x1b[2J\r\x9b1m\u2028"
        )
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert not set("\x1b\x9b\r") & set(said)
    structlog.reset_defaults()


@as_nobody
def test_the_local_cluster_is_its_owners() -> None:
    """On loopback, without a token: the owner may do everything, and no other user may do anything."""
    with target(backend="local", socket="") as made:
        assert httpx.post(f"{made.server.url}/api/v1/jobs", json=JOB).status_code == 201
        answers = made.as_nobody(False, *(http(*one) for one in ACTS), http("GET", "/api/v1/jobs"))
        assert [answer.status for answer in answers] == [401] * len(ACTS) + [200]
        made.socket = made.service.config.folder / "serve.sock"
        (unreachable,) = made.as_nobody(True, http("GET", "/api/v1/jobs"))
        assert (unreachable.status, "Permission denied" in unreachable.body) == (0, True)


def test_a_connection_that_was_closed_is_nobodys() -> None:
    """The kernel calls such a socket root's: a request that was sent before would be an operator's."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        for close in (False, True):
            client = socket.create_connection(listening.getsockname())
            server, address = listening.accept()
            client.sendall(b"x")
            if close:
                client.close()
            with server:
                assert uid_of(address, server.getsockname()) == (None if close else os.geteuid())
            client.close()


def test_forwarded_addresses_are_not_believed(real: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a client would have as many requests as it can think of addresses."""
    seen: list[str] = []

    def take(_rate: object, client: str) -> float:
        seen.append(client)
        return 0.0

    monkeypatch.setattr("dally.web.auth.middleware.Rate.take", take)
    for number in range(3):
        httpx.get(
            f"{real.server.url}/healthz", headers={"X-Forwarded-For": f"10.0.0.{number}", "Forwarded": "for=x"}
        )
    assert set(seen) == {f"uid {os.geteuid()}"}


def test_every_threat_names_its_tests() -> None:
    """docs/security.md: a table with a line per threat, and a test for each."""
    rows = [
        line for line in (ROOT / "docs" / "security.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)
    ]
    sources = "".join(
        path.read_text() for folder in ("web", "live") for path in (ROOT / "tests" / folder).glob("*.py")
    )
    assert len(rows) > 15
    for number, row in enumerate(rows, start=1):
        assert row.startswith(f"| {number} |")
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert [name for name in named if f"def {name}(" not in sources] == [], row


def test_users_without_a_name_have_a_number() -> None:
    assert user_name(54321) == "uid 54321"
