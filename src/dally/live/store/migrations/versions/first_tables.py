"""The tables of the first release."""

from __future__ import annotations

from alembic import op
from sqlalchemy import JSON, Column, Float, Integer, String, Text

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

GAUGES = (
    "gpus_up", "gpus_used", "gpus_useful", "waiting_jobs_1", "waiting_jobs_9", "waiting_jobs_17", "waiting_jobs_33",
    "waiting_jobs_65", "waiting_gpus_1", "waiting_gpus_9", "waiting_gpus_17", "waiting_gpus_33", "waiting_gpus_65",
    "slots_8", "slots_16", "slots_32", "slots_64", "fragmentation", "preemptions", "cycle_ms", "longest_cycle_ms",
)  # fmt: skip
INDEXES = {
    "jobs": {"jobs_by_id": "job_id", "jobs_by_status": "status", "jobs_by_end": "finish_s"},
    "events": {"events_by_job": "job_id", "events_by_time": "time_s"},
    "decisions": {"decisions_by_job": "job_id", "decisions_by_time": "time_s"},
    "actions": {"actions_by_job": "job_id"},
    "predictions": {"predictions_by_job": "job_id", "predictions_by_time": "asked_s"},
    "trends": {"trends_by_time": "at_s"},
}
TABLES = ("facts", "jobs", "pending_orders", "events", "decisions", "actions", "tokens", "predictions", "trends")


def upgrade() -> None:
    """Make them."""
    _make_state()
    _make_records()
    for table, indexes in INDEXES.items():
        for name, column in indexes.items():
            op.create_index(name, table, [column])


def _make_state() -> None:
    """What a daemon goes on from."""
    op.create_table("facts", Column("name", String, primary_key=True), Column("value", JSON, nullable=False))
    op.create_table(
        "jobs",
        Column("number", Integer, primary_key=True, autoincrement=False),
        *_needed(String, "job_id", "status", "outcome"),
        Column("submit_s", Float, nullable=False),
        Column("finish_s", Float),
        *_needed(JSON, "observed", "clocks"),
        Column("placement", JSON),
    )
    op.create_table(
        "pending_orders",
        Column("job_id", String, primary_key=True),
        *_needed(String, "desired", "request"),
        *_needed(Float, "decided_s", "sent_s", "retry_s"),
        *_needed(Integer, "attempts", "blocks"),
        Column("placement", JSON),
        Column("answer", Text),
    )
    op.create_table(
        "events",
        Column("id", Integer, primary_key=True),
        Column("time_s", Float, nullable=False),
        Column("kind", String, nullable=False),
        *(Column(name, String) for name in ("job_id", "machine", "tier")),
        Column("placement", JSON),
        Column("reason", Text, nullable=False),
    )


def _make_records() -> None:
    """What happened, and why."""
    op.create_table(
        "decisions",
        Column("id", Integer, primary_key=True),
        Column("time_s", Float, nullable=False),
        Column("kind", String, nullable=False),
        Column("job_id", String),
        Column("told", JSON, nullable=False),
    )
    op.create_table(
        "actions",
        Column("id", Integer, primary_key=True),
        Column("time_s", Float, nullable=False),
        *_needed(String, "who", "what", "owner"),
        *(Column(name, String) for name in ("job_id", "machine")),
        *_needed(Text, "told", "why", "outcome"),
    )
    op.create_table(
        "tokens",
        Column("name", String, primary_key=True),
        Column("digest", String, nullable=False, unique=True),
        *_needed(String, "role", "user"),
        Column("created_s", Float, nullable=False),
    )
    op.create_table(
        "predictions",
        Column("id", Integer, primary_key=True),
        Column("job_id", String, nullable=False),
        Column("asked_s", Float, nullable=False),
        Column("futures", Integer, nullable=False),
        *_needed(JSON, "raw", "told"),
        Column("wait_s", Float),
    )
    op.create_table(
        "trends",
        Column("minute", Integer, primary_key=True, autoincrement=False),
        Column("at_s", Float, nullable=False),
        Column("timers", JSON, nullable=False),
        *(Column(name, Float) for name in GAUGES),
    )


def _needed(kind: type, *names: str) -> list[Column[object]]:
    return [Column(name, kind, nullable=False) for name in names]


def downgrade() -> None:
    """Drop them."""
    for name in reversed(TABLES):
        op.drop_table(name)
