"""What the daemon has seen, as a trace; and once a day beside a dry run what Dally would have done with it."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import structlog
from sqlalchemy import select

from dally.errors import InputError
from dally.live.config import Config
from dally.live.cycle import CycleResult
from dally.live.facts import known_model
from dally.live.store import Store
from dally.live.store.schema import EVENTS, JOBS
from dally.live.wall_clock import WallClock
from dally.traces.readers.csv_trace import SPEC_COLUMNS, plain

COLUMNS = (
    "job_id", "submit_s", "gpus", "duration_s", "wait_s", "model", "user", "name", "status", "account", "partition",
    "qos", "limit_s", "nodes", "runs",
)  # fmt: skip
PLACED = ("start", "migrate", "resize", "adopt")


def history_csv(store: Store, from_s: float, to_s: float) -> str:
    """Jobs that ended in that part of the engine's clock, after they had run, as a trace with recorded places.

    Its clock begins with the first of them.
    """
    ended = select(JOBS).where(JOBS.c.finish_s >= from_s, JOBS.c.finish_s < to_s).order_by(JOBS.c.number)
    jobs = [row for row in store.rows(ended) if row["clocks"]["start_s"] >= 0.0]
    if not jobs:
        raise InputError("no job has ended in that time: there is nothing to tell yet")
    first_s = min(row["submit_s"] for row in jobs)  # before 0 if the job came before the first daemon
    places = _last_places(store, first_s, to_s)
    text = io.StringIO()
    more = [
        name for name, default in SPEC_COLUMNS.items() if name not in COLUMNS and _any_states(jobs, name, default)
    ]
    writer = csv.DictWriter(text, (*COLUMNS, *more), lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(_row(row, first_s, places.get(row["job_id"], "")) for row in jobs)
    return text.getvalue()


def _row(row: dict[str, Any], first_s: float, nodes: str) -> dict[str, Any]:
    spec, clocks = row["observed"]["spec"], row["clocks"]
    held_s = max(clocks["held_s"], 0.001)
    return {
        **{name: _text(value) for name, value in spec.items()},
        "job_id": row["job_id"],
        "model": known_model(spec["model"], ""),  # a user's comment may name any
        "submit_s": f"{row['submit_s'] - first_s:.3f}",
        "duration_s": f"{held_s:.3f}",
        "wait_s": f"{max(0.0, row['finish_s'] - row['submit_s'] - held_s):.3f}",
        "status": row["outcome"],
        "nodes": nodes,
        "runs": 1 + clocks["preemptions"],
    }


def _any_states(jobs: list[dict[str, Any]], name: str, default: object) -> bool:
    return any(row["observed"]["spec"][name] != default for row in jobs)


def _text(value: object) -> object:
    return "" if value is None else plain(value) if isinstance(value, float) else value


def _last_places(store: Store, from_s: float, to_s: float) -> dict[str, str]:
    """Where each job sat last in that part of the engine's clock."""
    placed = EVENTS.c.kind.in_(PLACED), EVENTS.c.time_s >= from_s, EVENTS.c.time_s < to_s
    query = select(EVENTS.c.job_id, EVENTS.c.placement).where(*placed).order_by(EVENTS.c.id)
    return {job_id: ",".join(placement or ()) for job_id, placement in store.tuples(query)}


DAY_S: Final = 86400.0

log = structlog.get_logger("dally")


class DailyReport:
    """Watches cycles; after each day of the clock `dally shadow` writes about it in a process of its own."""

    def __init__(self, config: Config, clock: WallClock) -> None:
        self._config = config
        self._clock = clock
        self._next_s = (clock.now() // DAY_S + 1.0) * DAY_S
        self._writing: subprocess.Popen[bytes] | None = None

    def __call__(self, result: CycleResult, _cpu_s: float) -> None:
        """After each cycle."""
        if self._writing is not None and self._writing.poll() is not None:
            log.info("daily_report", code=self._writing.returncode)
            self._writing = None
        if result.now < self._next_s or self._writing is not None:
            return
        day = datetime.fromtimestamp(self._clock.wall_s(self._next_s - DAY_S)).date().isoformat()
        self._next_s += DAY_S
        out = self._config.folder / "shadow" / day
        self._writing = subprocess.Popen(command(self._config, out), stdout=subprocess.DEVNULL)


def command(config: Config, out: Path) -> list[str]:
    """The command that writes the report of the last day."""
    parts = ["shadow", "--store", config.store_address(), "--days", "1", "--out", str(out)]
    return [sys.executable, "-m", "dally", *parts]
