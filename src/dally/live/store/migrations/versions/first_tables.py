"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "facts", sa.Column("name", sa.String, primary_key=True), sa.Column("value", sa.JSON, nullable=False)
    )
    op.create_table(
        "jobs",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("job_id", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("submit_s", sa.Float, nullable=False),
        sa.Column("finish_s", sa.Float),
        sa.Column("told", sa.JSON, nullable=False),
        sa.Column("clocks", sa.JSON, nullable=False),
        sa.Column("placement", sa.JSON),
    )
    op.create_index("jobs_by_id", "jobs", ["job_id"])
    op.create_index("jobs_by_status", "jobs", ["status"])
    op.create_table(
        "wanted",
        sa.Column("job_id", sa.String, primary_key=True),
        sa.Column("placement", sa.JSON),
        sa.Column("decided_s", sa.Float, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("time_s", sa.Float, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("job_id", sa.String),
        sa.Column("machine", sa.String),
        sa.Column("tier", sa.String),
        sa.Column("placement", sa.JSON),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_index("events_by_job", "events", ["job_id"])
    op.create_index("events_by_time", "events", ["time_s"])
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("time_s", sa.Float, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("job_id", sa.String),
        sa.Column("told", sa.JSON, nullable=False),
    )
    op.create_index("decisions_by_job", "decisions", ["job_id"])
    op.create_index("decisions_by_time", "decisions", ["time_s"])
    op.create_table(
        "tokens",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("digest", sa.String, nullable=False, unique=True),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("created_s", sa.Float, nullable=False),
    )


def downgrade() -> None:
    """Drop them."""
    for name in ("tokens", "decisions", "events", "wanted", "jobs", "facts"):
        op.drop_table(name)
