"""Roll back: every job as its user submitted it, left to Slurm's own scheduler, and read back to be sure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from dally.cluster.formats.node_gpus import gres_gpus
from dally.live.backends.base import BackendError
from dally.live.backends.slurm.job_mark import number_in, without_mark
from dally.live.backends.slurm.job_record import HELD_BY_OPERATOR, NEVER_S, JobRecord, number, whole_records
from dally.live.backends.slurm.original import original_of, restoring
from dally.live.backends.slurm.preempter import finish_paused
from dally.live.backends.slurm.tools import Tools

AT_A_TIME: Final = 4  # calls of scontrol
RELEASED_AT_A_TIME: Final = 200  # jobs in one call
REQUEUED_WITHIN_S: Final = 30.0  # a script has KillWait seconds to end
POLL_S: Final = 0.5


@dataclass(frozen=True)
class Restoration:
    """What is to be done to one job, or to the waiting tasks of an array."""

    job_id: str
    settings: tuple[str, ...]
    release: bool
    priority: int | None  # that it was submitted with, by an operator
    comment: str  # its AdminComment without our mark
    submit_s: int
    note: str  # for people

    def text(self) -> str:
        """For people, in one line."""
        parts = [self.note, " ".join(self.settings)]
        return f"job {self.job_id}: " + "; ".join(part for part in parts if part)


@dataclass(frozen=True)
class Remaining:
    """A job that is not yet as its user submitted it."""

    job_id: str
    why: str
    waits: bool  # if not, it runs, and goes back once it has ended or waits again


def restoration_of(record: JobRecord, now_s: float, machine_gpus: int) -> Restoration:
    """Of a job that waits and has our mark; `machine_gpus`: of the largest machine of its partitions."""
    row, mark = record.row, record.mark
    begin_s = number_in(mark, "begin") or 0
    held_by_user = number(row.get("eligible_time")) >= NEVER_S
    held_by_operator = row.get("state_reason") == HELD_BY_OPERATOR
    settings = restoring(record, machine_gpus)
    if held_by_user:
        settings.append(f"StartTime={_moment(begin_s) if begin_s > now_s else 'now'}")
    release = not (held_by_user or held_by_operator or record.released)
    note = "left to Slurm"
    if held_by_user or held_by_operator:
        note = "stays on hold for its user" if held_by_user else "stays on hold for an operator"
    comment = without_mark(str(row.get("admin_comment") or ""))
    submit_s = number_in(mark, "submit") or number(row.get("submit_time"))
    return Restoration(
        record.job_id, tuple(settings), release, number_in(mark, "priority"), comment, submit_s, note
    )


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


class Rollback:
    """Reads the queue, restores, and reads it again."""

    def __init__(self, tools: Tools, chosen: Callable[[JobRecord], bool] = lambda _: True) -> None:
        """`chosen`: which jobs to roll back, of those with our mark."""
        self._tools = tools
        self._chosen = chosen

    def plan(self) -> list[Restoration]:
        """What is to be done, in the order in which the jobs came."""
        now_s = time.time()
        marked = [record for record in self._marked() if record.pending]
        largest = self._largest() if marked else {}
        waiting = []
        for record in marked:
            names = original_of(record)["partition"].split(",")
            waiting.append(restoration_of(record, now_s, max((largest.get(name, 0) for name in names), default=0)))
        return sorted(waiting, key=lambda one: (one.submit_s, one.job_id))

    def _largest(self) -> dict[str, int]:
        """GPUs of the largest machine of each partition."""
        result: dict[str, int] = {}
        for node in self._tools.nodes():
            for name in node.get("partitions") or ():
                result[name] = max(result.get(name, 0), gres_gpus(str(node.get("gres") or "")))
        return result

    def carry_out(self, plan: Sequence[Restoration]) -> list[str]:
        """Settings first, then releases, and the mark last: a job keeps it until all else is done. What failed."""
        plan = [*plan, *self._requeue_paused()]
        failed: dict[str, str] = {}

        def each(work: Callable[[Restoration], None], jobs: Iterable[Restoration]) -> None:
            with ThreadPoolExecutor(AT_A_TIME) as pool:
                rest = [one for one in jobs if one.job_id not in failed]
                for one, why in zip(rest, pool.map(lambda job: _attempt(work, job), rest), strict=True):
                    if why:
                        failed[one.job_id] = why

        each(self._restore, [one for one in plan if one.settings])
        self._release([one for one in plan if one.release and one.job_id not in failed], failed)
        each(self._unmark, plan)
        return [f"job {job_id}: {why}" for job_id, why in failed.items()]

    def _requeue_paused(self) -> list[Restoration]:
        """Jobs that a daemon was about to preempt when it died, once they wait again."""
        paused = {record.job_id for record in self._marked() if record.paused}
        finish_paused(self._tools, sorted(paused))
        until_s = time.monotonic() + REQUEUED_WITHIN_S
        while paused:
            waiting = [one for one in self.plan() if one.job_id in paused]
            if len(waiting) == len(paused) or time.monotonic() > until_s:
                return waiting
            time.sleep(POLL_S)
        return []

    def remaining(self) -> list[Remaining]:
        """Jobs that still have our mark."""
        result = []
        for record in self._marked():
            if record.pending:
                result.append(Remaining(record.job_id, "waits for Dally", True))
            elif not record.ended:
                result.append(Remaining(record.job_id, "runs; it is rolled back if it waits again", False))
        return result

    def _marked(self) -> list[JobRecord]:
        records = whole_records(self._tools.rows("jobs", "squeue", "--json"))
        return [record for record in records if record.mark is not None and self._chosen(record)]

    def _restore(self, job: Restoration) -> None:
        self._tools.run("scontrol", "update", f"JobId={job.job_id}", *job.settings)

    def _release(self, jobs: Sequence[Restoration], failed: dict[str, str]) -> None:
        """In the order in which they came: Slurm's simplest scheduler starts the first that is released first."""
        plain = [job for job in jobs if job.priority is None]
        for first in range(0, len(plain), RELEASED_AT_A_TIME):
            some = plain[first : first + RELEASED_AT_A_TIME]
            why = _attempt(
                lambda names: self._tools.run("scontrol", "release", names), ",".join(job.job_id for job in some)
            )
            if why:  # one of them may have ended meanwhile
                for job in some:
                    failed |= _named(
                        job, _attempt(lambda one: self._tools.run("scontrol", "release", one), job.job_id)
                    )
        for job in jobs:
            if job.priority is not None:
                parts = ("scontrol", "update", f"JobId={job.job_id}", f"Priority={job.priority}")
                failed |= _named(job, _attempt(lambda call: self._tools.run(*call), parts))

    def _unmark(self, job: Restoration) -> None:
        self._tools.run("scontrol", "update", f"JobId={job.job_id}", f"AdminComment={job.comment}")


def _named(job: Restoration, why: str) -> dict[str, str]:
    return {job.job_id: why} if why else {}


def _attempt(work: Callable[[Any], object], argument: Any) -> str:
    """Why it failed; empty: it did not."""
    try:
        work(argument)
    except BackendError as error:
        return str(error)
    return ""
