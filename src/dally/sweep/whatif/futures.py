"""What another policy would change after the record: futures of the record and then spans of it, drawn anew.

A bootstrap of the record's own waits says nothing of a queue that goes on to grow or to shrink. In a future, jobs
meet those that are there at the end of the record, under both policies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean, stdev

from dally.runs.folder import FolderRecord, prepare_folder
from dally.runs.scenario import Scenario
from dally.sweep.batch import with_folders
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Prepared, Run, comparison_runs
from dally.sweep.whatif.calibration import Carry
from dally.sweep.whatif.change import WhatIfSide
from dally.traces import History, read_history
from dally.traces.rows import TraceRow
from dally.traces.writing import text_of
from dally.whole_file import write_whole

FUTURES = 6
SPANS = 7  # of the record, drawn for one future: jobs of a span wait together
MOST_JOBS = 1500  # of the record, the latest
FEWEST = 3  # futures in which jobs wait
SURE_T = (2.92, 2.35, 2.13, 2.02, 1.94)  # Student's t for 90 %, of 3, 4, ... futures
LEAST = 0.001  # a mean wait is never counted as shorter than that share of today's
MARK = "next-"  # ids of drawn jobs begin with it


class Futures:
    """The same futures for each policy that is asked about.

    `replay` is of the record, under today's policy; `work` is the work of its jobs.
    """

    def __init__(self, before: WhatIfSide[Scenario], replay: Run, work: Path, folder: Path, carry: Carry) -> None:
        self._base = before.config
        self._folder = folder
        self._carry = carry
        self._ran_s = times_of(replay)
        history = read_history(work)
        self._loads = {"future": {number: self._write(history, number) for number in range(1, FUTURES + 1)}}
        self._today_s = self._waits_s(Chosen(self._base.policy, self._base.settings))

    def change(self, policy: Chosen) -> dict[str, float]:
        """By which share the mean wait changes in the middle future, and within which it does in nine of ten.

        Empty: jobs wait in too few futures.
        """
        shares = []
        for today_s, new_s in zip(self._today_s, self._waits_s(policy), strict=True):
            both = today_s.keys() & new_s.keys()
            before_s = sum(today_s[job_id] for job_id in both)
            if before_s > 0.0:
                shares.append(math.log(max(sum(new_s[job_id] for job_id in both) / before_s, LEAST)))
        if len(shares) < FEWEST:
            return {}
        middle = fmean(shares)
        around = SURE_T[len(shares) - FEWEST] * stdev(shares) * math.sqrt(1.0 + 1.0 / len(shares))
        return {
            name: math.expm1(end)
            for name, end in (("share", middle), ("low", middle - around), ("high", middle + around))
        }

    def _write(self, history: History, number: int) -> Prepared:
        prepare_folder(self._folder)
        path = self._folder / f"future-{number}.csv"
        rows = latest(history.rows)
        there = still_running(history.rows, self._ran_s, rows[0].submit_s)
        length_s = max(rows[-1].submit_s - rows[0].submit_s, 1.0)
        rows = [*there, *rows, *drawn_after(history.rows, length_s, Random(number))]
        write_whole(path, "".join(text_of(history._replace(rows=rows), "csv")).encode())
        return Prepared(path, self._base.cluster)

    def _waits_s(self, policy: Chosen) -> list[dict[str, float]]:
        """The waits of drawn jobs, future by future."""
        base = replace(self._base, trace_format="csv", zone="UTC", durations="closest")
        runs = with_folders(comparison_runs(self._loads, [base.network], [policy], base), self._folder / "runs")
        self._carry(runs)
        return [waits_of_drawn(run) for run in runs]


def latest(rows: Sequence[TraceRow]) -> list[TraceRow]:
    """The last jobs of the record, in the order of their submissions."""
    return sorted(rows, key=lambda row: row.submit_s)[-MOST_JOBS:]


def still_running(rows: Sequence[TraceRow], ran_s: dict[str, tuple[float, float]], at_s: float) -> list[TraceRow]:
    """Of the jobs that came before that moment, those that ran then, as if submitted when they started."""
    there = [
        row._replace(submit_s=ran_s[row.job_id][0])
        for row in rows
        if row.submit_s < at_s and row.job_id in ran_s and ran_s[row.job_id][0] < at_s < ran_s[row.job_id][1]
    ]
    return sorted(there, key=lambda row: row.submit_s)


def times_of(replay: Run) -> dict[str, tuple[float, float]]:
    """When each finished job started and ended."""
    assert replay.folder is not None
    table = FolderRecord(replay.folder).jobs.select("job_id", "start_s", "finish_s").drop_nulls()
    return {job_id: (begin_s, end_s) for job_id, begin_s, end_s in table.iter_rows()}


def drawn_after(rows: Sequence[TraceRow], length_s: float, draw: Random) -> list[TraceRow]:
    """So much time after the record, made of spans that begin anywhere in it; after its end comes its beginning."""
    first_s, last_s = (end(row.submit_s for row in rows) for end in (min, max))
    record_s = max(last_s - first_s, 1.0)
    span_s = length_s / SPANS
    result = []
    for span in range(SPANS):
        begin_s = first_s + draw.random() * record_s
        for row in rows:
            after_s = (row.submit_s - begin_s) % record_s
            if after_s < span_s:
                submit_s = last_s + span * span_s + after_s
                result.append(row._replace(job_id=f"{MARK}{span}-{row.job_id}", submit_s=submit_s))
    return sorted(result, key=lambda row: row.submit_s)


def waits_of_drawn(run: Run) -> dict[str, float]:
    """Seconds that finished jobs of the future waited."""
    assert run.folder is not None
    table = FolderRecord(run.folder).jobs.select("job_id", "queue_s", "finish_s")
    return {
        job_id: wait_s
        for job_id, wait_s, finish_s in table.iter_rows()
        if finish_s is not None and job_id.startswith(MARK)
    }
