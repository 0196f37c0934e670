"""The runs of a comparison: policies on workloads, networks and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dally.runs.scenario import Scenario
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run, make_run


class Prepared(NamedTuple):
    """A workload ready for a Scenario: its trace's file, and the cluster as `--cluster` takes it."""

    trace: Path
    cluster: str


Loads = dict[str, dict[int, Prepared]]  # workloads by name and seed


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
                    labels = {"workload": workload, "network": network, **chosen.labels(), "seed": seed}
                    runs.append(make_run(scenario, labels, digests))
    return runs
