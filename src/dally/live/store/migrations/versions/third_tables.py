"""How the cluster fared, minute by minute."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

GAUGES = (
    "gpus_up", "gpus_used", "gpus_useful", "waiting_jobs_1", "waiting_jobs_9", "waiting_jobs_17", "waiting_jobs_33",
    "waiting_jobs_65", "waiting_gpus_1", "waiting_gpus_9", "waiting_gpus_17", "waiting_gpus_33", "waiting_gpus_65",
    "slots_8", "slots_16", "slots_32", "slots_64", "fragmentation", "preemptions", "turn_ms", "longest_turn_ms",
)  # fmt: skip


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "trends",
        sa.Column("minute", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("timers", sa.JSON, nullable=False),
        *(sa.Column(name, sa.Float) for name in GAUGES),
    )
    op.create_index("trends_by_time", "trends", ["at_s"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("trends")
