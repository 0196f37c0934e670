"""The tables. A change here needs a migration in `migrations/versions`; a test compares the two."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Float, Index, Integer, MetaData, String, Table, Text

from dally.metrics.trends import GAUGES

METADATA = MetaData()

# Single values by name: the clock's origin, the policy and what it has learnt.
FACTS = Table("facts", METADATA, Column("name", String, primary_key=True), Column("value", JSON, nullable=False))

# Jobs that the daemon has seen, the ended ones too. Times are seconds of the engine's clock.
JOBS = Table(
    "jobs",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("job_id", String, nullable=False),
    Column("status", String, nullable=False),  # the engine's; `outcome` is the backend's
    Column("outcome", String, nullable=False, default=""),
    Column("submit_s", Float, nullable=False),
    Column("finish_s", Float),
    Column("observed", JSON, nullable=False),  # the fields of ObservedJob
    Column("clocks", JSON, nullable=False),  # how far it has come: see log_rows.py
    Column("placement", JSON),  # while it has GPUs
    Index("jobs_by_id", "job_id"),
    Index("jobs_by_status", "status"),
    Index("jobs_by_end", "finish_s"),
)

# What was decided and is not so yet, one row per job: the fields of PendingOrder.
PENDING_ORDERS = Table(
    "pending_orders",
    METADATA,
    Column("job_id", String, primary_key=True),
    Column("desired", String, nullable=False),
    Column("decided_s", Float, nullable=False),
    Column("placement", JSON),
    Column("request", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("sent_s", Float, nullable=False),
    Column("answer", Text),  # null: none is known
    Column("blocks", Integer, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),  # why it is blocked
    Column("retry_s", Float, nullable=False),
)

# What happened, and why.
EVENTS = Table(
    "events",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("time_s", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("job_id", String),
    Column("machine", String),
    Column("tier", String),
    Column("placement", JSON),
    Column("reason", Text, nullable=False, default=""),
    Index("events_by_job", "job_id"),
    Index("events_by_time", "time_s"),
)
DECISIONS = Table(
    "decisions",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("time_s", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("job_id", String),
    Column("told", JSON, nullable=False),  # the other columns of decisions.parquet
    Index("decisions_by_job", "job_id"),
    Index("decisions_by_time", "time_s"),
)

# What people asked for: who, what of which job or machine, why, and what came of it.
ACTIONS = Table(
    "actions",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("time_s", Float, nullable=False),
    Column("who", String, nullable=False),
    Column("what", String, nullable=False),
    Column("job_id", String),
    Column("owner", String, nullable=False),  # whose job that is
    Column("machine", String),
    Column("told", Text, nullable=False),  # all of it in a sentence
    Column("why", Text, nullable=False),
    Column("outcome", Text, nullable=False),  # see log_rows.py
    Index("actions_by_job", "job_id"),
)

TOKENS = Table(
    "tokens",
    METADATA,
    Column("name", String, primary_key=True),
    Column("digest", String, nullable=False, unique=True),  # SHA-256 of the token: the token itself is not kept
    Column("role", String, nullable=False),
    Column("user", String, nullable=False, default=""),
    Column("created_s", Float, nullable=False),  # seconds since 1970
)

# What was said of when a job starts, in seconds from when it was asked, and what came.
PREDICTIONS = Table(
    "predictions",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("job_id", String, nullable=False),
    Column("asked_s", Float, nullable=False),
    Column("futures", Integer, nullable=False),
    Column("raw", JSON, nullable=False),  # low, middle and high as the futures had them; null: not seen
    Column("told", JSON, nullable=False),  # the same as they were told
    Column("wait_s", Float),  # until the job started; null: it waits
    Index("predictions_by_job", "job_id"),
    Index("predictions_by_time", "asked_s"),
)

# How the cluster fared, one row per minute of the wall clock: see trend_rows.py.
TRENDS = Table(
    "trends",
    METADATA,
    Column("minute", Integer, primary_key=True, autoincrement=False),  # since 1970
    Column("at_s", Float, nullable=False),  # of the engine's clock
    Column("timers", JSON, nullable=False),  # by GPUs, then by tier; null: for ever
    *(Column(name, Float) for name, _, _ in GAUGES),
    Index("trends_by_time", "at_s"),
)
