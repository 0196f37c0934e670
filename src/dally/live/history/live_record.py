"""What the store knows of one job and of those beside it, as a record that stories are told from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import or_, select

from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.live.config import Setup
from dally.live.facts import job_of, known_model
from dally.live.store import Store
from dally.live.store.log_rows import TABLES, UNKNOWN, WOULD, observed_of, tier_of
from dally.live.store.schema import DECISIONS, EVENTS, JOBS
from dally.live.wall_clock import WallClock
from dally.metrics.jobs_csv import JOB_COLUMNS
from dally.metrics.record import OF_QUEUES, Record
from dally.metrics.tables import COLUMNS, of_queues
from dally.quotas.known_formats import read_quotas
from dally.runs.scenario import Scenario

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS: Final = 20_000  # of events and of decisions, the latest: a story must not take all memory
OF_MACHINES: Final = ("fail", "repair")
REASONS: Final = COLUMNS["decisions"][3:]  # after time, kind and job


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
        self._row = rows[0]
        self._begun_s: float = self._row["submit_s"]
        ended_s: float | None = self._row["finish_s"]
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
        return scenario_of(self._setup)

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
        if name in OF_QUEUES:
            return self._of_queues(name)
        made = {"jobs": self._jobs, "events": self._events, "decisions": self._decisions, "slots": self._slots}
        return made[name]()

    @cached_property
    def _beside(self) -> dict[str, tuple[int, float]]:
        """GPUs and submission of the jobs that were there at the time, the latest of each name."""
        query = select(JOBS.c.job_id, JOBS.c.observed["spec"]["gpus"].as_integer(), JOBS.c.submit_s).where(
            JOBS.c.submit_s <= self._until_s, or_(JOBS.c.finish_s.is_(None), JOBS.c.finish_s >= self._begun_s)
        )
        return {
            job_id: (gpus, submit_s) for job_id, gpus, submit_s in self._store.tuples(query.order_by(JOBS.c.number))
        }

    def _jobs(self) -> pl.DataFrame:
        """All of the job itself, and what the order of the queue needs of the others."""
        import polars as pl

        own = {**self._job(self._row), "queue": self._queue()}
        rows = [
            own if job_id == self._row["job_id"]
            else {"job_id": self._name(job_id), "gpus": gpus, "submit_s": submit_s}
            for job_id, (gpus, submit_s) in self._beside.items()
        ]  # fmt: skip
        texts = dict.fromkeys(("job_id", "model", "tier", "status", "outcome", "queue"), pl.String)
        numbers = dict.fromkeys(("gpus", "preemptions"), pl.Int64)
        schema = {name: texts.get(name) or numbers.get(name) or pl.Float64 for name in (*JOB_COLUMNS, *texts)}
        return pl.DataFrame(rows, schema=schema)

    def _queue(self) -> str:
        """The job's, as the file of queues has it; empty: there is none."""
        if not self._setup.queues:
            return ""
        tree = read_quotas(Path(self._setup.queues))
        job = job_of(observed_of(self._row), self._row["number"], self._begun_s, self._setup.usual_model)
        return tree.leaf_for(job)

    def _job(self, row: dict[str, Any]) -> dict[str, Any]:
        observed, clocks = observed_of(row), row["clocks"]
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
            "gpus": observed.spec.gpus,
            "model": known_model(observed.spec.model, ""),
            "jct_s": until_s - row["submit_s"] if ended else None,
            "queue_s": max(0.0, until_s - row["submit_s"] - run_s),
            "run_s": run_s,
            "compute_s": clocks["compute_s"],
            "comm_s": clocks["comm_s"],
            "preemptions": clocks["preemptions"],
            "tier": tier_of(row, self.tiers),
            "status": row["status"],
            "slowdown": worked_s / clocks["work_s"] if clocks["work_s"] > 0.0 else None,
            "outcome": row["outcome"] if row["outcome"] != UNKNOWN else "",
        }

    def _events(self) -> pl.DataFrame:
        import polars as pl

        from_s = min((submit_s for _, submit_s in self._beside.values()), default=self._begun_s)
        at = EVENTS.c
        query = select(at.time_s, at.kind, at.job_id, at.machine, at.tier, at.placement, at.reason).where(
            at.kind != WOULD,  # what a dry run says did not happen
            at.time_s <= self._until_s,
            or_(at.time_s >= from_s, at.kind.in_(OF_MACHINES)),
        )
        rows = [
            (
                time_s, kind, self._name(job_id), machine, tier, None if where is None else list(where),
                None if where is None else list(where.values()), None, None, reason,
            )
            for time_s, kind, job_id, machine, tier, where, reason in self._latest(query, at.id)
        ]  # fmt: skip
        lists = {"machines": pl.List(pl.String), "machine_gpus": pl.List(pl.Int64)}
        numbers = ("time_s", "load")
        schema: dict[str, Any] = {
            name: lists.get(name) or (pl.Float64 if name in numbers else pl.String)
            for name in (*COLUMNS["events"], "reason")
        }
        return _frame(rows, schema).sort("time_s", maintain_order=True)

    def _decisions(self) -> pl.DataFrame:
        import polars as pl

        at = DECISIONS.c
        query = select(at.time_s, at.kind, at.job_id, at.told).where(
            at.time_s >= self._begun_s, at.time_s <= self._until_s, at.kind.not_in(TABLES.values())
        )
        rows = [
            (
                time_s, kind, self._name(job_id),
                *(self._name(reason["winner"]) if name == "winner" else _number(reason[name]) for name in REASONS),
            )
            for time_s, kind, job_id, reason in self._latest(query, at.id)
        ]  # fmt: skip
        texts = ("kind", "job_id", "tier", "winner")
        whole = ("gpus", "group", "demand_kind")
        lists = ("timers_s", "prices")
        schema: dict[str, Any] = {
            name: pl.String if name in texts else pl.Int64 if name in whole
            else pl.List(pl.Float64) if name in lists else pl.Float64
            for name in COLUMNS["decisions"]
        }  # fmt: skip
        return _frame(rows, schema)

    def _of_queues(self, name: str) -> pl.DataFrame:
        """What is known of queues in that time, and of each as it last was before."""
        at = DECISIONS.c
        query = select(at.told).where(at.kind == TABLES[name], at.time_s <= self._until_s)
        rows = [reason for (reason,) in self._latest(query, at.id)]
        for row in rows:
            row.update({key: self._name(row[key]) for key in ("loser", "winner") if key in row})
        return of_queues(name, [tuple(row.values()) for row in rows])

    def _latest(self, query: Any, number: Any) -> list[Any]:
        """The last rows of a query in their order."""
        return self._store.tuples(query.order_by(number.desc()).limit(MOST_ROWS))[::-1]

    def _slots(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(schema={"time_s": pl.Float64, "free_gpus": pl.Int32, "fragmentation": pl.Float64})

    def _name(self, job_id: str | None) -> str | None:
        if job_id is None or self._shown(job_id):
            return job_id
        return self._strangers.setdefault(job_id, f"another{len(self._strangers) + 1}")


def scenario_of(setup: Setup) -> Scenario:
    """A daemon's set-up as far as it is one of a run."""
    return Scenario("", "", **setup.world_values())


def _frame(rows: list[tuple[Any, ...]], schema: dict[str, Any]) -> pl.DataFrame:
    """The table, made column by column: that is fast, and lets other threads go on in between."""
    import polars as pl

    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pl.DataFrame(
        [pl.Series(name, column, kind) for (name, kind), column in zip(schema.items(), columns, strict=True)]
    )


def _number(value: Any) -> Any:
    """Infinity again, which JSON does not have."""
    if isinstance(value, list):
        return [_number(one) for one in value]
    return float(value) if isinstance(value, str) and value in ("inf", "-inf") else value
