"""Runs among many: what tables call them, what tells them apart, those of a comparison, and replications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from dally.errors import InputError
from dally.metrics.comparison import REPLICATION
from dally.metrics.summary import Row, row_of
from dally.runs.execute import execute
from dally.runs.scenario import Scenario, keyed
from dally.sweep.policy_list import Chosen

MOST_RUNS = 1_000_000  # some 2 GB of them


@dataclass(frozen=True)
class Run:
    """A scenario, what the tables call it, and a key: the digest of all that decides its outcome."""

    scenario: Scenario
    labels: dict[str, Any]
    key: str
    folder: Path | None = None  # where it leaves what `dally simulate --out` leaves
    report: bool = False  # report.html too

    def name(self) -> str:
        """The run in words; its replications go by the same name."""
        record = {name: value for name, value in self.labels.items() if value != "" and name != REPLICATION}
        return ", ".join(f"{name} {value}" for name, value in record.items())


def check_count(count: int) -> None:
    """InputError for more runs than anybody waits for, before any of them is made."""
    if count > MOST_RUNS:
        raise InputError(f"{count:,} runs: at most {MOST_RUNS:,} at a time; vary less, or draw samples")


def make_run(scenario: Scenario, labels: Mapping[str, Any], digests: dict[str, str]) -> Run:
    """The run, fit for a worker with another working directory; `digests` holds those of files met before."""
    scenario, key = keyed(scenario, digests)
    return Run(scenario, dict(labels), key)


def make_row(run: Run) -> Row:
    """Carry the run out: its row, and the CPU seconds it took."""
    row = row_of(execute(run.scenario, out=run.folder))
    if run.folder and run.report:
        from dally.report.html.build import build_page, write_page

        write_page(build_page(run.folder), run.folder / "report.html")
    return row


REPLICATIONS = 5  # unless told


def replicated(runs: Sequence[Run], count: int, option: str = "--replications") -> list[Run]:
    """Each run so many times; the first is the run itself. Only that one leaves a folder."""
    if count < 1:
        raise InputError(f"{option} {count}: must be 1 or more")
    check_count(len(runs) * count)
    digests: dict[str, str] = {}
    return [_replication(run, number, digests) for run in runs for number in range(count)]


def _replication(run: Run, number: int, digests: dict[str, str]) -> Run:
    labels = {**run.labels, REPLICATION: number}
    if number == 0:
        return replace(run, labels=labels)
    scenario, key = keyed(replace(run.scenario, jitter=run.scenario.jitter + number), digests)
    return Run(scenario, labels, key)


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
