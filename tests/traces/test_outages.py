"""Outage files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.errors import InputError
from dally.traces.outages import read_outages

MACHINES = {"0": 0, "1": 1, "n0": 0, "n1": 1}


def test_reads_names_numbers_and_open_ends(tmp_path: Path) -> None:
    file = tmp_path / "o.csv"
    file.write_text("machine,fail_s,repair_s\nn1,10,20\n0,5,\n")
    assert read_outages(file, MACHINES) == [(1, 10.0, 20.0), (0, 5.0, float("inf"))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "o.csv: is empty"),
        ("machine,fail_s\n", "o.csv:1: repair_s: no such column"),
        ("machine,fail_s,repair_s\nn7,1,2\n", "o.csv:2: machine: 'n7': the cluster has no such machine"),
        ("machine,fail_s,repair_s\nn0,5,5\n", "o.csv:2: repair_s: '5': must come after fail_s, '5'"),
        ("machine,fail_s,repair_s\nn0,x,5\n", "o.csv:2: fail_s: 'x' is not a number"),
        ("machine,fail_s,repair_s\nn0,1\n", "o.csv:2: 2 fields where the header has 3"),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "o.csv"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_outages(file, MACHINES)
    assert message in str(caught.value)
