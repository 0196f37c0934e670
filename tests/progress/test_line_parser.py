"""Lines of training are read as their framework means them; lines of other programs say nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from dally.errors import InputError
from dally.progress.line_parser import parse_line
from dally.progress.line_progress import LineProgress
from dally.progress.own_pattern import OwnPattern
from tests.progress.other_programs import lines

ROWS = [
    json.loads(line)
    for name in ("known_lines.jsonl", "more_frameworks.jsonl", "many_scripts.jsonl")
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
]
CORPUS = Path(__file__).parents[3] / "shared" / "reference" / "log_lines.jsonl"


def agrees(actual: LineProgress | None, expected: LineProgress) -> bool:
    """Whether every number is the same, to the digits that lines print."""
    pairs = zip(actual or LineProgress(), expected, strict=True)
    return all(
        (one is None) == (other is None)
        and (one is None or other is None or abs(one - other) <= 0.005 * abs(other))
        for one, other in pairs
    )


@pytest.mark.parametrize("row", ROWS, ids=[f"{place} {row['line'].strip()[:40]}" for place, row in enumerate(ROWS)])
def test_line(row: dict[str, Any]) -> None:
    expected = LineProgress(**{name: row.get(name) for name in LineProgress._fields})
    assert agrees(parse_line(row["line"]), expected), parse_line(row["line"])


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus lies beside the project")
def test_corpus() -> None:
    rows = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    wrong = [
        row["line"]
        for row in rows
        if not agrees(parse_line(row["line"]), LineProgress(*(row[name] for name in LineProgress._fields)))
    ]
    assert len(rows) >= 91
    assert len(wrong) <= 0.01 * len(rows), wrong


def test_ten_thousand_lines_of_other_programs_say_nothing() -> None:
    every = list(lines(10_000))
    assert len(set(every)) > 8000
    assert [line for line in every if parse_line(line) is not None] == []


def test_last_update_of_a_line_counts() -> None:
    bars = "\r".join(f" {done}%|#   | {done}/100 [00:{done:02}<01:00, 1.00it/s]" for done in range(1, 41))
    assert parse_line(bars) == LineProgress(40, 100, s_per_step=1.0)


def test_line_of_any_length_takes_little_time() -> None:
    for line in (
        "1/" * 500_000,
        " " * 500_000 + "x",
        "Epoch " * 100_000,
        "loss " * 100_000 + "step 3",
        "{" * 500_000,
        "step " + "1" * 500_000,
        " " * 3_990 + "step 1",
    ):
        assert parse_line(line) is None or parse_line(line) != LineProgress()


def test_own_pattern() -> None:
    own = OwnPattern("round {step} of {total}: {s_per_step}s (+)")
    assert own.parse("  round  1,200 of 5000: 0.5s (+)") == LineProgress(1200, 5000, s_per_step=0.5)
    assert own.parse("round one") is None


@pytest.mark.parametrize("text", ["", "round", "{total}", "{step} {step}", "{stap}", "{step}" + "x" * 300])
def test_own_pattern_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--pattern"):
        OwnPattern(text)


@pytest.mark.parametrize(
    "pattern", ["{step}X", "1{step}X", " x{step}", "{step},{total},{epoch},{epochs},{s_per_step}X"]
)
@pytest.mark.parametrize("line", ["1" * 4000, "1," * 2000, "1,111" * 800, " " * 4000, "1e1." * 1000, "1 " * 2000])
def test_no_line_takes_an_own_pattern_long(pattern: str, line: str) -> None:
    """A user has both in hand, and the daemon reads them."""
    own = OwnPattern(pattern)
    began_s = time.process_time()
    assert own.parse(line) is None
    assert time.process_time() - began_s < 2.0  # some ms; it took minutes


def test_numbers_are_apart() -> None:
    with pytest.raises(InputError, match="nothing between"):
        OwnPattern("{step}{total}")
    assert OwnPattern("{step}/{total}").parse("at 12/100") == LineProgress(12, 100)
    assert OwnPattern("n{step}").parse("n1,200") == LineProgress(1200)
