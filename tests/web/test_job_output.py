"""The end of what a job prints, for those whose business it is; and what a Prometheus says of its GPUs."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from dally.errors import InputError
from dally.live import log_end
from dally.live.backends.base import ProgressSource
from dally.live.config import Config
from dally.live.gpu_utilization import USUAL_QUERY, filled
from tests.web.conftest import Desk, answering
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HTMX = {"hx-request": "true"}


@pytest.fixture
def printing(desks: Callable[..., Desk], tmp_path: Path) -> Desk:
    """A job of ann's that prints into a file; its id is 1."""
    desk = desks("fifo")
    backend: Any = desk.backend
    backend.logs_per_s, backend.answers_at_once = 100.0, True
    backend.owner = os.geteuid()
    backend.progress_sources = lambda: tuple(
        ProgressSource(job_id, str(tmp_path / f"{job_id}.log"), "", backend.owner) for job_id in backend.jobs
    )
    desk.submit(8, 600.0, user="ann")
    (tmp_path / "1.log").write_text("starting\n")
    desk.cycle()
    desk.cycle()
    return desk


def test_the_end_of_a_log_as_a_terminal_shows_it(printing: Desk, tmp_path: Path) -> None:
    bar = "".join(f"\r{percent} %" for percent in range(0, 101, 10))
    lines = [f"line {number}" for number in range(3000)]
    text = "\n".join([*lines, f"loss {bar}", "\x1b[31mred\x1b[0m <script>alert(1)</script> \x07", "", ""])
    (tmp_path / "1.log").write_text(text)
    found = printing.get("jobs/1/output?lines=4")
    assert found == {
        "job_id": "1", "why": "",
        "lines": ["line 2998", "line 2999", "100 %", "red <script>alert(1)</script>"],
    }  # fmt: skip
    assert len(printing.get("jobs/1/output?lines=200")["lines"]) == 200
    assert printing.client.get("/api/v1/jobs/1/output?lines=201").status_code == 422
    piece = printing.client.get("/job-output/1", headers=HTMX).text
    assert "&lt;script&gt;" in piece
    assert "<script" not in piece
    assert "GPU utilization" not in piece, "no Prometheus is named"
    seen = piece.partition('name="seen" value="')[2].partition('"')[0]
    assert printing.client.get(f"/job-output/1?seen={seen}", headers=HTMX).status_code == 204
    (tmp_path / "1.log").write_text("x" * 100_000)
    [line] = printing.get("jobs/1/output")["lines"]
    assert len(line) == log_end.LONGEST


def test_it_is_for_its_user_and_for_operators(printing: Desk) -> None:
    statuses = {}
    for name, role, user in (
        ("o", "operator", ""),
        ("v", "viewer", ""),
        ("a", "user", "ann"),
        ("b", "user", "bob"),
    ):
        header = printing.token(name, role, user)
        statuses[name] = printing.client.get("/api/v1/jobs/1/output", headers=header).status_code
        piece = printing.client.get("/job-output/1", headers=header).text
        assert ("starting" in piece) == (name in "oa"), name
    assert statuses == {"o": 200, "v": 403, "a": 200, "b": 404}


def test_it_is_there_after_the_end_and_of_that_user_alone(printing: Desk, tmp_path: Path) -> None:
    (tmp_path / "1.log").write_text("Traceback: it died\n")
    printing.cycle(700.0)
    printing.cycle()
    assert printing.get("jobs/1")["state"] == "finished"
    assert printing.get("jobs/1/output")["lines"] == ["Traceback: it died"]
    (tmp_path / "1.log").unlink()
    assert "not on this machine" in printing.get("jobs/1/output")["why"]
    backend: Any = printing.backend
    backend.owner = os.geteuid() + 1
    job = printing.submit(8, 600.0, user="ann")
    (tmp_path / f"{job}.log").write_text("somebody else's\n")
    printing.cycle()
    printing.cycle()
    found = printing.get(f"jobs/{job}/output")
    assert (found["lines"], "another user's" in found["why"]) == ([], True)


def test_a_file_server_that_does_not_answer(printing: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = threading.Event()
    monkeypatch.setattr(log_end, "last_lines", lambda *_: ends.wait(30.0) and [])
    monkeypatch.setattr("dally.web.routes.job_output.read_end", lambda source: log_end.read_end(source, 0.01))
    for _ in range(log_end.AT_ONCE + 1):
        assert "too long" in printing.get("jobs/1/output")["why"]
    assert sum(one.name == "dally-log-end" for one in threading.enumerate()) <= log_end.AT_ONCE
    ends.set()


def test_a_backend_that_reads_no_logs(desk: Desk) -> None:
    job = desk.submit(8)
    desk.cycle()
    assert "does not read" in desk.get(f"jobs/{job}/output")["why"]


class Prometheus:
    """One that knows what it is asked for: values by query, the latest at the end."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.values: dict[str, str] = {}  # by host
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.queries.append(parse_qs(body)["query"][0])
                rows = [
                    {"metric": {"Hostname": host}, "value": [1.0, value]} for host, value in outer.values.items()
                ]
                self.send_response(outer.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(json.dumps({"status": "success", "data": {"result": rows}}).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    found = Prometheus()
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_what_prometheus_says_of_the_gpus(
    desks: Callable[..., Desk], prometheus: Prometheus, browser: Browser
) -> None:
    desk = desks("fifo", prometheus={"url": prometheus.url})
    job = desk.submit(12, user="ann")
    desk.cycle()
    desk.cycle(300.0)
    placement = desk.get(f"jobs/{job}")["placement"]
    [full, half] = sorted(placement, key=lambda name: -placement[name])
    prometheus.values = {f"{full}.cluster.local": "90", half: "30", "stranger": "1"}
    found = desk.get(f"jobs/{job}/utilization")
    assert found["machines"] == [
        {"machine": half, "now": 30.0, "lately": 30.0}, {"machine": full, "now": 90.0, "lately": 90.0},
    ]  # fmt: skip
    assert (found["now"], found["minutes"], found["shared"], found["why"]) == (70.0, 5, True, "")
    usual = USUAL_QUERY.replace("{machines}", f"({'|'.join(sorted(placement))})([.].*)?")
    assert prometheus.queries == [usual, f"avg_over_time(({usual})[5m:1m])"]
    assert (
        desk.client.get(f"/api/v1/jobs/{job}/utilization", headers=desk.token("b", "user", "bob")).status_code
        == 404
    )
    with answering(desk) as url:
        visitor = Visitor(browser, url)
        visitor.context.set_extra_http_headers(desk.token("o", "operator"))
        page = visitor.go(f"/jobs/{job}")
        page.get_by_role("heading", name="GPU utilization").wait_for()
        text = page.locator("#job-output").inner_text()
        assert "70 % now, 70 % in the last 5 min. GPUs of other jobs on the same machines count too." in text
        assert page.locator("#job-output tbody tr").first.inner_text().split() == [half, "30", "%", "30", "%"]
        assert visitor.grave() == []
        visitor.leave()
    prometheus.values = {full: "NaN"}
    assert desk.get(f"jobs/{job}/utilization", headers=desk.token("p", "operator"))["why"] == (
        "Prometheus knows none of its machines"
    )


def test_a_prometheus_that_does_not_answer(desks: Callable[..., Desk], prometheus: Prometheus) -> None:
    desk = desks("fifo", prometheus={"url": prometheus.url})
    job = desk.submit(8)
    desk.cycle()
    for prometheus.status in (500, 302):
        assert desk.get(f"jobs/{job}/utilization")["why"].startswith("Prometheus does not say")
    assert len(prometheus.queries) == 2, "nobody is led elsewhere"
    waiting = desk.submit(32)
    desk.cycle()
    assert desk.get(f"jobs/{waiting}/utilization")["why"] == "it does not run"


def test_names_cannot_leave_their_place_in_a_query() -> None:
    query = 'x{h=~"{machines}",j="{job_id}"}'
    assert filled(query, 'a"} or up{', ['n1"}', "n2.b", "n3|.*"]) == (
        'x{h=~"(n1[}]|n2[.]b|n3[|][.][*])([.].*)?",j="a\\"} or up{"}'
    )


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"url": "file:///etc/passwd"}, "url: 'file:///etc/passwd': must be as http://prometheus:9090"),
        ({"gpu_utilization": USUAL_QUERY}, "url: ''"),
        ({"url": "http://p:9090", "gpu_utilization": "up"}, "must have {machines} or {job_id}"),
        ({"adress": "http://p"}, "unknown key 'adress'; known: url"),
    ],
)
def test_settings_that_cannot_be(table: dict[str, str], problem: str) -> None:
    with pytest.raises(InputError) as refused:
        Config(prometheus=table).checked()
    assert problem in str(refused.value)
