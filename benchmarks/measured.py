"""What was measured on an H200, told and checked: python -m benchmarks.measured WHAT

catalogue       src/dally/perf/measured.toml, from benchmarks/profiles/h200.jsonl
times           every measurement, with its spread
repeatability   five models measured twice, in separate processes
floors          measured time against the least that arithmetic and memory allow
sensitivity     slowdown by tier on three networks, with measured and with published profiles
gloo            what benchmarks.gloo measured: predicted against real steps
page            docs/profiles.md, with all of these
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import gloo
from dally.cluster.spec import connect_topology, read_topology
from dally.errors import InputError, at
from dally.input_file import read_text
from dally.perf.gang import closest_placement, placement_at
from dally.perf.iteration import demand_of
from dally.perf.profiles import MEASURED, ModelProfile, find_profile, load_profiles, shipped
from dally.profiling.builtin import BUILTINS
from dally.profiling.catalogue_text import About, catalogue_text, passes_s
from dally.profiling.measuring import Record

RAW = Path(__file__).parent / "profiles"
CLUSTER = "4x8x8"
NETWORKS = ("slow", "normal", "h200-nvswitch-8x400g")
GANG = 8  # it fits on a machine; else in two halves in one rack, or in two
# NVIDIA's data sheet of the H200 SXM: dense tensor-core peaks and memory bandwidth.
PEAK_FLOPS = {"fp32": 494.5e12, "amp": 989.5e12, "bf16": 989.5e12}
PEAK_BYTES = 4.8e12
FLOORED = ("resnet50", "bert-large", "gpt2-xl")

FIELDS = (
    "model", "batch", "precision", "params", "forward_s", "backward_s", "forward_spread", "backward_spread",
    "gradient_bytes", "largest_bytes", "last_bucket_bytes", "buckets", "optimizer_s", "gpu", "device", "driver",
    "torch", "date", "command",
)  # fmt: skip


def key_of(record: Record) -> tuple[str, int, str]:
    """What makes a measurement the same as another."""
    return record["model"], record["batch"], record["precision"]


def read_records(paths: Iterable[Path]) -> list[Record]:
    """The measurements of the files; an InputError names the line and field that is wrong."""
    result: list[Record] = []
    for path in paths:
        for number, line in enumerate(read_text(path).splitlines(), start=1):
            try:
                record = json.loads(line)
            except ValueError as error:
                raise at(path, number, None, f"is no JSON: {error}") from None
            if not isinstance(record, dict):
                raise at(path, number, None, "must be an object")
            result.append(record)
            if "error" not in record:
                for field in FIELDS:
                    if field not in record:
                        raise at(path, number, field, "is missing")
    return result


def raw() -> list[Record]:
    return read_records([RAW / "h200.jsonl"])


def about(name: str) -> About:
    """What the measurement does not tell: from the built-in models, and aliases from the published catalogue."""
    builtin, known = BUILTINS[name], shipped().models.get(name)
    aliases = known.aliases if known else ()
    same_unit = known is not None and known.batch_unit == builtin.unit
    batch = known.batch if known is not None and same_unit else 0
    return About(builtin.kind, builtin.unit, aliases, batch, builtin.all_to_all_bytes, builtin.all_to_all_gpus)


def catalogue() -> str:
    return catalogue_text(raw(), about).rstrip("\n")


def row_of(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join([row_of(heads), "|" + "---|" * len(heads), *map(row_of, rows)])


def times() -> str:
    rows = []
    for one in raw():
        forward_s, backward_s, graph = passes_s(one)
        spread = max(one["forward_spread"], one["backward_spread"])
        rows.append(
            [
                one["model"], f"{one['batch']:,}", one["precision"], f"{forward_s * 1e3:.1f}",
                f"{backward_s * 1e3:.1f}", f"{one['optimizer_s'] * 1e3:.1f}", f"{spread:.1%}",
                "yes" if graph else "",
                f"{one['train_memory_bytes'] / 1e9:.0f}", f"{one['gradient_bytes'] / 1e6:,.0f}",
                str(len(one["buckets"])),
            ]
        )  # fmt: skip
    heads = [
        "model", "batch", "precision", "forward ms", "backward ms", "optimiser ms", "spread", "graph", "memory GB",
        "gradients MB", "buckets",
    ]  # fmt: skip
    return table(heads, rows)


def repeatability() -> str:
    first = {key_of(one): one for one in raw()}
    rows, differences = [], []
    for again in read_records([RAW / "h200-again.jsonl"]):
        step_s = [sum((one["forward_s"], one["backward_s"])) for one in (first[key_of(again)], again)]
        differences.append(abs(step_s[1] / step_s[0] - 1))
        name, batch, precision = key_of(again)
        shown = [f"{seconds * 1e3:.2f}" for seconds in step_s]
        rows.append([name, f"{batch:,}", precision, *shown, f"{step_s[1] / step_s[0] - 1:+.2%}"])
    verdict = f"Median difference {median(differences):.2%}, largest {max(differences):.2%}."
    return table(["model", "batch", "precision", "first ms", "again ms", "difference"], rows) + "\n\n" + verdict


def floors() -> str:
    reached = json.loads((RAW / "h200-peaks.json").read_text())
    reached_flops = {"fp32": reached["tf32_flops"], "amp": reached["bf16_flops"]}
    rows = []
    for one in raw():
        if one["model"] not in FLOORED:
            continue
        arithmetic_s = one["flops"] / PEAK_FLOPS[one["precision"]]
        bytes_s = one["weight_bytes"] / PEAK_BYTES
        floor_s, step_s = max(arithmetic_s, bytes_s), one["forward_s"] + one["backward_s"]
        against = step_s * reached_flops[one["precision"]] / one["flops"]
        rows.append(
            [
                one["model"], f"{one['batch']:,}", one["precision"], f"{one['flops'] / 1e12:.2f}",
                f"{arithmetic_s * 1e3:.2f}", f"{bytes_s * 1e3:.2f}", f"{step_s * 1e3:.2f}",
                f"{step_s / floor_s:.2f}", f"{against:.2f}",
            ]
        )  # fmt: skip
    heads = [
        "model", "batch", "precision", "TFLOP", "arithmetic ms", "bytes ms", "measured ms", "measured ÷ floor",
        "÷ at the reached peak",
    ]  # fmt: skip
    return table(heads, rows)


def slowdowns(profile: ModelProfile, network: str) -> list[float]:
    """In a machine, across a rack, across racks: an iteration against the closest placement's."""
    topology = read_topology(CLUSTER)
    links = connect_topology(topology, network, {}, "")
    assert links is not None
    step = profile.step(GANG)
    best = demand_of(links, closest_placement(links, GANG), step)
    found = []
    for tier in range(1, len(topology.tiers)):
        gang = placement_at(links, GANG, tier)
        assert gang is not None
        here = demand_of(links, gang, step)
        found.append(here.iteration_s(here.alone_s) / best.iteration_s(best.alone_s))
    return found


def pairs() -> list[tuple[ModelProfile, ModelProfile | None]]:
    """Each measured model, and the published one at the same batch and precision."""
    measured, published = load_profiles(MEASURED), shipped()
    found: list[tuple[ModelProfile, ModelProfile | None]] = []
    for name in dict.fromkeys(one["model"] for one in raw()):
        own = find_profile(name, "h200", catalogue=measured)
        known = published.models.get(name)
        batch = own.batch if known and known.batch_unit == own.batch_unit else None
        found.append((own, _published(own, batch) if known else None))
    return found


def _published(own: ModelProfile, batch: int | None) -> ModelProfile:
    try:
        return find_profile(own.name, "h200", batch, own.precision)
    except InputError:  # nobody published it in that precision
        return find_profile(own.name, "h200", batch)


def sensitivity() -> str:
    rows = []
    for own, known in pairs():
        cells = [own.name, f"{own.batch:,}", own.precision]
        cells.append(f"{own.compute_s * 1e3:.0f}" + (f" ({known.compute_s * 1e3:.0f})" if known else ""))
        for network in NETWORKS:
            mine = slowdowns(own, network)
            theirs: list[Any] = slowdowns(known, network) if known else [None] * len(mine)
            cells += [_pair(one, other) for one, other in zip(mine, theirs, strict=True)]
        rows.append(cells)
    heads = ["model", "batch", "precision", "step ms"]
    heads += [f"{network}, {tier}" for network in NETWORKS for tier in read_topology(CLUSTER).tiers[1:]]
    return table(heads, rows)


def _pair(one: float, other: float | None) -> str:
    return f"{one:.2f}" + (f" ({other:.2f})" if other is not None else "")


def changes() -> str:
    """One sentence on how far the two catalogues are apart."""
    both = [(own, known) for own, known in pairs() if known is not None]
    steps = [own.compute_s / known.compute_s for own, known in both]
    moved = {own.name: slowdowns(own, "slow")[-1] - slowdowns(known, "slow")[-1] for own, known in both}
    most, least = max(moved, key=lambda name: moved[name]), min(moved, key=lambda name: moved[name])
    return (
        f"Of {len(both)} models that both catalogues have, the measured step is {min(steps):.2f} to "
        f"{max(steps):.2f} times as long as the published one scaled to an H200 (median {median(steps):.2f}). "
        f"On `slow` the slowdown across racks changes by {median([abs(one) for one in moved.values()]):.2f} in the "
        f"median; most for {most} ({moved[most]:+.2f}) and {least} ({moved[least]:+.2f})."
    )


def gloo_table() -> str:
    rows = [json.loads(line) for line in (RAW / "gloo.jsonl").read_text(encoding="utf-8").splitlines()]
    errors = [abs(row["error"]) for row in rows]
    verdict = f"Mean error {sum(errors) / len(errors):.1%}, largest {max(errors):.1%}."
    return "\n".join([*gloo.HEADS, *map(gloo.told, rows)]) + "\n\n" + verdict


def page() -> str:
    parts = {
        "times": times(), "repeatability": repeatability(), "floors": floors(), "sensitivity": sensitivity(),
        "changes": changes(), "gloo": gloo_table(),
        "gloo_model": f"{gloo.LAYERS} layers of {gloo.WIDTH:,} in buckets of {gloo.BUCKET_MB} MiB",
    }  # fmt: skip
    text = (RAW / "page.md").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace("{" + name + "}", part)
    return text.rstrip("\n")


WHAT: dict[str, Callable[[], str]] = {
    "catalogue": catalogue, "times": times, "repeatability": repeatability, "floors": floors,
    "sensitivity": sensitivity, "gloo": gloo_table, "page": page,
}  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in WHAT:
        sys.exit(__doc__)
    print(WHAT[sys.argv[1]]())
