"""Predicted against published steps of large models: `python -m benchmarks.llm_runs FILE [--json | --fit]`.

FILE has the columns of `llm_training_runs.csv` (docs/llm.md). Each row gets a predicted `iter_s`, or null and why.
Rows chosen by hash, about a fifth, fix the GPUs' efficiencies; `held out` is about the others.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from dally.errors import InputError, at
from dally.perf.llm.accelerators import gpu_types
from dally.perf.llm.runs import PublishedRun, UnpricedError, read_run

COLUMNS = (
    "source", "year", "gpu", "gpus", "model", "params_b", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab",
    "seq", "global_batch", "micro_batch", "tp", "pp", "vpp", "cp", "ep", "zero_fsdp", "precision", "recompute",
    "iter_s", "note",
)  # fmt: skip
COUNTS = ("year", "gpus", "layers", "hidden", "seq", "global_batch", "micro_batch", "tp", "pp", "vpp", "cp", "ep")
FIT_SHARE = 0.2  # of the rows of a GPU type and precision, at least one
PRIOR_ROWS = 1  # that the usual efficiency of a precision counts for beside a type's own rows
LEAST_DIFFERENCE = 0.05  # of two layouts, to ask which is faster
MOST_EFFICIENCY = 0.85


class Row(NamedTuple):
    """A line of the file: what it states, what was measured, and the run or why there is none."""

    line: int
    stated: dict[str, str]
    measured_s: float | None
    run: PublishedRun | None
    reason: str

    @property
    def kind(self) -> tuple[str, str]:
        """GPU type and precision."""
        assert self.run is not None
        return self.run.gpu.accelerator.name, self.run.precision

    def digest(self) -> str:
        """What the row's place in the order of choice follows from."""
        return hashlib.sha256("|".join(self.stated.values()).encode()).hexdigest()


def read_rows(path: Path) -> list[Row]:
    """The rows of the file, or an InputError that names line, field and value."""
    try:
        text = path.read_text()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise at(path, 1, missing[0], f"no such column; needed are {', '.join(COLUMNS)}")
    return [_row(path, reader.line_num, stated) for stated in reader]


def _row(path: Path, line: int, stated: dict[str, str]) -> Row:
    if None in stated or None in stated.values():
        raise at(path, line, "row", "must have as many fields as the head")
    for key in (*COUNTS, "params_b", "iter_s"):
        try:
            usable = not stated[key] or 0 < float(stated[key]) < math.inf
        except ValueError:
            usable = False
        if not usable:
            raise at(path, line, key, f"{stated[key]!r}: must be a number above 0, or empty")
    measured_s = float(stated["iter_s"]) if stated["iter_s"] else None
    try:
        return Row(line, stated, measured_s, read_run(stated), "")
    except UnpricedError as reason:
        return Row(line, stated, measured_s, None, str(reason))


def chosen(rows: list[Row]) -> list[Row]:
    """The rows that fix efficiencies: of each GPU type and precision, the first fifth by hash, at least one."""
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.run is not None and row.measured_s is not None:
            kinds.setdefault(row.kind, []).append(row)
    result: list[Row] = []
    for members in kinds.values():
        members.sort(key=Row.digest)
        result += members[: max(1, int(len(members) * FIT_SHARE))]
    return result


def fitted(rows: list[Row]) -> dict[tuple[str, str], float]:
    """Efficiencies by GPU type and precision: the median of their rows, drawn towards that of other types."""
    own: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        assert row.run is not None
        assert row.measured_s is not None
        own.setdefault(row.kind, []).append(row.run.efficiency(row.measured_s))
    result: dict[tuple[str, str], float] = {}
    for kind, values in sorted(own.items()):
        others = [
            median(theirs) for other, theirs in own.items() if other[1] == kind[1] and other != kind for _ in theirs
        ]
        prior = median(others) if others else median(value for theirs in own.values() for value in theirs)
        weight = len(values)
        drawn = (weight * math.log(median(values)) + PRIOR_ROWS * math.log(prior)) / (weight + PRIOR_ROWS)
        result[kind] = round(min(MOST_EFFICIENCY, math.exp(drawn)), 3)
    return result


def predicted(row: Row) -> dict[str, Any]:
    """The row's answer: seconds in all and by part, or the reason why there are none."""
    step = row.run.step() if row.run is not None else None
    return {
        "line": row.line,
        "source": row.stated["source"],
        "gpu": row.stated["gpu"],
        "gpus": int(float(row.stated["gpus"] or 0)),
        "model": row.stated["model"],
        "precision": row.run.precision if row.run is not None else None,
        "iter_s": round(step.total_s, 6) if step is not None else None,
        "measured_s": row.measured_s,
        "error": round(step.total_s / row.measured_s - 1, 4) if step is not None and row.measured_s else None,
        "parts_s": {key: round(value, 6) for key, value in step._asdict().items()} if step is not None else None,
        "reason": row.reason or None,
    }


def errors(rows: list[Row]) -> list[float]:
    """Relative errors of the rows that have both times."""
    return [row.run.step().total_s / row.measured_s - 1 for row in rows if row.run is not None and row.measured_s]


def pairs(rows: list[Row]) -> tuple[int, int]:
    """(right, all): of two layouts of a model on as many GPUs by one publisher, which is faster."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if row.run is not None and row.measured_s:
            layout = row.run.layout
            key = (_publisher(row), row.stated["model"], *row.kind, layout.gpus, layout.seq)
            groups.setdefault(key, []).append(row)
    right = count = 0
    for members in groups.values():
        for place, one in enumerate(members):
            for other in members[:place]:
                answer = _faster(one, other)
                count += answer is not None
                right += answer is True
    return right, count


def _faster(one: Row, other: Row) -> bool | None:
    """Whether the right one of two layouts is predicted to be faster; None if they are alike or equally fast."""
    assert one.run is not None
    assert other.run is not None
    assert one.measured_s
    assert other.measured_s
    layouts = [run.layout._replace(global_batch=0) for run in (one.run, other.run)]
    batches = [run.layout.global_batch for run in (one.run, other.run)]
    measured = math.log(one.measured_s / batches[0] / (other.measured_s / batches[1]))
    if layouts[0] == layouts[1] or abs(measured) <= LEAST_DIFFERENCE:
        return None
    guess = one.run.step().total_s / batches[0] - other.run.step().total_s / batches[1]
    return (guess > 0) == (measured > 0)


def of_other_publishers(rows: list[Row]) -> list[float]:
    """Errors of each publisher's rows if only others' rows fix efficiencies, where others have the GPU type."""
    fit = chosen(rows)
    result: list[float] = []
    for publisher in sorted({_publisher(row) for row in rows}):
        found = fitted([row for row in fit if _publisher(row) != publisher])
        for row in rows:
            if _publisher(row) == publisher and row.run is not None and row.measured_s and row.kind in found:
                result.append(row.run.step(found[row.kind]).total_s / row.measured_s - 1)
    return result


def _publisher(row: Row) -> str:
    return row.stated["source"].split()[0].split("/")[0]


def describe(found: list[float]) -> str:
    """Median error and share within 20 %."""
    if not found:
        return "no row"
    sizes = sorted(abs(error) for error in found)
    within = sum(size <= 0.2 for size in sizes) / len(sizes)
    return (
        f"{len(sizes)} rows, median error {median(sizes):.1%}, within 20 % {within:.1%}, bias {median(found):+.1%}"
    )


def summary(rows: list[Row]) -> list[str]:
    """Lines about all rows, those held out, each source, and pairs of layouts."""
    fit = {id(row) for row in chosen(rows)}
    held_out = [row for row in rows if id(row) not in fit]
    unpriced = [row for row in rows if row.run is None]
    right, count = pairs(rows)
    lines = [
        f"all:      {describe(errors(rows))}; {len(unpriced)} rows not modelled",
        f"held out: {describe(errors(held_out))}; the efficiencies follow from the {len(fit)} others",
        f"efficiencies from other publishers: {describe(of_other_publishers(rows))}",
        f"layouts:  {right} of {count} pairs that differ by more than {LEAST_DIFFERENCE:.0%} in the right order",
    ]
    for title, key in (
        ("source", _source),
        ("model", lambda row: row.stated["model"]),
        ("type", lambda row: "/".join(row.kind)),
    ):
        lines += ["", title, *_by(key, rows)]
    return lines


def _source(row: Row) -> str:
    return row.stated["source"].split()[0][:48]


def _by(key: Callable[[Row], str], rows: list[Row]) -> list[str]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row.run is not None and row.measured_s:
            groups.setdefault(key(row), []).append(row)
    return [f"  {name:50} {describe(errors(members))}" for name, members in sorted(groups.items())]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a csv with the columns of llm_training_runs.csv")
    parser.add_argument("--json", action="store_true", help="a JSON object a line: the prediction for each row")
    parser.add_argument(
        "--fit", action="store_true", help="print efficiencies for perf/llm.toml, from a fifth of the rows"
    )
    options = parser.parse_args()
    try:
        rows = read_rows(options.file)
    except (InputError, UnicodeDecodeError) as error:
        parser.exit(2, f"{error}\n")
    if options.json:
        for row in rows:
            print(json.dumps(predicted(row)))
    elif options.fit:
        found = fitted(chosen(rows))
        for name in gpu_types():
            own = ", ".join(f"{kind[1]} = {value}" for kind, value in found.items() if kind[0] == name)
            print(f"{name}: efficiency = {{ {own} }}")
    else:
        print("\n".join(summary(rows)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
