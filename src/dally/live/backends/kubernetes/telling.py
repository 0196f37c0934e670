"""What `kubectl describe pod` shows: why a gang waits and until when, where it went, for whom it gave way."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.kube_api import STRATEGIC, KubeApi
from dally.live.backends.kubernetes.pod_record import PodRecord
from dally.live.backends.kubernetes.pod_words import Words, condition_patch, event_body

if TYPE_CHECKING:
    from dally.live.cycle import CycleResult
    from dally.live.status import ClusterStatus, JobStatus

WRITES_PER_S: Final = 50.0  # so that telling never gets in the way of binding
MOST_DUE: Final = 20_000  # writes; what is more is told another time
AGAIN_S: Final = 60.0  # between two tellings of why one gang waits
NEWS_S: Final = 5.0  # the same if the reason is another one

Expected = Callable[[str], str]


class Teller:
    """Writes events and conditions in a thread of its own, slowly, and only what is new."""

    def __init__(self, api: KubeApi, scheduler: str) -> None:
        self.expected: Expected = lambda _: ""  # when a job starts, in words
        self._api = api
        self._scheduler = scheduler
        self._due: deque[tuple[PodRecord, Words]] = deque()
        self._wake = threading.Condition()
        self._stop = False
        self._told: dict[str, tuple[float, str, str]] = {}  # by job: when, which reason, and the words
        self._thread: threading.Thread | None = None

    def tell(self, status: ClusterStatus, result: CycleResult, pods_of: Callable[[str], list[PodRecord]]) -> None:
        """Note what is new in this cycle."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="telling", daemon=True)
            self._thread.start()
        for row in result.log:
            job_id = row["job_id"] or ""
            if row["kind"] == "start":
                self._told.pop(job_id, None)
                self._note(pods_of(job_id), Words.placed(row["tier"] or "", row["placement"] or {}), first=True)
            elif row["kind"] in ("preempt", "migrate"):
                bound = [pod for pod in pods_of(job_id) if pod.node]
                self._note(bound, Words.preempted(_winner(status, result, job_id)), first=True)
        now = time.monotonic()
        for line in status.jobs:
            if line.managed and line.state in ("waiting", "held"):
                self._waits(line, now, pods_of)
        self._told = {job_id: told for job_id, told in self._told.items() if job_id in status.by_id}

    def _waits(self, line: JobStatus, now: float, pods_of: Callable[[str], list[PodRecord]]) -> None:
        at_s, reason, before = self._told.get(line.job_id, (-AGAIN_S, "", ""))
        if now - at_s < (AGAIN_S if reason == line.reason else NEWS_S) or len(self._due) > MOST_DUE:
            return
        text = line.why
        if line.next_s is not None:
            text += f" until {datetime.fromtimestamp(line.next_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
        expected = self.expected(line.job_id)
        text += f"; expected to start {expected}" if expected else ""
        if text != before:
            self._told[line.job_id] = (now, line.reason, text)
            words = Words.waiting(line.reason or line.state, text, event=reason != line.reason or not before)
            self._note([pod for pod in pods_of(line.job_id) if not pod.node], words)

    def _note(self, pods: list[PodRecord], words: Words, first: bool = False) -> None:
        with self._wake:
            for pod in pods:
                if first:
                    self._due.appendleft((pod, words))
                else:
                    self._due.append((pod, words))
            while len(self._due) > MOST_DUE:
                self._due.pop()
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._due and not self._stop:
                    self._wake.wait()
                if self._stop:
                    return
                pod, words = self._due.popleft()
            began_s = time.monotonic()
            writes = self._write(pod, words)
            time.sleep(max(0.0, writes / WRITES_PER_S - (time.monotonic() - began_s)))

    def _write(self, pod: PodRecord, words: Words) -> int:
        """How many writes that took; one that fails is not worth another try."""
        try:
            if words.condition:
                self._api.patch(f"{pod.path}/status", condition_patch(pod, words), STRATEGIC)
            if words.event:
                self._api.post(
                    f"/api/v1/namespaces/{pod.namespace}/events", event_body(pod, words, self._scheduler)
                )
        except BackendError:
            return 1
        return int(bool(words.condition)) + int(bool(words.event))

    def close(self) -> None:
        """Leave the rest untold."""
        with self._wake:
            self._stop = True
            self._wake.notify()


def _winner(status: ClusterStatus, result: CycleResult, victim: str) -> str:
    """The job that got the victim's GPUs, if it may be named: one of the same namespace."""
    line = status.by_id.get(victim)
    held = set(line.placement) if line is not None else set()
    for row in result.log:
        if row["kind"] == "start" and row["job_id"] != victim and held & set(row["placement"] or {}):
            same = row["job_id"].split(".")[0] == victim.split(".")[0]
            return str(row["job_id"]) if same else "a job of another namespace"
    return "the policy"
