"""How far a job was at a moment, and how fast it went there.

The log has no rates. A job's work over the whole run is known, and how much slower each tier is for it alone: the
work is spread over its stays by these, so that the end agrees with jobs.csv.
"""

from __future__ import annotations

from array import array
from typing import Any

import polars as pl

from dally.metrics.record import Record
from dally.report.explanation.course import GONE, RUNS, Course
from dally.runs.assemble import TierSlowdowns
from dally.web.routes.bodies import Spent


class Progress:
    """Work of every job, act by act."""

    def __init__(self, run: Record, course: Course) -> None:
        self._course = course
        self.slowdowns = TierSlowdowns(run.scenario, run.topology)
        self._jobs = run.jobs.select(
            "submit_s",
            "model",
            "gpus",
            "status",
            "slowdown",
            "run_s",
            worked_s=pl.col("compute_s") + pl.col("comm_s"),
        ).to_dicts()
        self._paces = [self._pace_by_tier(job) for job in self._jobs]
        self._done = array("d", bytes(8 * len(course.times)))  # at each act, at the pace of the closest place alone
        self._whole = [0.0] * len(self._jobs)
        self._add_up()

    def _pace_by_tier(self, job: dict[str, Any]) -> list[float]:
        alone = self.slowdowns(job["model"] or "", int(job["gpus"]))
        return [1.0 / slowdown if slowdown > 0.0 else 1.0 for slowdown in alone]

    def _pace(self, act: int) -> float:
        """Against the closest place alone, as far as the tier goes."""
        paces = self._paces[self._course.jobs[act]]
        return paces[self._course.tiers[act]] if paces else 1.0

    def _add_up(self) -> None:
        course = self._course
        for act, before in enumerate(course.before):
            if before != act:
                self._done[act] = self._done_at(before, course.times[act])
        for job, act in course.last.items():
            self._whole[job] = self._done_at(act, course.end_s)

    def _done_at(self, act: int, at_s: float) -> float:
        course, done = self._course, self._done[act]
        return done + (at_s - course.times[act]) * self._pace(act) if course.makes[act] == RUNS else done

    def whole_s(self, job: int) -> float | None:
        """The job's work in seconds at full speed, once it has all been done; None: it never was."""
        row = self._jobs[job]
        return self._work_s(job) if row["status"] == "finished" else None

    def _work_s(self, job: int) -> float:
        """What it has done in the whole run."""
        row = self._jobs[job]
        return float(row["worked_s"] / row["slowdown"]) if row["slowdown"] else self._whole[job]

    def work_s(self, act: int, at_s: float) -> float:
        """Done at a moment by the job whose last act that was, in seconds at full speed."""
        done = self._done_at(act, at_s)
        if done <= 0.0:
            return 0.0
        job = self._course.jobs[act]
        return self._work_s(job) * done / self._whole[job]

    def slowdown(self, act: int) -> float:
        """Of a job that runs since that act, restarts aside, against the closest place alone."""
        job = self._course.jobs[act]
        row, pace, whole = self._jobs[job], self._pace(act), self._whole[job]
        if not row["slowdown"] or whole <= 0.0 or row["run_s"] <= 0.0:
            return 1.0 / pace
        share = float(row["worked_s"] / row["run_s"])
        return max(1.0, share * whole / (self._work_s(job) * pace))

    def spent(self, act: int, at_s: float) -> Spent:
        """Where the job's time went up to a moment; restarts are spread over all of it."""
        row = self._jobs[self._course.jobs[act]]
        held_s = self._course.held_s(act, at_s)
        useful_s = self.work_s(act, at_s)
        working_s = max(useful_s, held_s * row["worked_s"] / row["run_s"] if row["run_s"] else held_s)
        until_s = self._course.times[act] if self._course.makes[act] == GONE else at_s
        return Spent(
            waiting_s=max(0.0, until_s - row["submit_s"] - held_s),
            useful_s=useful_s,
            network_s=working_s - useful_s,
            other_s=max(0.0, held_s - working_s),
        )
