"""The log of what people asked for: a row before anything is done, and what came of it after."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, func, insert, select, update

from dally.live.store.database import Store
from dally.live.store.schema import ACTIONS

DONE: Final = "done"
PENDING: Final = "asked"  # the cluster's own software was to be asked, and nobody noted what it said


def add_action(connection: Connection, row: dict[str, Any]) -> int:
    """A new row; its number."""
    key = connection.execute(insert(ACTIONS).values(**row)).inserted_primary_key
    assert key is not None
    return int(key[0])


def note_outcome(store: Store, number: int, outcome: str) -> None:
    """What came of it."""
    with store.transaction() as connection:
        connection.execute(update(ACTIONS).where(ACTIONS.c.id == number).values(outcome=outcome))


def actions(
    store: Store, owner: str | None, job_id: str | None, machine: str | None, offset: int, limit: int
) -> tuple[int, list[dict[str, Any]]]:
    """How many there are on jobs of that owner, that job, that machine (None: any); some, the latest first."""
    request = {"owner": owner, "job_id": job_id, "machine": machine}
    chosen = [ACTIONS.c[name] == value for name, value in request.items() if value is not None]
    if owner is not None:
        chosen.append(ACTIONS.c.job_id.is_not(None))  # machines are nobody's
    total = store.rows(select(func.count().label("actions")).select_from(ACTIONS).where(*chosen))[0]["actions"]
    query = select(ACTIONS).where(*chosen).order_by(ACTIONS.c.id.desc()).offset(offset).limit(limit)
    return int(total), store.rows(query)
