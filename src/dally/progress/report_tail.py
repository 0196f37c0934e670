"""The file of `dally.report`, read again and again as logs are read."""

from __future__ import annotations

from dally.progress.line_progress import LineProgress
from dally.progress.report_file import Report, read_report


class ReportTail:
    """One job's file."""

    def __init__(self, path: str, owner: int | None = None, job: str = "") -> None:
        """`owner`: the user to whom the file must belong; None: anybody. `job`: the one that it must be of."""
        self.path = path
        self._job = job
        self._owner = owner
        self._latest: Report | None = None

    def look(self) -> list[LineProgress]:
        """What it says, if that is new."""
        report = read_report(self.path, self._owner, self._job)
        if report is None or report == self._latest:
            return []
        self._latest = report
        return [LineProgress(report.step, report.total)]
