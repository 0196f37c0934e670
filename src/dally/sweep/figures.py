"""The figures by which runs are compared: means and spread over seeds, against a baseline and the lower bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dally.metrics.row import Row

HOUR_S = 3600.0


class Figure(NamedTuple):
    """A column of results, lower being better, and the column that bounds it from below."""

    heading: str
    field: str
    in_seconds: bool = True
    bound: str = ""


MAKESPAN = Figure("makespan", "makespan_s", bound="makespan_bound_s")
JCT_MEAN = Figure("mean JCT", "jct_mean_s", bound="jct_bound_s")
JCT_P50 = Figure("p50 JCT", "jct_p50_s")
JCT_P99 = Figure("p99 JCT", "jct_p99_s")
COMM = Figure("exposed communication", "comm_s", bound="comm_floor_s")
PREEMPTIONS = Figure("preemptions", "preemptions", in_seconds=False)
# What benchmark.md reports of every cell.
FULL = (
    MAKESPAN, JCT_MEAN, JCT_P50, JCT_P99,
    Figure("mean JCT of 1-GPU jobs", "jct_1_gpu_s"),
    Figure("mean JCT of 2-8-GPU jobs", "jct_2_to_8_gpus_s"),
    Figure("mean JCT of larger jobs", "jct_over_8_gpus_s"),
    COMM, PREEMPTIONS, Figure("migrations", "migrations", in_seconds=False),
)  # fmt: skip
# What fits a terminal.
SHORT = (
    JCT_MEAN, JCT_P50, JCT_P99, Figure("mean wait", "queue_mean_s"), COMM._replace(heading="exposed comm."),
    MAKESPAN, PREEMPTIONS,
)  # fmt: skip

# What the best of a sweep can be chosen by.
SORTABLE = (
    *dict.fromkeys(figure.field for figure in (*FULL, *SHORT)),
    "jct_p95_s", "queue_p99_s", "comm_gpu_s", "utilization", "goodput", "renewals", "overhead_gpu_s",
    "fragmentation_mean", "events", "cpu_s",
)  # fmt: skip


class Spread(NamedTuple):
    """The mean over seeds, and the least and the most."""

    mean: float
    low: float
    high: float

    def shown(self, unit: float = 1.0) -> str:
        """The mean in that unit, and half the range around it; without it if there is none."""
        mean, half = self.mean / unit, (self.high - self.low) / 2 / unit
        whole = unit == 1.0 and all(value.is_integer() for value in self)  # a count
        digits = 0 if mean >= 1000 or whole else 1 if mean >= 100 else 2
        return f"{mean:,.{digits}f}" + (f" ±{half:,.{digits}f}" if self.high > self.low else "")


def spread(values: Iterable[float | None]) -> Spread | None:
    """Of what is known; None of nothing."""
    known = [float(value) for value in values if value is not None]
    return Spread(sum(known) / len(known), min(known), max(known)) if known else None


def ratios(rows: Sequence[Row], field: str, to: Sequence[Row], to_field: str) -> Spread | None:
    """The rows' figure over another's of the same seed: seeds that are hard for one are hard for all."""
    others = {row["seed"]: row.get(to_field) for row in to}
    return spread(
        row[field] / others[row["seed"]]
        for row in rows
        if row.get(field) is not None and others.get(row["seed"])  # nothing is so many times 0
    )


def of_seeds(rows: Iterable[Row], field: str) -> Spread | None:
    """A figure that is the seed's and not the policy's, such as a bound."""
    return spread({row["seed"]: row.get(field) for row in rows}.values())


def by_label(rows: Iterable[Row], *labels: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows that share these labels, in the order in which they first appear."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in labels), []).append(row)
    return groups


def unit_of(spreads: Iterable[Spread | None]) -> tuple[str, float]:
    """The unit in which such times read well, and its seconds."""
    most_s = max((found.mean for found in spreads if found), default=0.0)
    for name, size_s in (("h", HOUR_S), ("min", 60.0)):
        if most_s >= 2 * size_s:
            return name, size_s
    return "s", 1.0
