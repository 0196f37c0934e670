"""A mean over seeds and what stands behind its ±: the one definition that all tables and pages share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

# Three seeds say where figures lay; a standard deviation of three is itself off by half. Every ± is this one: of a
# change against the baseline too, whose runs are each taken over the baseline's mean of the same seed.
MEANING = "half the range over seeds and replications"


class Spread(NamedTuple):
    """The mean, and the least and the most."""

    mean: float
    low: float
    high: float

    def half(self) -> float:
        """What follows ±: half the range."""
        return (self.high - self.low) / 2

    def shown(self, unit: float = 1.0) -> str:
        """The mean in that unit, and ± half the range if these digits show one."""
        mean = self.mean / unit
        whole = unit == 1.0 and all(float(value).is_integer() for value in self)  # a count
        digits = 0 if mean >= 1000 or whole else 1 if mean >= 100 else 2
        half = f"{self.half() / unit:,.{digits}f}"
        return f"{mean:,.{digits}f}" + (f" ±{half}" if half.strip("0.") else "")


def spread(values: Iterable[float | None]) -> Spread | None:
    """Of what is known; None of nothing."""
    known = [float(value) for value in values if value is not None]
    return Spread(sum(known) / len(known), min(known), max(known)) if known else None


def paired_ratios(values: Mapping[Any, float], base: Mapping[Any, float]) -> dict[Any, float]:
    """Each value over the base's of the same seed: seeds that are hard for one are hard for all.

    Empty if a base is 0: nothing is so many times 0, and the mean of the other seeds would hide it.
    """
    shared = [key for key in values if key in base]
    if not all(base[key] for key in shared):
        return {}
    return {key: values[key] / base[key] for key in shared}
