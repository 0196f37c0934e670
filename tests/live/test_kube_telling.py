"""What is written on pods, and how often; needs no server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dally.live.backends.base import Publication
from dally.live.backends.kubernetes import telling
from dally.live.backends.kubernetes.kube_api import KubeApi
from dally.live.backends.kubernetes.pod_record import PodRecord, pod_record
from dally.live.backends.kubernetes.telling import Teller
from dally.live.publication import publication_of
from tests.live.kube_cluster import until


class Server:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def patch(self, path: str, body: Any, kind: str) -> None:
        self.said.append(("condition", body["status"]["conditions"][0]["message"]))

    def post(self, path: str, body: Any) -> None:
        self.said.append((body["reason"], body["message"]))


def pods(job_id: str) -> list[PodRecord]:
    about = {"name": job_id, "namespace": "a", "uid": job_id, "creationTimestamp": "2026-11-16T10:00:00Z"}
    return [pod_record({"metadata": about, "spec": {"nodeName": "n1" if "victim" in job_id else ""}})]


def published(lines: dict[str, dict[str, Any]], *rows: dict[str, Any]) -> Publication:
    jobs = [SimpleNamespace(job_id=name, managed=True, **line) for name, line in lines.items()]
    status: Any = SimpleNamespace(jobs=jobs, by_id={line.job_id: line for line in jobs})
    return publication_of(status, [{"tier": "", "placement": None, **row} for row in rows], lambda _: "now")


def waits(why: str, reason: str = "gpus", next_s: float | None = None) -> dict[str, Any]:
    return {"state": "waiting", "why": why, "reason": reason, "next_s": next_s, "placement": {}}


def test_why_it_waits_is_told_once_until_it_changes(monkeypatch: Any) -> None:
    monkeypatch.setattr(telling, "CHANGED_S", 0.0)
    server = Server()
    teller = Teller(cast(KubeApi, server), "dally")
    for why, reason in (("2 ahead", "gpus"), ("1 ahead", "gpus"), ("first", "patience")):
        teller.tell(published({"job": waits(why, reason, 1_800_000_000.0)}), pods)
    until(lambda: len(server.said) == 4)
    teller.close()
    ends = "until 2027-01-15 08:00:00 UTC; expected to start now"
    told = [f"2 ahead {ends}"] * 2 + [f"first {ends}"] * 2
    assert [text for _, text in server.said] == told  # another number ahead, a moment later, is no news
    assert [kind for kind, _ in server.said] == ["condition", "FailedScheduling"] * 2


@pytest.mark.parametrize(
    ("winner", "named"), [("a.job.winner", "a.job.winner"), ("b.job.winner", "a job of another namespace")]
)
def test_for_whom_it_gave_way(winner: str, named: str) -> None:
    """Somebody else's job is not named."""
    server = Server()
    teller = Teller(cast(KubeApi, server), "dally")
    here = {"a.job.victim": {"state": "stopping", "placement": {"n1": 8}}}
    start = {"kind": "start", "job_id": winner, "tier": "machine", "placement": {"n1": 8}}
    teller.tell(published(here, {"kind": "preempt", "job_id": "a.job.victim"}, start), pods)
    until(lambda: ("Preempted", f"Preempted by {named}") in server.said)
    teller.close()
