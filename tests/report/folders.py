"""Folders as `dally simulate`, `dally compare` and `dally sweep` leave them, small enough for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from dally.runs.execute import execute
from dally.runs.scenario import Scenario
from dally.traces.generate import WorkloadRequest, find_recipe, generate, write_workload

ROOT = Path(__file__).resolve().parents[2]
CONTENDERS = ("fifo", "fifo-backfill", "las", "dally")


def demo_trace(folder: Path, jobs: int) -> str:
    """That many jobs that keep 72 GPUs busy, as a file."""
    path = folder / "demo.csv"
    write_workload(path, generate(find_recipe("venus-like"), WorkloadRequest(seed=1, jobs=jobs, load=0.9, gpus=72)))
    return str(path)


def make_run(folder: Path, scenario: Scenario) -> dict[str, Any]:
    """A run's folder and its summary."""
    return execute(scenario, out=folder).summary


def flat(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary as columns of results.parquet."""
    tiers = {f"tier_starts.{name}": count for name, count in summary["tier_starts"].items()}
    return {**{name: value for name, value in summary.items() if not isinstance(value, dict)}, **tiers}


def make_comparison(
    folder: Path,
    trace: str,
    policies: Sequence[str] = CONTENDERS,
    seeds: Sequence[int] = (1,),
    networks: Sequence[str] = ("slow",),
    cluster: str = "3x6x8",
) -> Path:
    """A comparison's folder: results.parquet and a folder per run."""
    rows = []
    for network in networks:
        for policy in policies:
            for seed in seeds:
                name = f"runs/{network}-{policy}-s{seed}"
                scenario = Scenario(trace, cluster, policy, seed=seed, network=network)
                summary = make_run(folder / name, scenario)
                cell = {
                    "workload": Path(trace).stem,
                    "network": network,
                    "policy": policy,
                    "seed": seed,
                    "folder": name,
                }
                rows.append({**cell, **flat(summary)})
    pl.DataFrame(rows).write_parquet(folder / "results.parquet")
    return folder


def make_sweep(folder: Path, trace: str, leases_s: Sequence[int], restarts_s: Sequence[float]) -> Path:
    """A sweep's folder over two numbers and a word, two seeds each; one run of it failed."""
    rows = []
    base = Scenario(trace, "3x6x8", "las", network="slow")
    for policy in ("las", "dally-paper"):
        for lease_s in leases_s:
            for restart_s, seed in product(restarts_s, (1, 2)):
                scenario = replace(base, policy=policy, settings={"lease_s": str(lease_s)}, restart_s=restart_s)
                row = {"policy": policy, "seed": seed, "set.lease_s": lease_s, "restart_s": restart_s}
                rows.append({**row, **flat(execute(replace(scenario, seed=seed)).summary)})
    failed = {**dict.fromkeys(rows[0]), **{name: rows[0][name] for name in ("policy", "seed")}}
    folder.mkdir(parents=True, exist_ok=True)
    pl.DataFrame([*rows, failed], infer_schema_length=None).write_parquet(folder / "results.parquet")
    return folder
