"""The waiting jobs of all teams: one queue for each line, and every job in one of them."""

from __future__ import annotations

from collections.abc import Iterator

from mypy_extensions import i64

from dally.model import INFINITY, Job
from dally.pickles import picklable
from dally.policies.queue import Queue


class Lines(Queue):
    """What the engine sees as its queue. Which line a job waits in is said before it is added."""

    __slots__ = ("_line_of", "lines")

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Queue] = []
        self._line_of: dict[int, int] = {}  # by the job's index

    def open(self) -> i64:
        """Another line; returns its number."""
        self.lines.append(Queue())
        return len(self.lines) - 1

    def assign(self, job: Job, line: i64) -> None:
        """From now on the job waits in that line; it must not be in another."""
        if self._line_of.get(int(job.index), -1) != line:
            self._line_of[int(job.index)] = int(line)
            job.slot = -1

    def line_number(self, job: Job) -> i64:
        """The number of the job's line."""
        return self._line_of[int(job.index)]

    def line(self, job: Job) -> Queue:
        """The line the job waits in."""
        return self.lines[self._line_of[int(job.index)]]

    def __len__(self) -> int:
        return sum([len(line) for line in self.lines])

    def __iter__(self) -> Iterator[Job]:
        """Line by line, those too that are hidden."""
        found: list[Job] = []
        for line in self.lines:
            shown = line.shown
            line.show(INFINITY)
            found += list(line)
            line.show(shown)
        return iter(found)

    def jobs(self) -> list[Job]:
        return list(self)

    def add(self, job: Job, key: float, tie: float) -> None:
        self.line(job).add(job, key, tie)

    def remove(self, job: Job) -> None:
        self.line(job).remove(job)

    def holds(self, job: Job) -> bool:
        return job.slot >= 0 and self.line(job).holds(job)

    def forget(self, job: Job) -> None:
        if int(job.index) in self._line_of:
            self.line(job).forget(job)
            del self._line_of[int(job.index)]

    def rerank(self, job: Job, key: float, tie: float) -> None:
        self.line(job).rerank(job, key, tie)

    def reranked(self) -> list[Job]:
        found: list[Job] = []
        for line in self.lines:
            found += line.reranked()
        return found

    def key(self, job: Job) -> float:
        return self.line(job).key(job)

    def tie(self, job: Job) -> float:
        return self.line(job).tie(job)

    def end_pass(self) -> None:
        for line in self.lines:
            line.end_pass()


picklable(Lines)
