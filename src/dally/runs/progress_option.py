"""What `--job-progress` says of the jobs of a simulation: which of them report how long they take, and how well."""

from __future__ import annotations

from math import isfinite
from typing import Final

from dally.engine.reports import Reports
from dally.errors import InputError, unknown

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
    values: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        if name not in VALUES:
            raise InputError(f"{OPTION} {text}: {unknown('value', name, VALUES)}")
        field, least, most = VALUES[name]
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not equals or not isfinite(value) or not least <= value <= most:
            most_text = "" if most == float("inf") else f" to {most:g}"
            raise InputError(f"{OPTION} {part.strip()}: must be a number from {least:g}{most_text}")
        if field in values:
            raise InputError(f"{OPTION} {text}: {name}: given twice")
        values[field] = value
    return Reports(**({"share": 1.0} | values), seed=seed)
