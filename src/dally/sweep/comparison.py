"""A comparison: policies on workloads, networks and seeds, as runs, as tables and as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from dally.metrics.row import Row
from dally.runs.scenario import Scenario
from dally.sweep.figures import FULL, Figure, Spread, by_label, of_seeds, ratios, spread
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run, make_run
from dally.sweep.tables import Groups, absolute, groups_of, relative


class Prepared(NamedTuple):
    """A workload ready for a Scenario: its trace's file, and the cluster as `--cluster` takes it."""

    trace: Path
    cluster: str


Loads = dict[str, dict[int, Prepared]]  # workloads by name and seed


class Part(NamedTuple):
    """One workload on one network: the rows of every policy."""

    workload: str
    network: str
    groups: Groups

    def title(self) -> str:
        """What is compared, in words."""
        rows = [row for found in self.groups.values() for row in found]
        sizes = ", ".join(f"{size:,}" for size in sorted({row["jobs"] for row in rows}))
        seeds = sorted({row["seed"] for row in rows})
        network = f", network {self.network}" if self.network else ""
        return f"{self.workload}{network}: {sizes} jobs, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def trace_loads(traces: Iterable[str], cluster: str, seeds: Sequence[int]) -> Loads:
    """The user's own traces, called by their file names, all on one cluster."""
    loads: Loads = {}
    for trace in traces:
        stem = Path(trace).name.split(".")[0]
        name = stem if stem not in loads else trace
        loads[name] = dict.fromkeys(seeds, Prepared(Path(trace), cluster))
    return loads


def comparison_runs(loads: Loads, networks: Sequence[str], policies: Sequence[Chosen], base: Scenario) -> list[Run]:
    """Every policy on every workload, network and seed; the rest is as the base says."""
    digests: dict[str, str] = {}
    runs: list[Run] = []
    for workload, seeds in loads.items():
        for network in networks:
            for chosen in policies:
                for seed, prepared in seeds.items():
                    scenario = replace(
                        base, trace=str(prepared.trace), cluster=prepared.cluster, network=network, seed=seed,
                        policy=chosen.name, settings=chosen.settings,
                    )  # fmt: skip
                    labels = {"workload": workload, "network": network, "policy": chosen.label(), "seed": seed}
                    runs.append(make_run(scenario, labels, digests))
    return runs


def parts_of(rows: Iterable[Row]) -> list[Part]:
    """The rows by workload and network, then by policy."""
    found = by_label(rows, "workload", "network")
    return [Part(workload, network, groups_of(here, "policy")) for (workload, network), here in found.items()]


def to_markdown(parts: Iterable[Part], baseline: str) -> str:
    """table.md: two tables per part."""
    texts = ["# Comparison\n", "Means over seeds ± half the range; the best in each column is bold.\n"]
    for part in parts:
        texts += [f"## {part.title()}\n", absolute(part.groups, FULL).markdown()]
        if baseline in part.groups:
            texts.append(relative(part.groups, FULL, baseline).markdown())
    return "\n".join(texts)


def to_values(parts: Iterable[Part], baseline: str) -> list[dict[str, Any]]:
    """One entry per workload, network and policy, for scripts."""
    return [entry for part in parts for entry in _entries(part, baseline)]


def _entries(part: Part, baseline: str) -> Iterator[dict[str, Any]]:
    to = part.groups.get(baseline, [])
    for policy, rows in part.groups.items():
        yield {
            "workload": part.workload,
            "network": part.network,
            "policy": policy,
            "seeds": [row["seed"] for row in rows],
            "jobs": rows[0]["jobs"],
            "finished": min(row["finished"] for row in rows),
            **{figure.field: _figure(figure, rows, to) for figure in FULL},
        }


def _figure(figure: Figure, rows: list[Row], to: list[Row]) -> dict[str, Any] | None:
    found = spread(row.get(figure.field) for row in rows)
    if found is None:
        return None
    times = ratios(rows, figure.field, to, figure.field)
    values: dict[str, Any] = {**found._asdict(), "against_baseline": times.mean - 1.0 if times else None}
    if figure.bound:
        bound: Spread | None = of_seeds(rows, figure.bound)
        above = ratios(rows, figure.field, rows, figure.bound)
        values |= {"bound": bound.mean if bound else None, "times_bound": above.mean if above else None}
    return values
