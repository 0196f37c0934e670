"""Predictions of starts, and what came of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "predictions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("job_id", sa.String, nullable=False),
        sa.Column("asked_s", sa.Float, nullable=False),
        sa.Column("futures", sa.Integer, nullable=False),
        sa.Column("raw", sa.JSON, nullable=False),
        sa.Column("told", sa.JSON, nullable=False),
        sa.Column("wait_s", sa.Float),
    )
    op.create_index("predictions_by_job", "predictions", ["job_id"])
    op.create_index("predictions_by_time", "predictions", ["asked_s"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("predictions")
