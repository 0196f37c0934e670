"""Speed at a size against measured scaling: half or twice the GPUs of a job at a fixed global batch.

usage: python -m benchmarks.scaling [--shared ../shared]

From Pollux's measurements (`reference/pollux_scalability.csv.gz`: steps and exposed exchange of six models by GPUs,
nodes and batch per GPU) at one size, the step at half or twice the GPUs and nodes is predicted, and compared with
what was measured there at the same global batch. Three forms: `share` is `at_size` as the simulator has it, all
compute in proportion to the batch of a GPU, and the exposed exchange as it was but for the ring's share; `fixed`
leaves a part of the compute as it is, fitted over the batches measured at the first size; `overlap` also fits how
much of the exchange hides under the compute, so that less compute hides less.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from dally.model import Profile
from dally.perf.scaling import at_size

FORMS = ("share", "fixed", "overlap")


class Step(NamedTuple):
    """One step without accumulation."""

    batch: float  # of a GPU
    compute_s: float
    sync_s: float  # of the exchange, exposed


class Fit(NamedTuple):
    """What the batches measured at one size say."""

    fixed_s: float  # of compute, at any batch
    hidden: float  # share of the compute under which the exchange hides


Size = tuple[str, int, int]  # model, GPUs, nodes


def read(path: Path) -> dict[Size, list[Step]]:
    """Steps by model, GPUs and nodes, rising with the batch."""
    result: dict[Size, list[Step]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            sync_s = float(row["sync_s"])
            step = Step(float(row["local_batch"]), float(row["step_s"]) - sync_s, sync_s)
            result[row["model"], int(row["gpus"]), int(row["nodes"])].append(step)
    return {size: sorted(steps) for size, steps in result.items()}


def line(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Where the line of least squares begins, and how it rises."""
    mid, level = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - mid) ** 2 for x, _ in points)
    rise = sum((x - mid) * (y - level) for x, y in points) / spread if spread > 0.0 else 0.0
    return level - rise * mid, rise


def fitted(steps: list[Step]) -> Fit:
    """The fixed part of the compute, and how much of the exchange hides under it."""
    fixed_s, _ = line([(step.batch, step.compute_s) for step in steps])
    _, rise = line([(step.compute_s, step.sync_s) for step in steps])
    return Fit(min(max(0.0, fixed_s), min(step.compute_s for step in steps)), min(1.0, max(0.0, -rise)))


def at_batch(steps: list[Step], batch: float) -> float | None:
    """The measured step at a batch between two that were measured; None: it is outside."""
    for before, after in pairwise(steps):
        if before.batch <= batch <= after.batch:
            part = (batch - before.batch) / (after.batch - before.batch)
            return (1.0 - part) * sum(before[1:]) + part * sum(after[1:])
    return None


def predicted_s(form: str, step: Step, fit: Fit, size: Size, other: Size) -> float:
    """The step at the other size."""
    fixed_s = 0.0 if form == "share" else fit.fixed_s
    profile = at_size(Profile(compute_s=step.compute_s - fixed_s), size[1], other[1])
    compute_s = fixed_s + profile.compute_s()
    ring = (1.0 - 1.0 / other[2]) / (1.0 - 1.0 / size[2])
    hidden = fit.hidden if form == "overlap" else 0.0
    return compute_s + max(0.0, (step.sync_s + hidden * step.compute_s) * ring - hidden * compute_s)


def errors(measured: dict[Size, list[Step]], form: str) -> dict[str, list[float]]:
    """How far off predictions are, by model."""
    result: dict[str, list[float]] = defaultdict(list)
    for size, steps in measured.items():
        model, gpus, nodes = size
        for other in ((model, 2 * gpus, 2 * nodes), (model, gpus // 2, nodes // 2)):
            if other not in measured or other[1] * size[2] != other[2] * gpus or len(steps) < 3 or other[2] < 2:
                continue
            fit = fitted(steps)
            for step in steps:
                there_s = at_batch(measured[other], step.batch * gpus / other[1])
                if there_s is not None:
                    result[model].append(abs(predicted_s(form, step, fit, size, other) / there_s - 1.0))
    return result


def main() -> None:
    """Print a table: median errors by model and form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared")
    measured = read(parser.parse_args().shared / "reference" / "pollux_scalability.csv.gz")
    by_form = {form: errors(measured, form) for form in FORMS}
    print("| model | steps | " + " | ".join(FORMS) + " |\n|---|---|" + "---|" * len(FORMS))
    for model in sorted(by_form["share"]):
        cells = [f"{median(by_form[form][model]):.1%}" for form in FORMS]
        print(f"| {model} | {len(by_form['share'][model])} | {' | '.join(cells)} |")
    together = [[error for rows in by_form[form].values() for error in rows] for form in FORMS]
    print(f"| all | {len(together[0])} | {' | '.join(f'{median(rows):.1%}' for rows in together)} |")


if __name__ == "__main__":
    main()
