"""The store: rows in, rows out. One transaction per cycle of the daemon."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, bindparam, create_engine, delete, event, func, insert, make_url, select
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from dally.errors import InputError
from dally.live.private_folder import make_file
from dally.live.reconcile.pending import PendingOrder
from dally.live.store.schema import DECISIONS, EVENTS, FACTS, JOBS, PENDING_ORDERS, PREDICTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Table


def migrate(engine: Engine) -> None:
    """Run the migrations that the database lacks, all of them or none."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":  # or each table would be there at once, and a daemon killed in between
            connection.exec_driver_sql("BEGIN")  # would leave some that the next one cannot make
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise InputError(f"store {engine.url!r}: {error}: a newer version of Dally has written it") from None


LIVE = ("pending", "waiting", "running", "held")  # statuses of jobs that have not ended


class StoreError(Exception):
    """The database could not be read or written just now; says why in one line."""


class Store:
    """The database of one cluster."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All of it is written, or nothing."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreError(_short(error)) from None

    # Single facts.

    def fact(self, name: str) -> Any:
        """The value kept under that name; None if there is none."""
        with self.transaction() as connection:
            row = connection.execute(select(FACTS.c.value).where(FACTS.c.name == name)).first()
        return None if row is None else row[0]

    def keep(self, connection: Connection, name: str, value: Any) -> None:
        """Keep a plain value under that name."""
        replace_rows(connection, FACTS, "name", [{"name": name, "value": value}])

    # One cycle of the daemon.

    def write_jobs(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """These jobs as they stand now."""
        replace_rows(connection, JOBS, "number", rows)

    def write_orders(self, connection: Connection, rows: Sequence[dict[str, Any]], gone: Iterable[str]) -> None:
        """Pending orders that are new or have changed, and jobs of which none is pending any more."""
        replace_rows(connection, PENDING_ORDERS, "job_id", rows)
        ended = [{"gone": job_id} for job_id in gone]
        if ended:  # in one statement: a thousand gangs may have started in one cycle
            connection.execute(delete(PENDING_ORDERS).where(PENDING_ORDERS.c.job_id == bindparam("gone")), ended)

    def write_log(
        self, connection: Connection, events: Sequence[dict[str, Any]], decisions: Sequence[dict[str, Any]]
    ) -> None:
        """What happened in a cycle, and why."""
        if events:
            connection.execute(insert(EVENTS), events)
        if decisions:
            connection.execute(insert(DECISIONS), decisions)

    def prune(self, reasons_before_s: float, predictions_before_s: float) -> None:
        """Forget reasons for what happened, and what was said of starts, before a moment.

        Jobs and events are kept, and what was said of those that still wait.
        """
        old = (PREDICTIONS.c.asked_s < predictions_before_s) & PREDICTIONS.c.wait_s.is_not(None)
        with self.transaction() as connection:
            connection.execute(delete(DECISIONS).where(DECISIONS.c.time_s < reasons_before_s))
            connection.execute(delete(PREDICTIONS).where(old))

    # What a restart and the API read.

    def live_jobs(self) -> list[dict[str, Any]]:
        """Rows of the jobs that had not ended, in order of number."""
        return self.rows(select(JOBS).where(JOBS.c.status.in_(LIVE)).order_by(JOBS.c.number))

    def last_number(self) -> int:
        """The highest number that any job has had; -1: none has."""
        with self.transaction() as connection:
            result = connection.execute(select(func.max(JOBS.c.number))).scalar()
        return -1 if result is None else int(result)

    def pending_orders(self) -> list[PendingOrder]:
        """What was decided and not seen to be done, the earliest first."""
        query = select(PENDING_ORDERS).order_by(PENDING_ORDERS.c.decided_s, PENDING_ORDERS.c.job_id)
        return [PendingOrder(**row) for row in self.rows(query)]

    def rows(self, query: Any) -> list[dict[str, Any]]:
        """The rows of a query by column name."""
        with self.transaction() as connection:
            return [dict(row._mapping) for row in connection.execute(query)]

    def tuples(self, query: Any) -> list[Any]:
        """The same as plain tuples, in half the time."""
        with self.transaction() as connection:
            return list(connection.execute(query).all())

    def close(self) -> None:
        """Let go of the database."""
        self.engine.dispose()


def open_store(address: str, patience_s: float = 5.0) -> Store:
    """The store at that address (sqlite:///FILE, postgresql+psycopg://…), its tables brought up to date.

    `patience_s`: how long to wait for a SQLite file that somebody else has locked.
    """
    shown = _shown(address)
    try:
        _make_private(address)
        engine = create_engine(
            address, connect_args={"timeout": patience_s} if address.startswith("sqlite") else {}
        )
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _prepare_sqlite)
        migrate(engine)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise InputError(f"--store {shown}: {_short(error)}") from None
    except (SQLAlchemyError, OSError) as error:
        raise InputError(f"--store {shown}: cannot be opened: {_short(error)}") from None
    return Store(engine)


def _shown(address: str) -> str:
    """The address without its password: messages reach logs."""
    try:
        return make_url(address).render_as_string(hide_password=True)
    except ArgumentError:
        return address.partition(":")[0]


def _make_private(address: str) -> None:
    """A new SQLite file is for this user alone; SQLite gives the files beside it the same mode."""
    url = make_url(address)
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        with suppress(FileExistsError):
            make_file(Path(str(url.database)))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Readers do not stop the writer, and a cycle that is written survives a crash of the daemon."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def replace_rows(connection: Connection, table: Table, key: str, rows: Sequence[dict[str, Any]]) -> None:
    """Insert the rows, in place of those of the same key."""
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as upsert
    else:
        from sqlalchemy.dialects.sqlite import insert as upsert  # type: ignore[assignment]
    statement = upsert(table)
    columns = {name: statement.excluded[name] for name in rows[0] if name != key}
    connection.execute(statement.on_conflict_do_update(index_elements=[key], set_=columns), rows)


def _short(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).splitlines()[0]
