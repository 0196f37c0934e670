"""Checks the network model against measurements and other simulators: `python -m benchmarks.network`.

Prints one table per check and exits with 1 when a limit is exceeded. `--fit` fits the presets anew and prints
the constants that belong in dally/cluster/presets.py.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from itertools import combinations
from statistics import mean, median

from tests.perf.reference_sharing import shared_iteration_s

from benchmarks import astra, nccl_rows, placements, snapshots
from benchmarks.job_mixes import random_mix
from benchmarks.nccl_fit import ACROSS, INSIDE, errors, fit, group_of, held_out
from dally.cli.output import print_table
from dally.cluster.links import FASTEST
from dally.cluster.presets import PRESETS
from dally.perf.adadual import AdaDualContention
from dally.perf.contention import Contention

MIXES = 200
ROUNDS = 60
SNAPSHOT_ROUNDS = 4  # of the slowest gang; the others go round far more often


def p90(values: Sequence[float]) -> float:
    """The value that nine of ten do not exceed."""
    return sorted(values)[min(len(values) - 1, int(0.9 * len(values)))]


class Checks:
    """Limits met or missed."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.missed = 0

    def at_most(self, name: str, value: float, limit: float) -> None:
        self.missed += value > limit
        self.rows.append([name, f"{value:.2%}", f"≤ {limit:.0%}", "fine" if value <= limit else "MISSED"])

    def all_of(self, name: str, count: int, of: int) -> None:
        self.missed += count < of
        self.rows.append([name, f"{count} of {of}", "all", "fine" if count == of else "MISSED"])


def spread(name: str, values: Sequence[float]) -> list[str]:
    return [name, str(len(values)), *(f"{value:.1%}" for value in (mean(values), median(values), p90(values)))]


SPREAD = ["", "rows", "mean error", "median", "p90"]


def check_nccl(checks: Checks) -> None:
    print("\nMeasured NCCL runs of 1 MiB and more, presets as shipped")
    rows, left_out = nccl_rows.read_rows()
    of_preset = {
        preset: errors(PRESETS[preset], [row for row in rows if row.preset == preset])
        for preset in sorted({row.preset for row in rows})
    }
    whole = [error for found in of_preset.values() for error in found]
    print_table(SPREAD, [*(spread(*pair) for pair in of_preset.items()), spread("all", whole)], 1)
    print_table(["left out", "rows"], [[reason, str(count)] for reason, count in sorted(left_out.items())], 1)
    checks.at_most("NCCL, median", median(whole), 0.10)
    checks.at_most("NCCL, p90", p90(whole), 0.30)

    print("The same, each half of a fabric's sources predicted from a fit to the other half")
    tested = held_out(rows)
    groups = sorted({group_of(row) for row, _ in tested})
    of_group = [
        spread(
            f"{preset}, {'across machines' if across else 'inside'}",
            [error for row, error in tested if group_of(row) == (preset, across)],
        )
        for preset, across in groups
    ]
    found = [error for _, error in tested]
    print_table(SPREAD, [*of_group, spread("all", found)], 1)
    checks.at_most("NCCL held out, median", median(found), 0.10)
    checks.at_most("NCCL held out, p90", p90(found), 0.30)
    fastest = [error for _, error in held_out(rows, FASTEST)]
    print_table(SPREAD, [spread("all, if every fabric ran the fastest algorithm", fastest)], 1)


def check_astra(checks: Checks) -> None:
    print("\nASTRA-sim, ideal links")
    runs = [(run, run.error()) for run in astra.read_runs()]
    table = []
    for chunks in (1, 16):
        kinds = sorted({(r.collective, r.algorithm, r.tiers) for r, _ in runs if r.chunks == chunks})
        for kind in kinds:
            found = [e for r, e in runs if r.chunks == chunks and (r.collective, r.algorithm, r.tiers) == kind]
            table.append(spread(f"{chunks} chunks, {kind[0]}, {kind[1]}, {kind[2]} tiers", found))
        whole = [error for run, error in runs if run.chunks == chunks]
        table.append(spread(f"{chunks} chunks, all", whole))
        checks.at_most(f"ASTRA, {chunks} chunks, mean", mean(whole), 0.01 if chunks == 1 else 0.05)
    over_tiers = [e for r, e in runs if r.chunks == 16 and r.tiers > 1]
    table.append(spread("16 chunks, over two and three tiers", over_tiers))
    checks.at_most("ASTRA, hierarchical in 16 chunks, mean", mean(over_tiers), 0.03)
    print_table(SPREAD, table, 1)


def check_exchanges(checks: Checks) -> None:
    print("\nASTRA-sim packet by packet, all-to-all on shared links")
    found = [run.error() for run in astra.read_exchanges()]
    print_table(SPREAD, [spread("direct", found)], 1)
    checks.at_most("all-to-all, mean", mean(found), 0.01)
    checks.at_most("all-to-all, median", median(found), 0.03)


def check_contention(checks: Checks) -> None:
    print(f"\nContention against event-by-event max-min sharing, {MIXES} random mixes: iteration time")
    rng = random.Random(1)
    fast: list[float] = []
    ignored: list[float] = []
    for _ in range(MIXES):
        network, demands = random_mix(rng)
        contention = Contention(network.link_count())
        for job, demand in enumerate(demands):
            contention.add(job, demand)
        starts = [rng.uniform(0.0, demand.iteration_s(demand.alone_s)) for demand in demands]
        for job, seconds in enumerate(shared_iteration_s(demands, starts, ROUNDS)):
            fast.append(abs(contention.iteration_s(job) / seconds - 1.0))
            ignored.append(abs(demands[job].iteration_s(demands[job].alone_s) / seconds - 1.0))
    print_table(SPREAD, [spread("mean field", fast), spread("contention ignored", ignored)], 1)
    checks.at_most("contention, mean", mean(fast), 0.05)
    checks.at_most("contention, p90", p90(fast), 0.12)


def check_snapshots(checks: Checks) -> None:
    """Below saturation: no link that a gang shares would be full if all ran as if alone; above: one would."""
    print("\nContention against event-by-event max-min sharing, gangs of simulated runs: iteration time")
    taken = {
        f"{snapshots.RECIPE}, {network}, {policy}": snapshots.generated(network, policy, 3)
        for network, policy in (("normal", "lwf"), ("congested", "fifo-backfill"))
    }
    if (snapshots.SHARED / "traces").exists():
        for network, policy in (("normal", "las"), ("slow", "srsf"), ("congested", "dally-paper")):
            taken[f"venus80, {network}, {policy}"] = snapshots.of_cell("venus80", network, policy, 2)
    table: list[list[str]] = []
    whole: list[snapshots.Error] = []
    for name, found in taken.items():
        errors = [
            error
            for snapshot in found
            for part in snapshot.parts()
            for error in part.errors(Contention(part.links), SNAPSHOT_ROUNDS)
        ]
        table.append(spread(name, [abs(error.relative) for error in errors]))
        whole += errors
    below = [error for error in whole if error.offered < 1.0]
    above = [error for error in whole if error.offered >= 1.0]
    for name, errors in (("below saturation", below), ("above saturation", above)):
        table.append(spread(name, [abs(error.relative) for error in errors]))
        table.append(spread(f"{name}, contention ignored", [abs(error.ignored) for error in errors]))
        checks.at_most(f"contention {name}, mean", mean(abs(error.relative) for error in errors), 0.05)
    print_table(SPREAD, table, 1)


def check_adadual(checks: Checks) -> None:
    """How much longer than alone an iteration takes; on `slow` the order starves some, so medians there."""
    print("\nAdaDUAL against itself event by event, gangs of simulated runs of ada-srsf: iteration time")
    table: list[list[str]] = []
    for network, count in (("normal", 3), ("slow", 1)):
        errors = [
            error
            for snapshot in snapshots.generated(network, "ada-srsf", count)
            for part in snapshot.parts()
            for error in part.errors(AdaDualContention(part.links), SNAPSHOT_ROUNDS, adadual=True)
        ]
        exact = median(1.0 / (1.0 + error.ignored) for error in errors)
        found = median((1.0 + error.relative) / (1.0 + error.ignored) for error in errors)
        table.append([*spread(network, [abs(error.relative) for error in errors]), f"{exact:.2f}", f"{found:.2f}"])
        checks.at_most(f"AdaDUAL on {network}, median slowdown", abs(found / exact - 1.0), 0.20)
    print_table([*SPREAD, "slowdown", "predicted"], table, 1)


def check_placements(checks: Checks) -> None:
    print("\nMeasured step times by placement (Pollux), testbed fitted on other batch sizes with five constants")
    steps = placements.read_steps()
    used = placements.fitted_on(steps)
    testbed = placements.fit_testbed(used)
    rest = [step for step in steps if step not in set(used) and sum(step.split) > 1]
    measured = {(step.model, step.batch, step.split): step.step_s for step in rest}
    predicted = {key: testbed.step_s(step) for key, step in zip(measured, rest, strict=True)}
    models = list(placements.GRADIENT_BYTES)
    table, seen, said = [], {}, {}
    for model in models:
        seen[model], said[model] = (
            mean(placements.sensitivity(times, model, gpus) for gpus in (2, 3, 4))
            for times in (measured, predicted)
        )
        found = [abs(predicted[key] / measured[key] - 1.0) for key in measured if key[0] == model]
        table.append([*spread(model, found), f"{seen[model]:.2f}", f"{said[model]:.2f}"])
    whole = [abs(predicted[key] / measured[key] - 1.0) for key in measured]
    table.append([*spread("all", whole), "", ""])
    print_table([*SPREAD, "slowdown spread, measured", "predicted"], table, 1)
    ordered = [(one, other) for one, other in combinations(models, 2)]
    right = sum((seen[one] < seen[other]) == (said[one] < said[other]) for one, other in ordered)
    slower = sum(seen[model] > 1.0 and said[model] > 1.0 for model in models)
    checks.all_of("placement, models slower when spread", slower, len(models))
    checks.all_of("placement, pairs of models in the measured order", right, len(ordered))


def print_fit() -> None:
    rows, _ = nccl_rows.read_rows()
    for preset, links in fit(rows, sorted({row.preset for row in rows})).items():
        print(preset, ", ".join(f"{key}={getattr(links, key):.3g}" for key in (*INSIDE, *ACROSS)))


def main() -> int:
    if "--fit" in sys.argv[1:]:
        print_fit()
        return 0
    checks = Checks()
    for path, check in (
        (nccl_rows.REFERENCE, check_nccl),
        (astra.REFERENCE, check_astra),
        (astra.EXCHANGES, check_exchanges),
        (None, check_contention),
        (None, check_snapshots),
        (None, check_adadual),
        (placements.REFERENCE, check_placements),
    ):
        if path is None or path.exists():
            check(checks)
        else:
            print(f"\nskipped: {path} is not here")
    print()
    print_table(["check", "found", "limit", ""], checks.rows)
    return 1 if checks.missed else 0


if __name__ == "__main__":
    sys.exit(main())
