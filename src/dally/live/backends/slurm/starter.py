"""Carries starts out beside the daemon's cycles: a few `scontrol` at a time, read back and released in batches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dally.cluster.formats.hostlist import expand_list
from dally.live.backends.base import BackendError, Placement
from dally.live.backends.slurm.job_request import gpus_in
from dally.live.backends.slurm.order_worker import OrderWorker
from dally.live.backends.slurm.tools import NoAnswerError, Tools

AT_A_TIME: Final = 4  # calls of scontrol
BATCH: Final = 48  # starts that are read back and released together
ID_WIDTH, TRES_WIDTH = 30, 100  # of squeue's columns
SHOWN_S: Final = (
    10.0  # a refusal counts for so long: not every look at the queue decides, and the next attempt is later
)
CLOSED_WITHIN_S: Final = 10.0
RELEASED_WITHIN_S: Final = 30.0  # a release that is under way


Answer = BackendError | None  # of Slurm to a start; None: carried out


@dataclass(frozen=True)
class StartRequest:
    """One start, as scontrol is updated it."""

    job_id: str
    settings: tuple[str, ...]  # for `scontrol update`
    placement: Placement


@dataclass(frozen=True)
class StartBatch:
    """What is carried out at once: starts, or comments if there are none."""

    starts: tuple[StartRequest, ...]
    comments: tuple[tuple[str, str], ...] = ()


class Starter(OrderWorker[StartBatch]):
    """Takes starts in and returns at once; `outcomes` says why some did not come about."""

    def __init__(self, tools: Tools, check_term: Callable[[], None]) -> None:
        super().__init__("starts")
        self._tools = tools
        self._check_term = check_term
        self._pool = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="scontrol")
        self._due: deque[StartRequest] = deque()
        self._in_flight: dict[str, StartRequest] = {}
        self._releasing: frozenset[str] = frozenset()  # jobs whose release is under way
        self._released: dict[str, float] = {}  # when jobs were released, of late
        self._refused: dict[str, tuple[str, float]] = {}  # why, and when
        self._unanswered: list[str] = []  # starts of which Slurm did not say what came of them
        self._comments: dict[str, str] = {}  # to be written when there is nothing else to do

    def add(self, requests: Sequence[StartRequest]) -> None:
        """To be carried out soon, in this order."""
        with self._changed:
            for request in requests:
                self._in_flight[request.job_id] = request
                self._forget_comment(request.job_id)
                self._refused.pop(request.job_id, None)
                self._due.append(request)
            self._wake()

    def _forget_comment(self, job_id: str) -> None:
        """It is of before the start, whose mark must stay; that of an array would reach all of its tasks."""
        array, is_task, _ = job_id.partition("_")
        for name in [
            name for name in self._comments if name == job_id or (is_task and name.startswith(f"{array}_["))
        ]:
            del self._comments[name]

    def comment(self, comments: dict[str, str]) -> None:
        """AdminComments by job, in place of earlier ones that are not written yet: starts come first."""
        with self._changed:
            self._comments = {job_id: text for job_id, text in comments.items() if job_id not in self._in_flight}
            self._wake()

    def drop(self, job_id: str) -> None:
        """Do not release the job, unless that has happened: a release that is under way is waited for."""
        with self._changed:
            self._in_flight.pop(job_id, None)
            self._released.pop(job_id, None)
            self._changed.wait_for(lambda: job_id not in self._releasing, RELEASED_WITHIN_S)

    def in_flight(self) -> dict[str, Placement]:
        """Jobs that are not released yet."""
        with self._changed:
            return {job_id: request.placement for job_id, request in self._in_flight.items()}

    def released(self) -> list[str]:
        """Jobs that were released in the last seconds."""
        now_s = time.monotonic()
        with self._changed:
            self._released = {job: at_s for job, at_s in self._released.items() if now_s - at_s < SHOWN_S}
            return list(self._released)

    def outcomes(self) -> tuple[dict[str, str], list[str]]:
        """Why Slurm refused starts a moment ago, by job; and starts that it did not answer since the last call."""
        now_s = time.monotonic()
        with self._changed:
            self._refused = {job: one for job, one in self._refused.items() if now_s - one[1] < SHOWN_S}
            unanswered, self._unanswered = self._unanswered, []
            return {job_id: why for job_id, (why, _) in self._refused.items()}, unanswered

    def wait_idle(self, timeout_s: float) -> bool:
        """Whether all of it is carried out by then."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._in_flight, timeout_s)

    def close(self) -> None:
        """Carry nothing out any more."""
        with self._changed:
            self._due.clear()
            self._in_flight.clear()
        self._end(CLOSED_WITHIN_S)
        self._pool.shutdown(wait=False)

    def _take(self) -> StartBatch | None:
        if self._due:
            return StartBatch(tuple(self._due.popleft() for _ in range(min(BATCH, len(self._due)))))
        return StartBatch((), (self._comments.popitem(),)) if self._comments else None

    def _carry_out(self, batch: StartBatch) -> None:
        if batch.starts:
            self.carry_out(batch.starts)
        for job_id, text in batch.comments:
            with suppress(BackendError):  # the job may be gone; another cycle will say it again
                self._check_term()
                self._tools.run("scontrol", "update", f"JobId={job_id}", f"AdminComment={text}")

    def _give_up(self, batch: StartBatch, error: Exception) -> None:
        """Nothing is known of these starts: they are sent again if Slurm does not show them."""
        unknown = NoAnswerError(f"{type(error).__name__}: {error}")
        self._settle(batch.starts, dict.fromkeys((one.job_id for one in batch.starts), unknown))

    def carry_out(self, batch: Sequence[StartRequest]) -> None:
        """Tell Slurm where and how, see that it has understood, and release what it has."""
        answers = dict(zip((one.job_id for one in batch), self._pool.map(self._update, batch), strict=True))
        updated = [one for one in batch if not answers[one.job_id]]
        answers |= self._check_taken(updated)
        ready = self._begin_release([one for one in updated if not answers[one.job_id]])
        answers |= self._release(ready)
        with self._changed:
            self._settle(batch, answers)
            self._changed.notify_all()

    def _settle(self, batch: Sequence[StartRequest], answers: Mapping[str, Answer]) -> None:
        self._releasing = frozenset()
        for one in batch:
            if self._in_flight.get(one.job_id) is one:
                del self._in_flight[one.job_id]
                self._released.pop(one.job_id, None)
                if answers[one.job_id] is None:
                    self._released[one.job_id] = time.monotonic()
                self._note(one.job_id, answers[one.job_id])

    def _note(self, job_id: str, answer: Answer) -> None:
        """A start that Slurm refuses is blocked; one that it did not answer is sent again later."""
        if isinstance(answer, NoAnswerError):
            self._unanswered.append(f"start of job {job_id}: {answer}")
        elif answer:
            self._refused[job_id] = str(answer), time.monotonic()

    def _begin_release(self, requests: Sequence[StartRequest]) -> list[StartRequest]:
        """Those that are still to be started: from now on `drop` waits for them."""
        with self._changed:
            due = [one for one in requests if self._in_flight.get(one.job_id) is one]
            self._releasing = frozenset(one.job_id for one in due)
            return due

    def _is_due(self, request: StartRequest) -> bool:
        with self._changed:
            return self._in_flight.get(request.job_id) is request

    def _update(self, request: StartRequest) -> Answer:
        if not self._is_due(request):
            return BackendError("it is no longer to be started")
        try:
            self._check_term()
            self._tools.run("scontrol", "update", f"JobId={request.job_id}", *request.settings)
        except BackendError as error:
            return error
        return None

    def _check_taken(self, requests: Sequence[StartRequest]) -> dict[str, Answer]:
        """An update can be taken in part; the jobs are still held, so nothing has happened.

        The number of nodes cannot be read back: of a requeued job Slurm shows that of its last run.
        """
        if not requests:
            return {}
        names = max(len(",".join(one.placement)) for one in requests) + 20
        fields = f"JobArrayID:{ID_WIDTH},tres-per-node:{TRES_WIDTH},ReqNodes:{names}"
        jobs = ",".join(one.job_id for one in requests)
        try:
            text = self._tools.run("squeue", "-h", "-a", "-r", "-j", jobs, "-O", fields)
        except BackendError as error:
            return dict.fromkeys((one.job_id for one in requests), error)
        lines = {line[:ID_WIDTH].strip(): line[ID_WIDTH:] for line in text.splitlines()}
        return {one.job_id: _problem(one, lines.get(one.job_id, "")) for one in requests}

    def _release(self, requests: Sequence[StartRequest]) -> dict[str, Answer]:
        """All in one call; one by one if that fails, as one of them may have ended."""
        if not requests:
            return {}
        try:
            self._check_term()
            self._tools.run("scontrol", "release", ",".join(one.job_id for one in requests))
        except BackendError as error:
            if len(requests) == 1:
                return {requests[0].job_id: error}
            return {job_id: why for one in requests for job_id, why in self._release([one]).items()}
        return dict.fromkeys((one.job_id for one in requests), None)


def _problem(request: StartRequest, line: str) -> Answer:
    per_node, names = line[:TRES_WIDTH].strip(), line[TRES_WIDTH:].strip()
    desired = _setting(request.settings, "TresPerNode")
    counted = not desired or gpus_in(per_node) == gpus_in(desired)
    if counted and names and set(expand_list(names)) == set(request.placement):
        return None
    shown = f"{per_node or 'no GPUs'} on {names or 'any machine'}"
    return BackendError(f"job {request.job_id}: Slurm did not take the machines as updated: {shown}")


def _setting(settings: Iterable[str], name: str) -> str:
    return next((one.partition("=")[2] for one in settings if one.startswith(f"{name}=")), "")
