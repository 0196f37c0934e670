"""The journal and the table: durable, whole, in order, one writer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dally.errors import InputError
from dally.metrics.summary import Row
from dally.runs.scenario import Scenario
from dally.sweep.batch import RowStore, carry_out, frame_of, with_folders
from dally.sweep.run import Run
from dally.sweep.workers.local import LocalWorkers


def run(key: str, **labels: Any) -> Run:
    return Run(Scenario("t.csv", "1x8", "fifo"), labels or {"n": key}, key)


def test_rows_survive_and_a_line_cut_short_does_not(tmp_path: Path) -> None:
    with RowStore(tmp_path) as store:
        store.add(run("a"), {"x": 1.5})
        store.add(run("b"), {"x": None})
    journal = tmp_path / "runs.jsonl"
    whole = journal.read_bytes()
    for cut in range(len(whole) // 2 + 2, len(whole)):
        journal.write_bytes(whole[:cut])
        with RowStore(tmp_path) as store:
            assert store.rows == {"a": {"x": 1.5}}
            store.add(run("b"), {"x": None})
        assert journal.read_bytes() == whole


@pytest.mark.parametrize("text", ["{}\n", "1\n", "x\n", '{"key": "a", "row": 3}\n'])
def test_another_journal_is_refused_and_left_alone(text: str, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(text)
    with pytest.raises(InputError, match=r"runs.jsonl:1: is not a row of a sweep"):
        RowStore(tmp_path)
    assert (tmp_path / "runs.jsonl").read_text() == text


def test_a_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with RowStore(tmp_path), pytest.raises(InputError, match="another dally is at work in it"):
        RowStore(tmp_path)
    with RowStore(tmp_path):
        pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: cannot be written"):
        RowStore(tmp_path / "file")


def test_the_table_has_the_runs_order_and_nothing_measured(tmp_path: Path) -> None:
    """Rows finished in another order, by another call, and in the journal of an earlier plan."""
    with RowStore(tmp_path) as store:
        for name in ("c", "old", "a", "b"):
            store.add(run(name), {"jobs": 1, "finished": 1, "cpu_s": 0.25, "y": name * 2})
        outcome = carry_out([run("a"), run("b"), run("c"), run("a")], LocalWorkers(1), store)
    assert [row["cpu_s"] for row in outcome.rows] == [0.25] * 3
    table = pl.read_parquet(tmp_path / "results.parquet")
    assert table.to_dict(as_series=False) == {
        "policy": ["fifo"] * 3, "n": ["a", "b", "c"], "seed": [1, 1, 1], "jobs": [1, 1, 1], "finished": [1, 1, 1],
        "y": ["aa", "bb", "cc"],
    }  # fmt: skip


def test_a_run_whose_folder_is_gone_or_another_runs_is_not_finished(tmp_path: Path) -> None:
    one, two = (replace(run(name), folder=tmp_path / "runs" / "same") for name in ("a", "b"))
    (tmp_path / "runs" / "same").mkdir(parents=True)
    with RowStore(tmp_path) as store:
        store.add(one, {})
        assert not store.has(one), "no summary.json there"
        (tmp_path / "runs" / "same" / "summary.json").touch()
        assert store.has(one)
        store.add(two, {})
        assert (store.has(one), store.has(two)) == (False, True)
        assert store.has(replace(one, folder=None))
    with RowStore(tmp_path) as store:
        assert (store.has(one), store.has(two)) == (False, True)


def test_columns_have_one_type_each() -> None:
    rows: list[Row] = [{"a": 1, "b": None, "c": True, "d": 1}, {"a": 2.5, "c": False, "d": "x", "e": 3}]
    table = frame_of(rows)
    assert dict(table.schema) == {
        "a": pl.Float64, "b": pl.Float64, "c": pl.Boolean, "d": pl.String, "e": pl.Int64,
    }  # fmt: skip
    assert table.rows() == [(1.0, None, True, "1", None), (2.5, None, False, "x", 3)]
    assert frame_of([]).shape == (0, 0)


def test_folders_are_named_by_labels_each_its_own() -> None:
    runs = [
        run("a", policy="las:lease_s=5", network="", seed=1),
        run("b", policy="las/lease_s=5", network="", seed=1),
    ]
    assert [str(one.folder) for one in with_folders(runs, Path("r"))] == [
        "r/las_lease_s=5-1",
        "r/las_lease_s=5-1~2",
    ]


def test_journal_lines_say_what_the_run_was(tmp_path: Path) -> None:
    with RowStore(tmp_path) as store:
        store.add(run("k", policy="las", seed=3), {"x": 1})
    assert json.loads((tmp_path / "runs.jsonl").read_text()) == {
        "key": "k", "labels": {"policy": "las", "seed": 3}, "folder": "", "row": {"x": 1},
    }  # fmt: skip
