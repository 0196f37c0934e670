"""What is written on pods, and how often; needs no server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dally.live.backends.base import Publication
from dally.live.backends.kubernetes import event_writer
from dally.live.backends.kubernetes.event_writer import EventWriter
from dally.live.backends.kubernetes.kube_api import KubeApi
from dally.live.backends.kubernetes.pod_record import PodRecord, pod_record
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


def written_by_us(*_: object) -> bool:
    return True


def pods(job_id: str) -> list[PodRecord]:
    about = {"name": job_id, "namespace": "a", "uid": job_id, "creationTimestamp": "2026-11-16T10:00:00Z"}
    return [
        pod_record({"metadata": about, "spec": {"nodeName": "n1" if "victim" in job_id else ""}}, written_by_us)
    ]


def published(lines: dict[str, dict[str, Any]], *rows: dict[str, Any]) -> Publication:
    jobs = [SimpleNamespace(job_id=name, managed=True, **line) for name, line in lines.items()]
    status: Any = SimpleNamespace(jobs=jobs, by_id={line.job_id: line for line in jobs})
    return publication_of(status, [{"tier": "", "placement": None, **row} for row in rows], lambda _: "now")


def waits(why: str, reason: str = "gpus", next_s: float | None = None) -> dict[str, Any]:
    return {"state": "waiting", "why": why, "reason": reason, "next_s": next_s, "placement": {}}


def test_why_it_waits_is_told_once_until_it_changes(monkeypatch: Any) -> None:
    monkeypatch.setattr(event_writer, "CHANGED_S", 0.0)
    server = Server()
    writer = EventWriter(cast(KubeApi, server), "dally")
    for why, reason in (("2 ahead", "gpus"), ("1 ahead", "gpus"), ("first", "patience")):
        writer.publish(published({"job": waits(why, reason, 1_800_000_000.0)}), pods)
    until(lambda: len(server.said) == 4)
    writer.close()
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
    writer = EventWriter(cast(KubeApi, server), "dally")
    here = {"a.job.victim": {"state": "stopping", "placement": {"n1": 8}}}
    start = {"kind": "start", "job_id": winner, "tier": "machine", "placement": {"n1": 8}}
    writer.publish(published(here, {"kind": "preempt", "job_id": "a.job.victim"}, start), pods)
    until(lambda: ("Preempted", f"Preempted by {named}") in server.said)
    writer.close()


def test_a_gang_is_placed_once_it_is_bound() -> None:
    """And not when that was decided: the server may refuse it."""
    server, bound = Server(), [False]
    writer = EventWriter(cast(KubeApi, server), "dally")
    about = {"name": "p", "namespace": "a", "uid": "p", "creationTimestamp": "2026-11-16T10:00:00Z"}
    limits = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}

    def gang(_: str) -> list[PodRecord]:
        return [
            pod_record({"metadata": about, "spec": {**limits, "nodeName": "n1" if bound[0] else ""}}, written_by_us)
        ]

    line: dict[str, Any] = {"state": "running", "placement": {"n1": 8}}
    start = {"kind": "start", "job_id": "job", "tier": "machine", "placement": {"n1": 8}}
    writer.publish(published({"job": line}, start), gang)
    writer.publish(published({"job": waits("2 ahead")}), gang)
    until(lambda: ("FailedScheduling", "2 ahead; expected to start now") in server.said)
    assert not [text for kind, text in server.said if kind == "Scheduled" or "gang on one" in text]
    writer.publish(published({"job": line}, start), gang)
    bound[0] = True
    writer.publish(published({"job": line}), gang)
    until(lambda: server.said[-1][0] == "Scheduled")
    assert server.said[-1][1] == "Successfully assigned a/p to n1; gang on one machine: n1"
    writer.close()


def test_other_words_for_the_same_reason_are_told_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many gangs wait; what changed does not wait for them."""
    monkeypatch.setattr(event_writer, "AGAIN_S", 0.0)
    monkeypatch.setattr(event_writer, "REFRESHES_PER_S", 1e-6)
    server = Server()
    writer = EventWriter(cast(KubeApi, server), "dally")
    many = [f"job{number}" for number in range(20)]
    for round_number in range(4):
        writer.publish(published({name: waits(f"{round_number} ahead") for name in many}), pods)
    until(lambda: len(server.said) >= 41)
    lines = {name: waits("4 ahead") for name in many} | {"job0": waits("held by ann", "hold")}
    monkeypatch.setattr(event_writer, "CHANGED_S", 0.0)
    writer.publish(published(lines), pods)
    until(lambda: ("FailedScheduling", "held by ann; expected to start now") in server.said)
    writer.close()
    kinds = [kind for kind, _ in server.said]
    assert kinds.count("FailedScheduling") == 21
    assert kinds.count("condition") <= 22  # of four rounds of other words, one


def test_a_gang_that_fits_nowhere_is_told() -> None:
    server = Server()
    writer = EventWriter(cast(KubeApi, server), "dally")
    writer.publish(
        published({"job": waits("asks for more GPUs than there are", "") | {"state": "unschedulable"}}), pods
    )
    until(lambda: len(server.said) == 2)
    writer.close()
    assert all("asks for more GPUs than there are" in text for _, text in server.said)


def test_pods_that_come_later_are_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller makes the pods of a gang one after the other, though the gang waits for one reason."""
    monkeypatch.setattr(event_writer, "CHANGED_S", 0.0)
    server, there = Server(), ["p0"]
    writer = EventWriter(cast(KubeApi, server), "dally")

    def gang(_: str) -> list[PodRecord]:
        return [pod for name in there for pod in pods(name)]

    for _ in range(3):
        writer.publish(published({"job": waits("first in the queue")}), gang)
    until(lambda: len(server.said) == 2)
    there.append("p1")
    for _ in range(3):
        writer.publish(published({"job": waits("first in the queue")}), gang)
    until(lambda: len(server.said) == 4)
    writer.close()
    assert [kind for kind, _ in server.said] == ["condition", "FailedScheduling"] * 2
