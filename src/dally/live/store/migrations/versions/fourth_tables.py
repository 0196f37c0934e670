"""What people asked for, who and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "actions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("time_s", sa.Float, nullable=False),
        sa.Column("who", sa.String, nullable=False),
        sa.Column("what", sa.String, nullable=False),
        sa.Column("job_id", sa.String),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("machine", sa.String),
        sa.Column("told", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
    )
    op.create_index("actions_by_job", "actions", ["job_id"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("actions")
