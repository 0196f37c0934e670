"""All of a pending order is kept: what was sent, how often, when, and what was answered."""

from __future__ import annotations

from alembic import op
from sqlalchemy import JSON, Column, Float, Integer, String, Text

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """What was pending is decided again."""
    op.drop_table("wanted")
    op.create_table(
        "pending_orders",
        Column("job_id", String, primary_key=True),
        Column("desired", String, nullable=False),
        Column("decided_s", Float, nullable=False),
        Column("placement", JSON),
        Column("request", String, nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("sent_s", Float, nullable=False),
        Column("answer", Text),
        Column("blocks", Integer, nullable=False),
        Column("retry_s", Float, nullable=False),
    )


def downgrade() -> None:
    """As it was."""
    op.drop_table("pending_orders")
    op.create_table(
        "wanted",
        Column("job_id", String, primary_key=True),
        Column("placement", JSON),
        Column("decided_s", Float, nullable=False),
    )
