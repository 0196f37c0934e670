"""How far running jobs are and how long they have left: from their logs, or from what they report themselves."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import Any, Final, NamedTuple

from dally.live.backends.base import Backend, HasProgress, ProgressSource
from dally.live.log_end import read_end
from dally.live.reconcile.roster import Roster
from dally.model import FINISHED, MEASURE, NEVER, REPORT, RUNNING, Event, Job
from dally.progress.failure import JobFailure, failure_in
from dally.progress.line_parser import parse_line
from dally.progress.line_progress import LineProgress
from dally.progress.log_reader import EVERY_S, LogReader
from dally.progress.log_tail import Parser
from dally.progress.own_pattern import OwnPattern
from dally.progress.report_file import LINE, read_statement
from dally.progress.report_tail import ReportTail
from dally.progress.step_times import StepTimes
from dally.progress.time_left import Left, RemainingTime, pace_of, stage_of

ERRORS: Final = "progress_errors"  # the fact under which errors of earlier estimates are kept
MEASURED_SAMPLES: Final = 5  # of a place, before its time per step counts
MEASURE_AGAIN_S: Final = 300.0
REPORT_AGAIN: Final = 0.05  # a statement that changed by less is not worth another rank
LEAST_S: Final = 1.0
MOST_ENDED: Final = 1000  # jobs whose logs are still known after their end


class JobProgress(NamedTuple):
    """How far a job is, as of the latest that it printed; ends are on the engine's clock."""

    step: int | None
    total: int | None
    end: Left | None  # when it ends at its present place, with the interval


class StepCount(NamedTuple):
    """The steps that a job had done after so many seconds at its place."""

    placed_s: float
    worked_s: float
    done: float


class _Followed:
    """One job's steps, and the estimates that its end will judge."""

    def __init__(self) -> None:
        self.times = StepTimes()
        self.placed_s = -1.0
        self.measured_s = NEVER  # seconds of work at this place, when its steps were last measured
        self.reported = False  # by itself: then its log does not count
        self.estimates: dict[int, tuple[float, float, Left, float]] = {}  # by stage: share, raw, stated, work done


class ProgressReader:
    """Reads what running jobs say, a little in each cycle, and lets the engine know how long they take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, every_s: float = EVERY_S) -> None:
        self._clock = clock
        self._every_s = every_s
        self._reader = LogReader(clock, every_s)
        self._report_reader = LogReader(clock, every_s / 2.0)  # of the files of `dally.report`
        self._estimator = RemainingTime()
        self._followed: dict[str, _Followed] = {}
        self._rows: dict[str, list[LineProgress]] = {}  # read and not taken note of yet
        self._read_beside: list[dict[str, list[LineProgress]]] = [{}, {}]  # logs and reports, beside the cycles
        self._look: threading.Thread | None = None
        self._reports: dict[str, LineProgress] = {}  # the latest
        self._shared: set[str] = set()  # logs of several running jobs: whose lines these are is not known
        self._sources: dict[str, ProgressSource] = {}  # of jobs that have not ended
        self._known: tuple[ProgressSource, ...] | None = None  # the latest, as the backend gave them
        self._ended: dict[str, ProgressSource] = {}  # of the latest that have
        self._stated: dict[str, str] = {}  # the latest statement that a backend passes on
        self._statements_due_s = clock()
        self._put: deque[tuple[str, int, int | None]] = deque()  # by any thread, since the latest cycle

    def read(self, backend: Backend) -> None:
        """Read what is due of the logs and files of running jobs; nobody waits for the scheduler meanwhile.

        Where a server may take its time for an answer, it is read beside the cycles.
        """
        if not isinstance(backend, HasProgress) or (self._look is not None and self._look.is_alive()):
            return
        self._take_over(*self._read_beside)
        self._read_beside = [{}, {}]
        sources = backend.progress_sources()
        if sources is not self._known:  # a backend gives the same tuple while nothing has changed
            self._sources.update({source.job_id: source for source in sources})
            self._find_shared(sources)
            self._reader.keep([source.job_id for source in sources if source.log not in self._shared])
            self._report_reader.keep([source.job_id for source in sources])
            for reader in (self._reader, self._report_reader):
                reader.most_per_s = backend.logs_per_s
            for source in sources:
                self._follow(source)
            self._known = sources
        if backend.answers_at_once:
            self._take_over(self._reader.look(), self._report_reader.look())
        elif self._reader.follows_any or self._report_reader.follows_any:
            self._look = threading.Thread(target=self._look_beside, name="dally-logs", daemon=True)
            self._look.start()
        if self._clock() >= self._statements_due_s:
            self._statements_due_s = self._clock() + self._every_s / 2.0
            self._read_statements(sources)

    def _find_shared(self, sources: tuple[ProgressSource, ...]) -> None:
        counts = Counter(source.log for source in sources if source.log and source.tail is None)
        self._shared = {path for path, count in counts.items() if count > 1 or path in self._shared}

    def _follow(self, source: ProgressSource) -> None:
        if source.log in self._shared:
            pass
        elif source.log and source.tail is None:
            self._reader.follow(source.job_id, source.log, source.owner, self._parser(source))
        elif source.log and source.tail is not None:
            self._reader.follow_tail(source.job_id, source.log, partial(source.tail, self._parser(source)))
        if source.report:
            make = partial(ReportTail, source.report, source.owner, source.own_id)
            self._report_reader.follow_tail(source.job_id, source.report, make)

    def _parser(self, source: ProgressSource) -> Parser:
        """What reads its lines; one of `dally.report` is a statement: from there on the others do not count."""
        usual = OwnPattern(source.pattern).parse if source.pattern else parse_line

        def parse(line: str) -> LineProgress | None:
            if LINE not in line:
                return usual(line)
            progress = parse_line(line)
            if progress is not None and progress.step is not None:
                self.put(source.job_id, progress.step, progress.total)
            return progress

        return parse

    def _look_beside(self) -> None:
        self._read_beside = [self._reader.look(), self._report_reader.look()]

    def _take_over(
        self, rows_of: Mapping[str, list[LineProgress]], reports_of: Mapping[str, list[LineProgress]]
    ) -> None:
        for job_id, (report,) in reports_of.items():
            if report != self._reports.get(job_id):
                self._reports[job_id] = report
                self.state(job_id, report.step or 0, report.total)
        for job_id, rows in rows_of.items():
            followed = self._followed.get(job_id)
            if followed is None or not followed.reported:
                self._rows.setdefault(job_id, []).extend(rows)

    def _read_statements(self, sources: tuple[ProgressSource, ...]) -> None:
        for source in sources:
            if source.stated and source.stated != self._stated.get(source.job_id):
                self._stated[source.job_id] = source.stated
                step, total = read_statement(source.stated)
                if step is not None:
                    self.state(source.job_id, step, total)

    def put(self, job_id: str, step: int, total: int | None) -> None:
        """The same from any thread: it counts from the next cycle on."""
        self._put.append((job_id, step, total))

    def state(self, job_id: str, step: int, total: int | None) -> None:
        """The job says itself how far it is: from here on its log does not count."""
        followed = self._followed.setdefault(job_id, _Followed())
        if not followed.reported:
            followed.reported, followed.times = True, StepTimes()
            followed.placed_s = NEVER
        self._rows[job_id] = [LineProgress(step, total)]

    def events(self, roster: Roster, now: float) -> list[Event]:
        """Take note of what was read: what the engine is to know of it."""
        result: list[Event] = []
        while self._put:
            self.state(*self._put.popleft())
        for job_id, rows in self._rows.items():
            job = roster.jobs.get(job_id)
            if job is not None and job.status == RUNNING:
                result += self._observe(job, rows, now)
        self._rows.clear()
        for job_id in [job_id for job_id in self._followed if job_id not in roster.jobs]:
            del self._followed[job_id]
            self._reports.pop(job_id, None)
            self._stated.pop(job_id, None)
        for job_id in [job_id for job_id in self._sources if job_id not in roster.jobs]:
            self._ended[job_id] = self._sources.pop(job_id)
        for job_id in list(self._ended)[:-MOST_ENDED]:
            del self._ended[job_id]
        return result

    def _observe(self, job: Job, rows: list[LineProgress], now: float) -> list[Event]:
        followed = self._followed.setdefault(job.job_id, _Followed())
        if job.placed_s != followed.placed_s:
            followed.placed_s, followed.measured_s = job.placed_s, NEVER
            followed.times.moved(1.0 / job.rate if job.rate > 0.0 else 1.0)
        for row in rows:
            followed.times.observe(now - job.placed_s, row)
        times = followed.times
        events = self._measure(job, followed, now)
        left, raw_s = self._estimator.left(times), self._estimator.raw_s(times)
        if left is None or raw_s is None or not times.total:
            return events
        share = times.done / times.total
        done_s = job.done_s(now)
        followed.estimates.setdefault(stage_of(share), (share, raw_s, left, now - job.placed_s))
        duration_s = max(LEAST_S, done_s + left.middle_s * job.rate)
        if job.reported_s > 0.0 and abs(duration_s / job.reported_s - 1.0) < REPORT_AGAIN:
            return events
        job.reported_s = duration_s
        return [*events, Event(REPORT, job)]

    def _measure(self, job: Job, followed: _Followed, now: float) -> list[Event]:
        """How long a step takes at its present place, once that is known and every few minutes from then on."""
        worked_s = now - job.placed_s
        if followed.measured_s >= 0.0 and worked_s - followed.measured_s < MEASURE_AGAIN_S:
            return []
        latest = followed.times.segments[-1].since(followed.measured_s)
        pace = pace_of(latest) if len(latest.samples) >= MEASURED_SAMPLES else None
        if pace is None:
            return []
        followed.measured_s = worked_s
        return [Event(MEASURE, job, step_s=pace.step_s)]

    def failure_of(self, job_id: str) -> JobFailure | None:
        """Why a job failed, as far as the end of its log says; nobody waits long for that."""
        source = self.source_of(job_id)
        return None if source is None else failure_in(read_end(source) or ())

    def source_of(self, job_id: str) -> ProgressSource | None:
        """Where the log of a job is that runs or has ended lately; None: it has none that may be read."""
        source = self._sources.get(job_id) or self._ended.get(job_id)
        return source if source is not None and source.log else None

    def ended(self, job: Job, now: float) -> None:
        """The job ended: what was estimated at its last place is judged by that."""
        followed = self._followed.get(job.job_id)
        if followed is None or job.status != FINISHED or followed.placed_s != job.placed_s:
            return
        for share, raw_s, left, worked_s in followed.estimates.values():
            self._estimator.learn(share, raw_s, left, max(0.0, now - job.placed_s - worked_s))

    def saved(self) -> dict[str, Any]:
        """What a later daemon is to know of earlier estimates."""
        return self._estimator.saved()

    def restore(self, saved: dict[str, Any] | None) -> None:
        """Go on with what `saved` gave."""
        if saved is not None:
            self._estimator.restore(saved)

    def step_count(self, job: Job) -> StepCount | None:
        """The steps done at its present place as of the latest line; None: it says nothing."""
        followed = self._followed.get(job.job_id)
        if followed is None or followed.placed_s != job.placed_s or not followed.times.segments[-1].samples:
            return None
        return StepCount(job.placed_s, *followed.times.segments[-1].samples[-1])

    def followed(self) -> Set[str]:
        """Jobs that have said something."""
        return self._followed.keys()

    def of(self, job: Job, now: float) -> JobProgress | None:
        """How far the job is; None: it has not said anything."""
        followed = self._followed.get(job.job_id)
        if followed is None or not followed.times.segments[-1].samples:
            return None
        times = followed.times
        step, total = int(times.done), None if times.total is None else int(times.total)
        left = self._estimator.left(times) if job.status == RUNNING else None
        if left is None:
            return JobProgress(step, total, None)
        at_s = followed.placed_s + times.segments[-1].samples[-1][0]  # when it said so
        return JobProgress(step, total, Left(*(max(now, at_s + value) for value in left)))
