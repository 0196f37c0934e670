"""The store: migrations make the tables that the code expects, and rows come back as they went in."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import ObservedJob
from dally.live.facts import job_of
from dally.live.reconcile.pending import RUN, START, STOP, PendingOrder
from dally.live.store import open_store
from dally.live.store.log_rows import CLOCKS, COUNTS, job_row, observed_of, restore_clocks
from dally.live.store.schema import METADATA
from dally.model import INFINITY, Job
from tests.live.postgres import postgresql

FIRST, SECOND = PendingOrder("1", RUN, 5.0, {"n1": 8}), PendingOrder("2", STOP, 6.0)


def test_migrations_make_the_tables_of_the_schema(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/a.db")
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    store.close()
    open_store(f"sqlite:///{tmp_path}/a.db").close()  # nothing is left to do


def test_migrations_are_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("alembic.op.create_index", killed)
        with pytest.raises(KeyboardInterrupt):
            open_store(f"sqlite:///{tmp_path}/a.db")
    open_store(f"sqlite:///{tmp_path}/a.db").close()


def test_an_older_version_leaves_the_store_of_a_newer_one_alone(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/a.db"
    store = open_store(address)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'of2030'")
    store.close()
    with pytest.raises(InputError, match=r"a\.db: .*'of2030': a newer version of Dally has written it"):
        open_store(address)


def test_the_same_in_postgresql(tmp_path_factory: pytest.TempPathFactory) -> None:
    with postgresql(tmp_path_factory.mktemp("pg")) as address:
        store = open_store(address)
        with store.engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        with store.transaction() as connection:
            store.keep(connection, "learnt", {"a": [1.5, None]})
            store.keep(connection, "learnt", {"a": [2.5, None]})
            store.write_orders(connection, [asdict(FIRST), asdict(SECOND)], [])
            store.write_orders(connection, [], ["1"])
        assert store.fact("learnt") == {"a": [2.5, None]}
        assert store.pending_orders() == [SECOND]
        store.close()


def test_a_job_comes_back_as_it_went() -> None:
    told = ObservedJob(
        "7", base.RUNNING, JobSpec(8, model="bert", name="a", user="u", limit_s=60.0), 10.0, {"n1": 8}
    )
    job = job_of(told, 3, 10.0, "resnet50")
    for place, name in enumerate(CLOCKS):
        setattr(job, name, 1.5 + place)
    for place, name in enumerate(COUNTS):
        setattr(job, name, place)
    row = job_row(job, told, {"n1": 8})
    assert observed_of(row) == told
    other = Job(3, "7", 10.0, 8, -1.0)
    restore_clocks(other, row["clocks"])
    assert {name: getattr(other, name) for name in (*CLOCKS, *COUNTS)} == {
        name: getattr(job, name) for name in (*CLOCKS, *COUNTS)
    }
    assert other.lease_end_s == INFINITY


def test_nothing_of_a_turn_that_fails_is_kept(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/a.db")

    def fail() -> None:
        with store.transaction() as connection:
            store.write_orders(connection, [asdict(FIRST)], [])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.pending_orders() == []
    later = replace(SECOND, desired=RUN, placement={"n2": 4}, request=START, attempts=2, sent_s=8.0, answer="no")
    with store.transaction() as connection:
        store.write_orders(connection, [asdict(FIRST), asdict(SECOND)], [])
    with store.transaction() as connection:
        store.write_orders(connection, [asdict(later)], ["1"])
    assert store.pending_orders() == [later]
    store.close()


@pytest.mark.parametrize("address", ["nonsense", "sqlite:////no/such/folder/a.db", "oracle://x"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(InputError, match=f"--store {address}"):
        open_store(address)
