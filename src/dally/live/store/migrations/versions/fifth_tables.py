"""Jobs are looked for by when they ended."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index."""
    op.create_index("jobs_by_end", "jobs", ["finish_s"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index("jobs_by_end", "jobs")
