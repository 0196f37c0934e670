"""What `--job-progress` says of the jobs of a simulation: which of them report how long they take, and how well."""

from __future__ import annotations

from typing import Final

from dally.engine.reports import Reports
from dally.runs.stated_numbers import read_numbers

OPTION: Final = "--job-progress"
# By name: the field of Reports, the least value and the largest.
VALUES: Final = {
    "share": ("share", 0.0, 1.0),
    "after": ("after_s", 0.0, float("inf")),
    "noise": ("noise", 0.0, 10.0),
    "wrong": ("wrong", 0.0, 1.0),
    "factor": ("factor", 1.0, 1000.0),
}


def read_reports(text: str, seed: int) -> Reports | None:
    """What the option states; None for an empty text: no job reports."""
    if not text:
        return None
    bounds = {name: (least, most) for name, (_, least, most) in VALUES.items()}
    values = {VALUES[name][0]: value for name, value in read_numbers(OPTION, text, bounds).items()}
    return Reports(**({"share": 1.0} | values), seed=seed)
