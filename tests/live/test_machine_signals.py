"""What monitoring says against machines: asked of a made-up Prometheus, and acted on if it is believable."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from dally.errors import InputError
from dally.live.config import Config
from dally.live.machine_health import SIGNALLED
from dally.live.machine_signals import MachineSignals, read_signals
from dally.live.prometheus import machine_named
from tests.live.test_machine_health import ACTS, MACHINES, Site
from tests.waiting import wait_for


class MadeUpPrometheus:
    """Answers each query with the rows that the test puts there."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[dict[str, str], str]]] = {}
        self.broken = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                found = outer.rows.get(parse_qs(body)["query"][0], [])
                result = [{"metric": labels, "value": [1.0, value]} for labels, value in found]
                self.send_response(500 if outer.broken else 200)
                self.end_headers()
                self.wfile.write(json.dumps({"data": {"result": result}}).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def prometheus() -> Iterator[MadeUpPrometheus]:
    made = MadeUpPrometheus()
    yield made
    made.server.shutdown()
    made.server.server_close()


def watched(prometheus: MadeUpPrometheus, **settings: Any) -> Site:
    """A site whose monitoring has a query by the name of xid."""
    site = Site(ACTS._replace(**settings))
    site.keeper.signals = MachineSignals({"xid": "XID > 0"}, prometheus.url)
    return site


def after_answers(site: Site, count: int = 3) -> None:
    """Cycles until so many answers were looked at."""
    for _ in range(count):
        answer = site.keeper.signals._answer
        if answer is not None:
            answer.result(20.0)
        site.cycles(1)


def test_signalled_machine_is_drained_and_comes_back_once_the_signal_is_gone_and_a_probe_passes(
    prometheus: MadeUpPrometheus,
) -> None:
    site = watched(prometheus)
    after_answers(site)
    assert site.drained() == []
    prometheus.rows["XID > 0"] = [({"instance": "m4:9400", "gpu": "3"}, "79"), ({"Hostname": "elsewhere"}, "79")]
    after_answers(site, 4)
    assert site.drained() == ["m4"]
    assert site.states["m4"][1] == f"{SIGNALLED}: xid"
    assert site.keeper.evidence(()) == {"m4": f"{SIGNALLED}: xid"}
    del site.jobs[4]
    after_answers(site, 3)
    assert site.keeper._probes == {}  # it would pass, but the signal is there
    prometheus.rows.clear()

    def back() -> bool:
        after_answers(site, 1)
        return site.drained() == []

    wait_for(back, 20.0)


def test_signal_of_one_look_is_no_evidence_and_nothing_is_done_without_leave(prometheus: MadeUpPrometheus) -> None:
    site = watched(prometheus)
    for look in range(12):
        prometheus.rows["XID > 0"] = [({"host": "m1"}, "1")] if look % 3 == 0 else []
        after_answers(site, 1)
    assert site.drained() == []
    prometheus.rows["XID > 0"] = [({"host": "m1"}, "1")]
    seen = watched(prometheus, act=False)
    after_answers(seen, 4)
    assert seen.drained() == []
    assert list(seen.keeper.evidence(())) == ["m1"]


def test_signal_against_all_machines_is_wrong(prometheus: MadeUpPrometheus) -> None:
    site = watched(prometheus)
    prometheus.rows["XID > 0"] = [({"host": f"m{number}"}, "1") for number in range(MACHINES)]
    after_answers(site, 5)
    assert site.drained() == []
    assert site.keeper.evidence(()) == {}


def test_several_signals_never_keep_out_more_than_the_share() -> None:
    site = Site(ACTS)
    site.signs = {f"m{number}": (f"Sick{number % 5}",) for number in range(10)}  # each sign on two machines
    site.cycles(6)
    assert len(site.drained()) == 2
    assert len(site.keeper.evidence(())) == 10


def test_server_that_fails_or_hangs_holds_nobody_up_and_accuses_nobody(prometheus: MadeUpPrometheus) -> None:
    site = watched(prometheus)
    prometheus.rows["XID > 0"] = [({"host": "m1"}, "1")]
    prometheus.broken = True
    after_answers(site, 4)
    assert site.drained() == []
    prometheus.broken = False
    goes_on = threading.Event()

    def hanging(query: str) -> list[tuple[dict[str, str], float]]:
        goes_on.wait(60.0)
        return [({"host": "m1"}, 1.0)]

    site.keeper.signals._prometheus.ask = hanging  # type: ignore[method-assign]
    after_answers(site, 1)
    site.cycles(50)
    answer = site.keeper.signals._answer
    assert answer is not None
    assert not answer.done()
    assert site.drained() == []
    goes_on.set()
    after_answers(site, 3)
    assert site.drained() == ["m1"]


def test_machine_is_found_whatever_the_label_is_called() -> None:
    known = {"n1", "n2.pod", "10.0.0.7"}
    for labels, name in (
        ({"gpu": "0", "Hostname": "n1"}, "n1"),
        ({"instance": "n1:9400"}, "n1"),
        ({"node": "n1.example.org"}, "n1"),
        ({"node": "n2.pod"}, "n2.pod"),
        ({"instance": "10.0.0.7:9100"}, "10.0.0.7"),
        ({"node": "n11"}, ""),
        ({}, ""),
    ):
        assert machine_named(labels, known) == name


def test_settings() -> None:
    queries = {"xid": "DCGM_FI_DEV_XID_ERRORS > 0"}
    assert Config(health_signals=queries, prometheus={"url": "http://p:9090"}).checked().health_signals == queries
    for table, url in (
        (queries, ""),
        ({"a b": "x"}, "http://p"),
        ({"a": " "}, "http://p"),
        ({"": "x"}, "http://p"),
    ):
        with pytest.raises(InputError, match="health_signals"):
            read_signals(table, url)
