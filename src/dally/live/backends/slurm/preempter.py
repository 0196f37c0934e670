"""Stops jobs beside the daemon's cycles, so that none that has ended is requeued and none that has not is lost.

Between the order to requeue a job and the SIGTERM that reaches it, its script may come to its end, and Slurm would
run it again. So the job is paused first (SIGSTOP to all of its processes); what had ended by then, Slurm knows a
moment later. The others get SIGTERM while they are paused: it is the first thing that they see when Slurm lets them
go on, which it does to requeue them. squeue shows a paused job as STOPPED.

While Slurm does not answer, a paused job can neither go on nor leave. It stays with this thread, which tries again
by itself, and no cycle need order it anew. A job whose requeue Slurm refuses for good goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from dally.live.backends.base import BackendError
from dally.live.backends.slurm.job_record import PAUSED, STOPPING
from dally.live.backends.slurm.order_worker import OrderWorker
from dally.live.backends.slurm.tools import DID_NOT_ANSWER, NO_ANSWER, Tools

PAUSED_WITHIN_S: Final = 1.0  # SIGSTOP reaches a job, and an earlier end reaches slurmctld
TERMINATED_WITHIN_S: Final = 0.4  # SIGTERM reaches a paused job
TIMES_AS_LONG: Final = 5.0  # both take longer where Slurm answers late: so much longer than that,
LONGEST_S: Final = 5.0  # and at most so long
AGAIN_AFTER_S: Final = 2.0  # with jobs that were paused and could not be requeued
REFUSED_S: Final = 15.0  # so long a failure answers for the next order, and the job is left in peace
ATTEMPTS: Final = 5  # answered by Slurm, before such a job goes on
CLOSED_WITHIN_S: Final = 30.0
ID_WIDTH: Final = 30  # of squeue's column
PREEMPT: Final = "preempt"
FAILED, ALL_FAILED = f"{PREEMPT} of job ", f"{PREEMPT} of jobs "  # how lines about failures begin
REQUEUE: Final = ("scontrol", "requeuehold", "Incomplete")  # not what completes in this very moment
ENDED_REQUEUE: Final = ("scontrol", "requeuehold")
SIGNALS_AT_A_TIME: Final = 4  # calls of scancel
SENT: Final = "transitional state, retrying"  # what scancel says when a signal is sent, see `_send`
RUNS: Final = frozenset(("RUNNING", "SUSPENDED", PAUSED))
# A script that is told to stop ends in one of these. Another end is its user's, or Slurm's own: it counts.
ENDED_BY_US: Final = frozenset(("COMPLETED", "FAILED"))


class Preempter(OrderWorker[list[str]]):
    """Takes jobs in and returns at once; a job that is `in_flight` is on its way out."""

    def __init__(self, tools: Tools, check_term: Callable[[], None], drop: Callable[[str], None]) -> None:
        """`drop`: do not start that job any more."""
        super().__init__("preemptions")
        self._tools = tools
        self._check_term = check_term
        self._drop = drop
        self._due: list[str] = []
        self._in_flight: set[str] = set()
        self._paused: dict[str, int] = {}  # jobs that may be paused, and how often Slurm refused to requeue each
        self._failed: list[str] = []
        self._refusals: dict[str, tuple[str, float]] = {}  # why a job did not stop a moment ago, and when

    def add(self, jobs: Iterable[str]) -> None:
        """To be stopped soon."""
        with self._changed:
            new = [job_id for job_id in jobs if job_id not in self._in_flight]
            self._due += new
            self._in_flight.update(new)
            if new:
                self._wake()

    def refusal(self, job_id: str) -> str:
        """Why the job could not be stopped a moment ago; empty: it was not tried, or stopped."""
        with self._changed:
            why, at_s = self._refusals.get(job_id, ("", 0.0))
            return why if time.monotonic() - at_s < REFUSED_S else ""

    def in_flight(self) -> frozenset[str]:
        """Jobs that are being stopped."""
        with self._changed:
            return frozenset(self._in_flight)

    def take_failures(self) -> list[str]:
        """What went wrong since this was last asked, a line each."""
        with self._changed:
            failed, self._failed = self._failed, []
            return failed

    def wait_idle(self, timeout_s: float) -> bool:
        """Whether all of them are stopped by then."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._in_flight, timeout_s)

    def close(self) -> None:
        """Finish with the jobs that are under way, and stop no more; the next daemon requeues those left paused."""
        self._end(CLOSED_WITHIN_S)

    def _take(self) -> list[str] | None:
        batch, self._due = self._due, []
        return batch or None

    def _carry_out(self, batch: list[str]) -> None:
        failed = self.stop(batch)
        if any(not is_outage(line) for line in failed) and self._paused:
            self._look_at_paused()
        with self._changed:
            self._settle(batch, failed)
            self._changed.notify_all()

    def _give_up(self, batch: list[str], error: Exception) -> None:
        self._settle(batch, [f"{ALL_FAILED}{','.join(batch)}: {error}"])

    def _settle(self, batch: Sequence[str], failed: Sequence[str]) -> None:
        """Jobs that may still be paused stay in flight, for another attempt soon."""
        again = [job_id for job_id in batch if failed and job_id in self._paused]
        for job_id in set(batch).difference(again):
            self._paused.pop(job_id, None)
        self._in_flight.difference_update(set(batch).difference(again))
        self._failed += failed
        self._note_refusals(batch, failed)
        if again and not self._changed.wait_for(lambda: self._closed, AGAIN_AFTER_S):
            self._due += again

    def _note_refusals(self, batch: Sequence[str], failed: Sequence[str]) -> None:
        now_s = time.monotonic()
        for job_id in batch:
            why = next((line for line in failed if line.startswith((f"{FAILED}{job_id}: ", f"{ALL_FAILED}"))), "")
            self._refusals.pop(job_id, None)
            if why:
                self._refusals[job_id] = why, now_s
        self._refusals = {job: one for job, one in self._refusals.items() if now_s - one[1] < REFUSED_S}

    def _look_at_paused(self) -> None:
        """Which are paused still; one that Slurm refuses to requeue again and again goes on."""
        states = self.states(list(self._paused))
        self._paused = {job: 1 + tried for job, tried in self._paused.items() if states.get(job) == PAUSED}
        for_good = [job_id for job_id, tried in self._paused.items() if tried >= ATTEMPTS]
        if for_good and not self._send("CONT", for_good):
            self._paused = {job: tried for job, tried in self._paused.items() if tried < ATTEMPTS}

    def stop(self, jobs: Sequence[str]) -> list[str]:
        """Pause, look, terminate, look again, requeue and hold; what failed, a line each."""
        try:
            self._check_term()
        except BackendError as error:
            return [f"{ALL_FAILED}{','.join(jobs)}: {error}"]
        for job_id in jobs:
            self._drop(job_id)
        states = self.states(jobs)
        waiting = [job_id for job_id in jobs if states.get(job_id) == "PENDING"]
        failed: list[str] = []
        if waiting:
            failed += self._all_or_each(("scontrol", "uhold"), waiting)
            states |= self.states(waiting)  # some may have started in that very moment
        running = [job_id for job_id in jobs if states.get(job_id) in RUNS]
        return failed + (self._stop_running(running) if running else [])

    def _stop_running(self, jobs: Sequence[str]) -> list[str]:
        self._check_term()
        self._paused |= {job_id: self._paused.get(job_id, 0) for job_id in jobs}
        paused = self._signal("STOP", jobs, PAUSED_WITHIN_S)
        running = [job_id for job_id, state in paused.items() if state in RUNS]
        states = self._signal("TERM", running, TERMINATED_WITHIN_S) if running else {}
        self._check_term()
        live = [job_id for job_id, state in states.items() if state in RUNS]
        ended = [job_id for job_id, state in states.items() if state in ENDED_BY_US]
        failed = self._all_or_each(REQUEUE, live)
        if failed and not any(map(is_outage, failed)):  # some may have ended since, by that SIGTERM
            late = [job_id for job_id, state in self.states(live).items() if state in ENDED_BY_US]
            failed = [line for line in failed if not line.startswith(tuple(f"{FAILED}{one}: " for one in late))]
            ended += late
        return failed + self._all_or_each(ENDED_REQUEUE, ended)

    def _signal(self, name: str, jobs: Sequence[str], within_s: float) -> dict[str, str]:
        """The jobs' states when the signal has had its effect: later where Slurm is busy, as its answer shows."""
        self._send(name, jobs)  # one that has ended cannot have it
        began_s = time.monotonic()
        self.states(jobs)
        took_s = time.monotonic() - began_s
        time.sleep(max(within_s, min(LONGEST_S, TIMES_AS_LONG * took_s)))
        return self.states(jobs)

    def _send(self, name: str, jobs: Sequence[str]) -> list[str]:
        """By scancel; what failed, a line each.

        Where tasks of an array still wait, slurmctld sends the signal to another of its tasks and then answers that
        the job cannot be altered now. scancel would send it again for 95 s: to the job's next run, if need be.
        """

        def send(job_id: str) -> str:
            try:
                self._tools.run("scancel", f"--signal={name}", "--full", "--verbose", job_id, enough=SENT)
            except BackendError as error:
                return f"{FAILED}{job_id}: {error}"
            return ""

        with ThreadPoolExecutor(SIGNALS_AT_A_TIME) as pool:
            return list(filter(None, pool.map(send, jobs)))

    def states(self, jobs: Sequence[str]) -> dict[str, str]:
        """Of jobs, this very moment."""
        return states_of(self._tools, jobs)

    def _all_or_each(self, command: Sequence[str], jobs: Sequence[str]) -> list[str]:
        return all_or_each(self._tools, command, jobs)


def is_outage(line: str) -> bool:
    """Whether Slurm did not answer: a job that was sent SIGTERM must not go on then, or it would end for good."""
    return any(text in line for text in (*NO_ANSWER, DID_NOT_ANSWER))


def finish_paused(tools: Tools, jobs: Sequence[str]) -> list[str]:
    """Requeue and hold jobs that a daemon paused and did not get round to requeue; what failed, a line each."""
    paused = [job_id for job_id, state in states_of(tools, jobs).items() if state == PAUSED]
    return all_or_each(tools, REQUEUE, paused)


def states_of(tools: Tools, jobs: Sequence[str]) -> dict[str, str]:
    """This very moment, in Slurm's words; not of jobs that are giving their GPUs back."""
    if not jobs:
        return {}
    fields = f"JobArrayID:{ID_WIDTH},State:{ID_WIDTH}"
    text = tools.run("squeue", "-h", "-a", "-r", "-t", "all", "-j", ",".join(jobs), "-O", fields)
    rows = ((line[:ID_WIDTH].strip(), line[ID_WIDTH:].strip()) for line in text.splitlines())
    return {job_id: state for job_id, state in rows if state not in STOPPING}


def all_or_each(tools: Tools, command: Sequence[str], jobs: Sequence[str], what: str = PREEMPT) -> list[str]:
    """In one call; one by one if that fails, as one of them may have ended. What failed, a line each."""
    if not jobs:
        return []
    try:
        tools.run(*command, ",".join(jobs))
    except BackendError as error:
        if len(jobs) == 1:
            return [f"{what} of job {jobs[0]}: {error}"]
        return [why for job_id in jobs for why in all_or_each(tools, command, [job_id], what)]
    return []
