"""Overrides of operators, as the store holds them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from dally.live.overrides import DELAY, FACT, Override, Overrides, read_overrides
from dally.live.store import open_store

ROW = Override("ann", "any place will do", 5.0, 0.0)


def test_overrides_are_read_as_they_were_stored(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'dally.db'}")
    with store.transaction() as connection:
        store.keep(connection, FACT, Overrides().with_override(DELAY, "7", ROW).plain())
    assert read_overrides(store).of(DELAY) == {"7": ROW}


def test_a_kind_under_its_earlier_name_is_read(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'dally.db'}")
    with store.transaction() as connection:
        store.keep(connection, FACT, {"patience": {"7": asdict(ROW)}})
    assert read_overrides(store).delay_until_s("7") == 0.0
