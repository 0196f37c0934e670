"""What the store knows of one job and of those beside it, as a record that stories are told from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import or_, select

from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.live.facts import known_model
from dally.live.setup import Setup
from dally.live.store import Store
from dally.live.store.job_rows import told_of
from dally.live.store.log_rows import WOULD
from dally.live.store.schema import DECISIONS, EVENTS, JOBS
from dally.live.wall_clock import WallClock
from dally.metrics.record import Record
from dally.metrics.tables import COLUMNS, JOB_COLUMNS
from dally.runs.scenario import Scenario

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS: Final = 50_000  # of events and of decisions, the latest: a story must not take all memory
OF_MACHINES: Final = ("fail", "repair")


class LiveRecord(Record):
    """The cluster from when a job was submitted until it ended, or until now."""

    origin = "live"
    name = "the store"

    def __init__(
        self, store: Store, clock: WallClock, topology: Topology, setup: Setup, job_id: str, now: float
    ) -> None:
        """InputError if the store does not know the job."""
        rows = store.rows(select(JOBS).where(JOBS.c.job_id == job_id).order_by(JOBS.c.number.desc()).limit(1))
        if not rows:
            raise InputError(f"job {job_id!r}: not in {self.name}")
        self._store = store
        self._topology = topology
        self._setup = setup
        self._begun_s: float = rows[0]["submit_s"]
        ended_s: float | None = rows[0]["finish_s"]
        self._until_s = now if ended_s is None else ended_s
        self._shown: Callable[[str], bool] = lambda _job_id: True
        self._strangers: dict[str, str] = {}
        self.tiers = topology.tiers
        self.summary = {"epoch_s": clock.origin_s, "speed": clock.speed, "policy": setup.policy}

    def hide(self, is_shown: Callable[[str], bool]) -> None:
        """Call jobs `another1` and so on that are not shown: their names are not the reader's business."""
        self._shown = is_shown

    @cached_property
    def scenario(self) -> Scenario:
        """As far as a daemon has one."""
        setup = self._setup
        return Scenario(
            "", "", setup.policy, setup.settings, network=setup.network, network_settings=setup.network_settings,
            congestion=setup.congestion, gpu=setup.gpu, profiles=setup.profiles,
        )  # fmt: skip

    @property
    def topology(self) -> Topology:
        """The daemon's."""
        return self._topology

    @property
    def end_s(self) -> float:
        """The job's end, or now."""
        return self._until_s

    def table(self, name: str) -> pl.DataFrame:
        """One of TABLES; of slots the store keeps none."""
        made = {"jobs": self._jobs, "events": self._events, "decisions": self._decisions, "slots": self._slots}
        return made[name]()

    @cached_property
    def _beside(self) -> list[dict[str, Any]]:
        """Rows of the jobs that were there at the time, the latest of each name."""
        query = select(JOBS).where(
            JOBS.c.submit_s <= self._until_s, or_(JOBS.c.finish_s.is_(None), JOBS.c.finish_s >= self._begun_s)
        )
        rows = self._store.rows(query.order_by(JOBS.c.number))
        return list({row["job_id"]: row for row in rows}.values())

    def _jobs(self) -> pl.DataFrame:
        import polars as pl

        rows = [self._job(row) for row in self._beside]
        texts = dict.fromkeys(("job_id", "model", "tier", "status", "outcome"), pl.String)
        numbers = dict.fromkeys(("gpus", "preemptions"), pl.Int64)
        schema = {name: texts.get(name) or numbers.get(name) or pl.Float64 for name in (*JOB_COLUMNS, "outcome")}
        return pl.DataFrame(rows, schema=schema)

    def _job(self, row: dict[str, Any]) -> dict[str, Any]:
        told, clocks = told_of(row), row["clocks"]
        until_s = self._until_s if row["finish_s"] is None else row["finish_s"]
        running = row["status"] == "running"
        run_s = clocks["held_s"] + (until_s - clocks["placed_s"] if running else 0.0)
        ended = row["finish_s"] is not None
        worked_s = clocks["compute_s"] + clocks["comm_s"]
        return {
            "job_id": self._name(row["job_id"]),
            "submit_s": row["submit_s"],
            "start_s": clocks["start_s"] if clocks["start_s"] >= 0.0 else None,
            "finish_s": row["finish_s"],
            "gpus": told.gpus,
            "model": known_model(told.model, ""),
            "jct_s": until_s - row["submit_s"] if ended else None,
            "queue_s": max(0.0, until_s - row["submit_s"] - run_s),
            "run_s": run_s,
            "compute_s": clocks["compute_s"],
            "comm_s": clocks["comm_s"],
            "preemptions": clocks["preemptions"],
            "tier": self.tiers[clocks["tier"]] if clocks["tier"] >= 0 else "",
            "status": row["status"],
            "slowdown": worked_s / clocks["work_s"] if clocks["work_s"] > 0.0 else None,
            "outcome": row["outcome"] if row["outcome"] != "unknown" else "",
        }

    def _events(self) -> pl.DataFrame:
        import polars as pl

        from_s = min((row["submit_s"] for row in self._beside), default=self._begun_s)
        query = select(EVENTS).where(
            EVENTS.c.kind != WOULD,  # what a dry run says did not happen
            EVENTS.c.time_s <= self._until_s,
            or_(EVENTS.c.time_s >= from_s, EVENTS.c.kind.in_(OF_MACHINES)),
        )
        rows = self._store.rows(query.order_by(EVENTS.c.id.desc()).limit(MOST_ROWS))
        for row in rows:
            placement = row.pop("placement")
            row["job_id"] = self._name(row["job_id"])
            row["machines"] = None if placement is None else list(placement)
            row["machine_gpus"] = None if placement is None else list(placement.values())
        lists = {"machines": pl.List(pl.String), "machine_gpus": pl.List(pl.Int64)}
        numbers = ("time_s", "load")
        schema: dict[str, Any] = {
            name: lists.get(name) or (pl.Float64 if name in numbers else pl.String)
            for name in (*COLUMNS["events"], "reason")
        }
        return pl.DataFrame(rows[::-1], schema=schema).sort("time_s", maintain_order=True)

    def _decisions(self) -> pl.DataFrame:
        import polars as pl

        query = select(DECISIONS).where(DECISIONS.c.time_s >= self._begun_s, DECISIONS.c.time_s <= self._until_s)
        found = self._store.rows(query.order_by(DECISIONS.c.id.desc()).limit(MOST_ROWS))
        rows = [
            {
                "time_s": row["time_s"],
                "kind": row["kind"],
                "job_id": self._name(row["job_id"]),
                **{name: _number(value) for name, value in row["told"].items()},
                "winner": self._name(row["told"]["winner"]),
            }
            for row in found[::-1]
        ]
        texts = ("kind", "job_id", "tier", "winner")
        whole = ("gpus", "group", "demand_kind")
        lists = ("timers_s", "prices")
        schema: dict[str, Any] = {
            name: pl.String if name in texts else pl.Int64 if name in whole
            else pl.List(pl.Float64) if name in lists else pl.Float64
            for name in COLUMNS["decisions"]
        }  # fmt: skip
        return pl.DataFrame(rows, schema=schema)

    def _slots(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(schema={"time_s": pl.Float64, "free_gpus": pl.Int32, "fragmentation": pl.Float64})

    def _name(self, job_id: str | None) -> str | None:
        if job_id is None or self._shown(job_id):
            return job_id
        return self._strangers.setdefault(job_id, f"another{len(self._strangers) + 1}")


def _number(value: Any) -> Any:
    """Infinity again, which JSON does not have."""
    if isinstance(value, list):
        return [_number(one) for one in value]
    return float(value) if value in ("inf", "-inf") else value
