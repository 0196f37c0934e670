"""Options of sbatch under Dally, and then rolled back: each job is what Slurm alone makes of it, and runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from dally.cli.main import exit_code
from dally.live.backends.slurm import SlurmBackend
from dally.live.backends.slurm.job_request import gpus_in
from dally.live.backends.slurm.original import ANY_NUMBER, COMPLETE
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.store import open_store
from dally.live.wall_clock import WallClock
from tests.live.slurm_option_rows import BLOCKED, LEFT, STARTS, OptionOutcome, OptionRow
from tests.live.slurm_site import SlurmSite
from tests.live.test_slurm_setup import User

PARTITIONS: Final = ("gpu", "short", "old")
MACHINE_GPUS: Final = 4
CYCLES: Final = 12  # for Dally to try each of the jobs, though no partition is up
RUN_WITHIN_S: Final = 180.0
# Not compared: what is of this very job, and what Slurm works out anew whenever it looks at a job.
OWN: Final = frozenset(
    ("job_id", "submit_time", "eligible_time", "start_time", "end_time", "last_sched_evaluation", "accrue_time",
     "pre_sus_time", "state_reason", "state_description", "priority", "billable_tres", "tres_req_str",
     "node_count", "pre_suspend_time", "preempt_time", "time_minimum", "minimum_switches")
)  # fmt: skip


class RollbackBench:
    """Jobs of every row under Slurm alone, and again under Dally."""

    def __init__(self, site: SlurmSite, folder: Path) -> None:
        self._site, self._user, self._folder = site, User(site), folder

    def run(self, rows: Sequence[OptionRow]) -> list[OptionOutcome]:
        """All of them, but those that are left to Slurm from the first or that Slurm alone refuses."""
        held = [row for row in rows if row.outcome != LEFT or row.on in ("uneven", "nodelist")]
        chosen = [row for row in held if row.on != "BadConstraints"]
        conf = ("--conf", str(self._site.conf))
        with self._no_partition_up():
            before = [self._row(job_id) for job_id in map(self._submit, chosen)]
            self._site.cancel_all()
            assert exit_code(("slurm", "setup", *conf)) == 0
            self._set("DOWN")  # which Slurm forgets when it reads slurm.conf again
            job_ids = [self._submit(row) for row in chosen]
            begun = self._begin()
            for _ in range(2):  # a second time changes nothing
                assert exit_code(("slurm", "rollback", *conf, "--jobs-only", "--force")) == 0
            after = [self._row(job_id) for job_id in job_ids]
            assert exit_code(("slurm", "rollback", *conf, "--force")) == 0
        ran = self._run_to_the_end(dict(zip(job_ids, chosen, strict=True)))
        return [
            _outcome(row, job_id in begun, _differences(*pair), job_id in ran)
            for row, job_id, pair in zip(chosen, job_ids, zip(before, after, strict=True), strict=True)
        ]

    @contextmanager
    def _no_partition_up(self) -> Iterator[None]:
        self._set("DOWN")
        try:
            yield
        finally:
            self._set("UP")

    def _set(self, state: str) -> None:
        for name in PARTITIONS:
            self._site.run("scontrol", "update", f"PartitionName={name}", f"State={state}")

    def _submit(self, row: OptionRow) -> str:
        limits = () if "-t " in row.options else ("-t", "20")
        memory = () if "--mem" in row.options else ("--mem=100",)
        words = ("sbatch", "--parsable", "-o", "/dev/null", "-D", "/tmp", *limits, *memory, *row.options.split())
        return self._user.run(*words, given="#!/bin/sh\nsleep 1\n").strip().split(";")[0]

    def _row(self, job_id: str) -> dict[str, Any]:
        rows: list[dict[str, Any]] = json.loads(self._site.run("squeue", "--json"))["jobs"]
        return next(row for row in rows if str(row["job_id"]) == job_id)

    def _begin(self) -> set[str]:
        """Dally decides and sends its starts, none of which comes about; jobs that it changed for that."""
        backend = SlurmBackend(conf=str(self._site.conf))
        store = open_store(f"sqlite:///{self._folder}/rollback.db")
        scheduler = Scheduler(
            backend, backend.topology(), Setup("fifo-backfill"), store, WallClock(time.time(), 1.0)
        )
        for _ in range(CYCLES):
            scheduler.run_cycle()
            time.sleep(1.0)
        rows = json.loads(self._site.run("squeue", "--json"))["jobs"]
        backend.close()
        store.close()
        return {str(row["job_id"]) for row in rows if f"{COMPLETE}=1" in (row["admin_comment"] or "")}

    def _run_to_the_end(self, rows: dict[str, OptionRow]) -> set[str]:
        """Jobs that have run under Slurm; those that should are waited for."""
        due = {job_id for job_id, row in rows.items() if row.outcome == STARTS or row.on in ("uneven", "nodelist")}
        ran: set[str] = set()
        until_s = time.monotonic() + RUN_WITHIN_S
        while time.monotonic() < until_s and not due <= ran:
            text = self._site.run("squeue", "-h", "-t", "all", "-o", "%A %T")
            ran |= {line.split()[0] for line in text.splitlines() if line.split()[1] in ("RUNNING", "COMPLETED")}
            time.sleep(0.5)
        return ran


def _differences(before: dict[str, Any], after: dict[str, Any]) -> str:
    one, other = _comparable(before), _comparable(after)
    return "; ".join(f"{name} {one[name]!r} → {other[name]!r}" for name in one if one[name] != other[name])


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    """Less what Slurm reckons by itself: nodes that it expects, a CPU for each, a maximum beyond."""
    result = {name: value for name, value in sorted(row.items()) if name not in OWN}
    nodes = int(row["tres_req_str"].partition("node=")[2].partition(",")[0])
    nodes = max(nodes, -(-gpus_in(row["tres_per_job"] or "") // MACHINE_GPUS))
    most = row["max_nodes"]
    unlimited = most == ANY_NUMBER or most == gpus_in(row["tres_per_job"] or "")  # no more nodes than GPUs
    return result | {"max_nodes": 0 if unlimited else most, "cpus": max(nodes, row["cpus"])}


def _outcome(row: OptionRow, begun: bool, differences: str, ran: bool) -> OptionOutcome:
    seen = f"{'begun' if begun else 'held'}; {differences or 'as it came'}; {'ran' if ran else 'waits'}"
    may_wait = row.outcome == BLOCKED
    return OptionOutcome(row, seen, not differences and (ran or may_wait))
