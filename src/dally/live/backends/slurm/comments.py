"""What `squeue -O admin_comment` shows of a job that waits for Dally: why, and when it may start."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping
from typing import Final

from dally.live.backends.base import Publication, WaitingNotice
from dally.live.backends.slurm.job_mark import with_message
from dally.live.backends.slurm.job_record import JobRecord, text_of, whole_id

MOST_AT_ONCE: Final = 25  # in one cycle: each is a call of scontrol
SETTLED_S: Final = 5.0  # a job that starts sooner gets none: each takes slurmctld's time
AGAIN_S: Final = 120.0  # before the same job's is written again,
CHANGED_S: Final = 20.0  # or if its reason is another


class WaitingComments:
    """Remembers what was written, and picks what is new."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[float, str, str]] = {}  # by job: when, which reason, and the message
        self._since_s: dict[str, float] = {}  # by job: since when it waits

    def due(
        self, publication: Publication, records: Mapping[str, JobRecord], starting: Container[str]
    ) -> dict[str, str]:
        """AdminComments by job, or by the tasks of an array that Slurm has as one.

        `starting`: jobs that were ordered to start since the records were read. Each has a mark of its own by now.
        """
        now_s = time.monotonic()
        result: dict[str, str] = {}
        leaving = {whole_id(record.row) for job_id, record in records.items() if job_id in starting}
        for notice in publication.waiting:
            record = records.get(notice.job_id)
            if record is None or record.mark is None or not record.pending or len(result) >= MOST_AT_ONCE:
                continue
            job_id = whole_id(record.row)
            if job_id in leaving:
                continue
            if now_s - self._since_s.setdefault(notice.job_id, now_s) < SETTLED_S:
                continue
            message = message_of(notice, publication.expected_start(notice.job_id))
            at_s, reason, before = self._written.get(job_id, (-AGAIN_S, "", ""))
            recent = now_s - at_s < (AGAIN_S if reason == notice.reason else CHANGED_S)
            if job_id not in result and message != before and not recent:
                result[job_id] = with_message(text_of(record.row, "admin_comment"), message)
                self._written[job_id] = (now_s, notice.reason, message)
        waiting = {notice.job_id for notice in publication.waiting}
        self._since_s = {job_id: since_s for job_id, since_s in self._since_s.items() if job_id in waiting}
        alive = {whole_id(record.row) for record in records.values()}
        self._written = {job_id: entry for job_id, entry in self._written.items() if job_id in alive}
        return result


def message_of(notice: WaitingNotice, expected_start: str) -> str:
    """Why it waits and when it may start, in one line."""
    why = notice.message or notice.reason
    return f"{why}; expected start: {expected_start}" if expected_start else why
