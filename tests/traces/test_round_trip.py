"""Read, write, read: the same jobs, in every format that can be written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.traces import History, read_history, read_trace
from dally.traces.formats import FORMATS
from dally.traces.rows import NOT_KNOWN, TraceRow
from dally.traces.writing import WRITERS, format_of, losses, text_of
from dally.whole_file import write_pieces
from tests.traces.documented import first_seed, put

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0|."), max_size=8).map(str.strip)
NUMBERS = st.integers(1, 10**9).map(str)


def rows_of(ids: st.SearchStrategy[str], words: st.SearchStrategy[str], times: st.SearchStrategy[float]) -> (
    st.SearchStrategy[list[TraceRow]]
):  # fmt: skip
    spec = st.builds(
        JobSpec, st.integers(1, 300), model=words, user=words, priority=st.integers(0, 9).map(float), name=words,
        gpu_type=words, limit_s=st.none() | times, account=words, partition=words, qos=words, queue=words,
        checkpoint_every_s=st.none() | times,
    )  # fmt: skip
    row = st.builds(
        TraceRow, st.just(0), ids, times, spec, times, status=words, wait_s=st.just(NOT_KNOWN) | times,
        machines=st.integers(0, 9), placement=words, nodes=words,
    )  # fmt: skip
    rows = st.lists(row, min_size=1, max_size=6, unique_by=lambda row: row.job_id)
    return rows.map(lambda found: sorted(found, key=lambda row: row.submit_s))


SECONDS = st.integers(0, 10**8).map(float)
ANY_TIMES = SECONDS | st.floats(0.0, 1e9, allow_subnormal=False)
KEPT = {
    "csv": (
        "model",
        "user",
        "priority",
        "name",
        "status",
        "wait_s",
        "machines",
        "gpu_type",
        "placement",
        "limit_s",
        "account",
        "partition",
        "qos",
        "nodes",
        "queue",
        "checkpoint_every_s",
    ),
    "tiresias": ("model",),
    "swf": ("user", "name", "wait_s", "partition", "queue"),
    "helios": ("user", "status", "machines", "queue"),
    "philly": ("user", "status", "queue"),
    "sacct": ("user", "name", "machines", "account", "partition", "qos", "limit_s"),
}
DATED = [name for name in WRITERS if FORMATS[name].dated]


def history_of(rows: list[TraceRow], epoch_s: float | None = None) -> History:
    return History(rows, "duration_s", "csv", {}, {}, epoch_s)


def facts(rows: list[TraceRow], name: str) -> list[tuple[object, ...]]:
    """What the format promises to keep; dated ones start with the first job."""
    first_s = rows[0].submit_s if name in DATED else 0.0
    kept = ("job_id", "gpus", "stated", *KEPT[name])
    if name in ("helios", "philly"):  # whose readers let the virtual cluster stand for a user who is not named
        rows = [row._replace(spec=replace(row.spec, user=row.spec.user or row.spec.queue)) for row in rows]
    return [(row.submit_s - first_s, *(_fact(row, field) for field in kept)) for row in rows]


def _fact(row: TraceRow, field: str) -> object:
    return getattr(row.spec if hasattr(row.spec, field) else row, field)


def check(rows: list[TraceRow], name: str, folder: Path) -> None:
    for file in ("trace", "trace.gz"):
        path = folder / file
        write_pieces(path, text_of(history_of(rows, 1.6e9), name))
        again = read_history(path)
        assert FORMATS[again.format].rows == FORMATS[name].rows
        assert facts(again.rows, name) == facts(rows, name)
        assert not again.unused
        assert [job.job_id for job in read_trace(path, 1000).jobs] == [row.job_id for row in rows]


@pytest.mark.parametrize("name", ["csv", "tiresias"])
def test_exact_seconds(name: str, tmp_path: Path) -> None:
    @given(rows_of(WORDS.filter(bool), WORDS, ANY_TIMES))
    def run(rows: list[TraceRow]) -> None:
        check(rows, name, tmp_path)

    run()


@pytest.mark.parametrize("name", ["helios", "philly", "sacct"])
def test_whole_seconds(name: str, tmp_path: Path) -> None:
    words = WORDS.map(lambda word: "".join(word.split()))  # a state ends at a space, a line of sacct at its end

    @given(rows_of((words if name == "sacct" else WORDS).filter(bool), words, SECONDS))
    def run(rows: list[TraceRow]) -> None:
        check(rows, name, tmp_path)

    run()


def test_swf_keeps_numbers(tmp_path: Path) -> None:
    @given(rows_of(NUMBERS, NUMBERS | st.just(""), SECONDS))
    def run(rows: list[TraceRow]) -> None:
        check(rows, "swf", tmp_path)

    run()


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("source", FORMATS)
def test_every_documented_example_can_be_converted(source: str, name: str, tmp_path: Path) -> None:
    history = read_history(put(first_seed(source), tmp_path))
    if history.length != "duration_s" and name != "csv":
        with pytest.raises(InputError, match="states compute_s instead of durations"):
            text_of(history, name)
        return
    path = tmp_path / "again"
    write_pieces(path, text_of(history, name))
    again = read_history(path)
    assert again.length == history.length
    assert [(row.spec.gpus, round(row.stated)) for row in again.rows] == [
        (row.spec.gpus, round(row.stated)) for row in history.rows
    ]


def test_what_cannot_be_held_is_said() -> None:
    row = TraceRow(1, "a", 0.5, JobSpec(1, model="m", name="n", user="u", priority=1.0), 9.0)
    assert losses(history_of([row]), "csv") == []
    assert losses(history_of([row]), "helios") == [
        "helios cannot hold model or priority or name: left out",
        "helios counts whole seconds: 1 jobs were rounded",
    ]
    assert losses(history_of([row]), "swf")[-1] == (
        "swf knows numbers only: job ids and users and names were numbered from 1"
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (TraceRow(1, "a.1", 0.0, JobSpec(1), 9.0), "sacct takes an id with a dot for a job's step"),
        (TraceRow(1, "a|b", 0.0, JobSpec(1), 9.0), "only a name can hold |"),
        (TraceRow(1, "a", 1e15, JobSpec(1), 9.0), "is no date: beyond the year 9999"),
        (TraceRow(1, "x" * 60_000, 0.0, JobSpec(1), 9.0), "60,000 characters in its id, user and so on: too many"),
    ],
)
def test_what_would_read_back_as_something_else_is_refused(row: TraceRow, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with pytest.raises(InputError) as caught:
        write_pieces(path, text_of(history_of([row]), "sacct"))
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_names_suggest_formats_and_the_same_bytes_every_time(tmp_path: Path) -> None:
    names = ["a.csv", "a.csv.gz", "a.swf.gz", "a.json", "a"]
    assert [format_of(name) for name in names] == ["csv", "csv", "swf", "philly", "csv"]
    history = history_of([TraceRow(1, "a", 0.0, JobSpec(1), 9.0)])
    for name in ("one.gz", "two.gz"):
        write_pieces(tmp_path / name, text_of(history, "csv"))
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()
    with pytest.raises(InputError, match="cannot be written"):
        write_pieces(tmp_path / "no" / "where.csv", ["x"])
