"""Tables on terminals that are narrower than they are."""

from __future__ import annotations

import pytest

from dally.cli.output import in_width

COLUMNS = ["", "mean JCT, h", "÷ bound", "p99 JCT, h", "preemptions"]  # at most 4, 11, 7, 10 and 11 characters
ROWS = [["fifo", "117.8 ±1.4", "30.51", "263.3 ±6.4", "0*"], ["las", "8.44", "2.19", "199.6 ±6.9", "676.7"]]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (57, [[0, 1, 2, 3, 4]]),  # 43 characters, 3 between columns and one on either side
        (56, [[0, 1, 2, 3], [0, 4]]),
        (41, [[0, 1, 2], [0, 3, 4]]),  # ÷ bound is not parted from what it is of
        (10, [[0, 1, 2], [0, 3], [0, 4]]),
    ],
)
def test_columns_of_figures_go_into_as_many_tables_as_they_need(width: int, expected: list[list[int]]) -> None:
    assert in_width(COLUMNS, ROWS, 1, width) == expected


def test_texts_may_go_on_in_the_next_line_at_a_blank() -> None:
    """Their longest words: 4, 5, 5, 5 and 11 characters."""
    assert in_width(COLUMNS, ROWS, 99, 44) == [[0, 1, 2, 3, 4]]
    assert in_width(COLUMNS, ROWS, 99, 43) == [[0, 1, 2, 3], [0, 4]]
