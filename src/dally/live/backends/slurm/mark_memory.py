"""Marks that somebody has overwritten: an operator's note in the AdminComment takes ours away.

Without its mark a job would stay held for ever: it would be nobody's, and no rollback would know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dally.live.backends.slurm.job_mark import with_mark
from dally.live.backends.slurm.job_record import JobRecord, text_of, whole_id
from dally.live.backends.slurm.tools import Tools


class MarkMemory:
    """The marks of our jobs as of the latest snapshot."""

    def __init__(self) -> None:
        self._marks: dict[str, dict[str, str]] = {}
        self._lost: dict[str, str] = {}  # AdminComments to be written, by job or by the tasks that Slurm has as one

    def remember(self, records: Mapping[str, JobRecord], ours: Iterable[str]) -> None:
        """What is there now."""
        marks = ((job_id, records[job_id].mark) for job_id in ours)
        self._marks = {job_id: mark for job_id, mark in marks if mark is not None}

    @property
    def has_lost(self) -> bool:
        """Whether marks are to be put back."""
        return bool(self._lost)

    def restored(self, records: Iterable[JobRecord]) -> list[JobRecord]:
        """The records with the marks that they had, if they are still held."""
        self._lost = {}
        return [self._restored(record) for record in records]

    def write(self, tools: Tools) -> list[str]:
        """Put them back, beside what somebody wrote in their place; a line each."""
        for job_id, comment in self._lost.items():
            tools.run("scontrol", "update", f"JobId={job_id}", f"AdminComment={comment}")
        return [f"job {job_id}: its mark in the AdminComment was overwritten, and is back" for job_id in self._lost]

    def _restored(self, record: JobRecord) -> JobRecord:
        mark = self._marks.get(record.job_id)
        if mark is None or record.mark is not None or not record.pending or record.released:
            return record
        comment = with_mark(text_of(record.row, "admin_comment"), mark)
        self._lost[whole_id(record.row)] = comment
        return replace(record, mark=mark, row={**record.row, "admin_comment": comment})
