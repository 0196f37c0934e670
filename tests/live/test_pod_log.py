"""Logs of pods, read through the API: requests, what is made of the answers, and the source of a gang."""

from __future__ import annotations

from typing import Any

import pytest

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes import KubernetesBackend
from dally.live.backends.kubernetes.kube_api import RefusedError
from dally.live.backends.kubernetes.pod_log import PodLog
from dally.live.backends.kubernetes.pod_record import pod_record
from dally.progress.line_parser import parse_line
from tests.live.kube_cluster import pod
from tests.live.kube_memory import Server, of_job


class Logs:
    """An API that has one log."""

    def __init__(self) -> None:
        self.answers: list[bytes | Exception] = []
        self.asked: list[dict[str, Any]] = []

    def text(self, path: str, most_bytes: int, timeout_s: float, **query: Any) -> bytes:
        assert (path, most_bytes, timeout_s) == ("/api/v1/namespaces/a/pods/p/log", 16384, 5.0)
        self.asked.append(query)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def log_of(logs: Logs, now: list[float]) -> PodLog:
    api: Any = logs
    return PodLog(api, "p:1", "/api/v1/namespaces/a/pods/p", "main", parse_line, lambda: now[0])


def test_first_the_beginning_then_only_what_is_new() -> None:
    logs, now = Logs(), [0.0]
    log = log_of(logs, now)
    logs.answers = [b"loading\nstep 1/10 loss=0.5\nstep 2/10 loss=0.4\n", b"step 3/10 loss=1\nstep 4/10 loss=1\n"]
    assert [row.step for row in log.look()] == [1, 2]
    now[0] = 5.5
    assert [row.step for row in log.look()] == [4]
    assert logs.asked == [
        {"limitBytes": 16384, "tailLines": 200, "container": "main"},
        {"limitBytes": 16384, "tailLines": 20, "container": "main", "sinceSeconds": 7},
    ]


def test_without_the_right_it_asks_rarely() -> None:
    logs, now = Logs(), [0.0]
    log = log_of(logs, now)
    logs.answers = [RefusedError("GET", 403, {}), BackendError("no answer"), b"step 1/10 loss=0.5\n"]
    for seconds in (0.0, 5.0, 299.0, 301.0, 306.0):
        now[0] = seconds
        rows = log.look()
    assert [row.step for row in rows] == [1]
    assert len(logs.asked) == 3


def test_container_is_the_one_with_gpus() -> None:
    entry = pod("p", 8)
    entry["metadata"] |= {"namespace": "a", "uid": "1"}
    assert pod_record(entry, lambda *_: True).container == ""
    entry["spec"]["containers"].insert(0, {"name": "proxy"})
    assert pod_record(entry, lambda *_: True).container == "main"


@pytest.mark.parametrize("logs", [False, True])
def test_source_of_a_gang(server: Server, backend: KubernetesBackend, logs: bool) -> None:
    backend._progress._logs = logs
    running = of_job("g", 0, node="n1")
    running["metadata"]["annotations"] = {"dally.io/progress": "3/10", "dally.io/pattern": "lap {step} of {total}"}
    running["status"] = {"phase": "Running"}
    server.pods.append(running)
    backend.snapshot()
    (source,) = backend.progress_sources()
    assert (source.job_id, source.stated, source.pattern) == ("a.job.g", "3/10", "lap {step} of {total}")
    assert source.log == ("/api/v1/namespaces/a/pods/g-0:g-0" if logs else "")
    assert source.tail is not None
    assert source.tail(parse_line).path == source.log
