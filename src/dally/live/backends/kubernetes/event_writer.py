"""What `kubectl describe pod` shows: why a gang waits and until when, where it went, for whom it gave way."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dally.live.backends.base import BackendError, Publication, StartNotice, WaitingNotice
from dally.live.backends.kubernetes.kube_api import STRATEGIC, KubeApi
from dally.live.backends.kubernetes.node_requests import NodeRequests
from dally.live.backends.kubernetes.pod_record import PodRecord
from dally.live.backends.kubernetes.pod_sentences import Sentences, condition_patch, event_body

WRITES_PER_S: Final = 25.0  # so that events never get in the way of binding, nor take much of a core
REFRESHES_PER_S: Final = 0.5  # of what says the same in other words, as the time goes on
MOST_PLACED: Final = 200  # gangs that are noted as placed in one cycle: to write that takes longer anyway
MOST_DUE: Final = 20_000  # writes; what is more waits for another time
AGAIN_S: Final = 60.0  # between two events on why one gang waits
CHANGED_S: Final = 5.0  # the same if the reason is another one


@dataclass
class PodNotice:
    """The latest that the pods of a gang that waits say."""

    at_s: float = -AGAIN_S
    kind: str = ""  # the reason, and whether its pods ask for nodes
    text: str = ""
    parts: Sentences | None = None
    pods: frozenset[str] = frozenset()  # their uids
    seen: list[PodRecord] = field(default_factory=list)  # all of the gang's, when others were last looked for
    checked_s: float = 0.0  # when others were last looked for


class EventWriter:
    """Writes events and conditions in a thread of its own, slowly, and only what is new."""

    def __init__(self, api: KubeApi, scheduler: str, autoscaler_wait_s: float | None = None) -> None:
        self._api = api
        self._requests = NodeRequests(autoscaler_wait_s)
        self._scheduler = scheduler
        self._due: deque[tuple[PodRecord, Sentences]] = deque()
        self._refreshes: dict[str, tuple[PodRecord, Sentences]] = {}  # by uid: the latest words only
        self._refresh_s = 0.0  # not before then
        self._wake = threading.Condition()
        self._stop = False
        self._reported: dict[str, PodNotice] = {}  # by job
        self._starting: dict[str, Sentences] = {}  # by job: decided, and not bound yet
        self._thread: threading.Thread | None = None

    def publish(self, publication: Publication, pods_of: Callable[[str], list[PodRecord]]) -> None:
        """Note what is new in this cycle. `pods_of` gives the same list until a pod of the gang changes."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="events", daemon=True)
            self._thread.start()
        for change in publication.changes:
            pods = pods_of(change.job_id)
            if isinstance(change, StartNotice):
                self._reported.pop(change.job_id, None)
                self._starting[change.job_id] = Sentences.placed(change.tier, change.placement)
            else:
                bound = [pod for pod in pods if pod.node]
                self._note(bound, Sentences.preempted(_winner(change.job_id, change.winner)), first=True)
        self._note_bound({line.job_id for line in publication.waiting}, publication.jobs, pods_of)
        now = time.monotonic()
        self._requests.keep(publication.jobs)
        for line in publication.waiting:
            self._waits(line, now, publication.expected_start, pods_of)
        self._reported = {job_id: record for job_id, record in self._reported.items() if job_id in publication.jobs}

    def _note_bound(
        self, waiting: Container[str], live: Container[str], pods_of: Callable[[str], list[PodRecord]]
    ) -> None:
        """Gangs that were decided to start are placed once their pods are bound, and not if they wait again."""
        left = MOST_PLACED
        for job_id, parts in list(self._starting.items()):
            pods = [pod for pod in pods_of(job_id) if pod.needs.gpus and not pod.placeholder]
            if pods and all(pod.node for pod in pods):
                self._note(pods, parts, first=True)
                left -= 1
            elif job_id in live and job_id not in waiting:
                continue
            del self._starting[job_id]
            if not left:
                break

    def _waits(
        self,
        line: WaitingNotice,
        now: float,
        expected_start: Callable[[str], str],
        pods_of: Callable[[str], list[PodRecord]],
    ) -> None:
        notice = self._reported.get(line.job_id) or PodNotice()
        scheduled, addition = self._requests.about(line, now)
        kind = f"{line.reason} {scheduled}"
        if now - notice.at_s < (AGAIN_S if notice.kind == kind else CHANGED_S) or len(self._due) > MOST_DUE:
            self._note_later(line.job_id, notice, now, pods_of)
            return
        text = line.message + addition
        if line.until_s is not None:
            text += f" until {datetime.fromtimestamp(line.until_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
        expected = expected_start(line.job_id)
        text += f"; expected to start {expected}" if expected else ""
        if text == notice.text:
            self._note_later(line.job_id, notice, now, pods_of)
            return
        changed = notice.kind != kind or not notice.text
        parts = Sentences.waiting(line.reason or line.state, text, changed, scheduled)
        seen = pods_of(line.job_id)
        pods = [pod for pod in seen if not pod.node]
        uids = frozenset(pod.uid for pod in pods)
        self._reported[line.job_id] = PodNotice(now, kind, text, parts, uids, seen, now)
        if changed:
            self._note(pods, parts)
        else:
            self._refresh(pods, parts)

    def _note_later(
        self, job_id: str, notice: PodNotice, now: float, pods_of: Callable[[str], list[PodRecord]]
    ) -> None:
        """The same to pods that came later: a controller makes them one after the other, and anew."""
        if notice.parts is None or now - notice.checked_s < CHANGED_S or len(self._due) > MOST_DUE:
            return
        notice.checked_s = now
        before, notice.seen = notice.seen, pods_of(job_id)
        if notice.seen is before:
            return  # thousands of gangs wait, and nearly all of them as they did
        pods = [pod for pod in notice.seen if not pod.node and pod.uid not in notice.pods]
        if pods:
            notice.pods |= {pod.uid for pod in pods}
            self._note(pods, notice.parts)

    def _refresh(self, pods: list[PodRecord], parts: Sentences) -> None:
        with self._wake:
            self._refreshes.update((pod.uid, (pod, parts)) for pod in pods if not pod.placeholder)
            self._wake.notify()

    def _note(self, pods: list[PodRecord], parts: Sentences, first: bool = False) -> None:
        pods = [pod for pod in pods if not pod.placeholder] or pods[:1]  # one event of a Job without pods
        with self._wake:
            for pod in pods:
                self._refreshes.pop(pod.uid, None)
                if first:
                    self._due.appendleft((pod, parts))
                else:
                    self._due.append((pod, parts))
            while len(self._due) > MOST_DUE:
                self._due.pop()
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._stop and not self._is_due():
                    left_s = self._refresh_s - time.monotonic()
                    self._wake.wait(max(0.01, left_s) if self._refreshes else None)
                if self._stop:
                    return
                pod, parts = self._next()
            began_s = time.monotonic()
            writes = self._write(pod, parts)
            time.sleep(max(0.0, writes / WRITES_PER_S - (time.monotonic() - began_s)))

    def _is_due(self) -> bool:
        return bool(self._due) or (bool(self._refreshes) and time.monotonic() >= self._refresh_s)

    def _next(self) -> tuple[PodRecord, Sentences]:
        """What changed comes first; of the rest, what has waited longest."""
        if self._due:
            return self._due.popleft()
        self._refresh_s = time.monotonic() + 1.0 / REFRESHES_PER_S
        return self._refreshes.pop(next(iter(self._refreshes)))

    def _write(self, pod: PodRecord, parts: Sentences) -> int:
        """How many writes that took; one that fails is not worth another try."""
        try:
            if parts.condition and not pod.placeholder:
                self._api.patch(f"{pod.path}/status", condition_patch(pod, parts), STRATEGIC)
            if parts.event:
                self._api.post(
                    f"/api/v1/namespaces/{pod.namespace}/events", event_body(pod, parts, self._scheduler)
                )
        except BackendError:
            return 1
        return int(bool(parts.condition)) + int(bool(parts.event))

    def close(self) -> None:
        """Leave the rest untold."""
        with self._wake:
            self._stop = True
            self._wake.notify()


def _winner(victim: str, winner: str) -> str:
    """The job that got the victim's GPUs, if it may be named: one of the same namespace."""
    if not winner:
        return "the policy"
    return winner if winner.split(".")[0] == victim.split(".")[0] else "a job of another namespace"
