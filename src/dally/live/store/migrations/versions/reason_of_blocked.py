"""Why a job is blocked stays known when it is called back."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Text

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Orders of before have none: they are blocked anew soon."""
    op.add_column("pending_orders", Column("reason", Text, nullable=False, server_default=""))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("pending_orders", "reason")
