"""The questions that every operator has: a better policy, fewer GPUs, where GPU time is lost, and what to buy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, sqrt
from pathlib import Path
from typing import Any

from dally.cluster.delta import tier_plural
from dally.cluster.links import has_links
from dally.errors import InputError
from dally.metrics.summary import Row, mean
from dally.runs.folder import FolderRecord
from dally.sweep.batch import with_folders
from dally.sweep.policy_list import Chosen
from dally.sweep.run import comparison_runs, trace_loads
from dally.sweep.whatif.calibration import Carry
from dally.sweep.whatif.change import Change
from dally.sweep.whatif.from_history import HistoryWhatIf, work_traces
from dally.sweep.whatif.futures import Futures
from dally.sweep.whatif.smaller import Trials, save_gpus

CANDIDATES = ("dally", "las", "easy-backfill")
FASTER = {"congested": "slow", "slow": "normal", "normal": "fast"}  # presets by the next better one
MORE = 0.1  # of the machines, to buy
SWAP_S = 600.0  # until a spare machine has taken the place of one that failed
DAY_S = 86400.0
SHOWN = ("queue_mean_s", "queue_p99_s", "jct_mean_s", "utilization")


def three_questions(
    request: HistoryWhatIf, rows: Sequence[Row], seeds: Sequence[int], folder: Path, carry: Carry
) -> dict[str, Any]:
    """A better policy? Fewer GPUs for the same wait? Where is the loss? `rows` are of the answer's runs."""
    policies = better_policy(request, rows, seeds, folder / "policies", carry)
    best = min(policies, key=lambda one: float(one["jct_mean_s"]))["policy"]
    traces = work_traces(request.today().config, seeds, folder)
    futures = Futures(request.today(), request.runs[0], traces[seeds[0]], folder / "futures", carry)
    for one in policies[1:]:
        if one["policy"] in (best, CANDIDATES[0]):
            one["wait_change"] = futures.change(Chosen(one["policy"], {}))
    change = Change() if best == policies[0]["policy"] else Change(policy=best)
    saving = save_gpus(Trials(request, seeds, folder / "smaller", carry, traces), change)
    return {"policies": policies, "best": best, "save_gpus": saving, "loss": losses(request, rows[0])}


def better_policy(
    request: HistoryWhatIf, rows: Sequence[Row], seeds: Sequence[int], folder: Path, carry: Carry
) -> list[dict[str, Any]]:
    """Today's policy, then the others, each by its means over seeds."""
    before, half = request.today(), len(seeds)
    result = [_policy(before.label, rows[:half]), _policy(CANDIDATES[0], rows[half:])]
    loads = trace_loads([before.config.trace], before.config.cluster, seeds)
    for name in CANDIDATES[1:]:
        if name != before.label:
            runs = comparison_runs(loads, [before.config.network], [Chosen(name, {})], before.config)
            runs = with_folders(runs, folder)
            result.append(_policy(name, list(carry(runs))))
    return result


def _policy(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    return {"policy": name} | {key: mean([float(row[key]) for row in rows]) for key in SHOWN}


def losses(request: HistoryWhatIf, row: Row) -> dict[str, float]:
    """Where the GPU-hours go under today's policy, from the first submission to the last end."""
    run = request.runs[0]
    assert run.folder is not None
    record = FolderRecord(run.folder)
    free_s, idle_s, held_s = free_gpu_s(record, request.today().topology.total_gpus())
    lost_s = float(row["comm_gpu_s"]) + float(row["overhead_gpu_s"])
    parts = {
        "computing": held_s - lost_s,
        "communication": float(row["comm_gpu_s"]),
        "restarts": float(row["overhead_gpu_s"]),
        "free while jobs waited": free_s,
        "free, no job waited": idle_s,
    }
    return {name: seconds / 3600.0 for name, seconds in parts.items()}


def free_gpu_s(record: FolderRecord, gpus: int) -> tuple[float, float, float]:
    """GPU-seconds that were free and asked for by waiting jobs; free and not asked for; held."""
    sizes = dict(record.jobs.select("job_id", "gpus").iter_rows())
    kinds = ("submit", "start", "finish", "preempt", "evict")
    events = record.events.filter(record.events["kind"].cast(str).is_in(kinds)).select("time_s", "kind", "job_id")
    held = demand = 0
    free_s = idle_s = held_s = 0.0
    last_s: float | None = None
    for time_s, kind, job_id in events.iter_rows():
        if last_s is not None:
            free, lasted_s = gpus - held, time_s - last_s
            free_s += min(free, demand) * lasted_s
            idle_s += max(free - demand, 0) * lasted_s
            held_s += held * lasted_s
        last_s = time_s
        size = sizes[job_id]
        held += size * ((kind == "start") - (kind in ("finish", "preempt", "evict")))
        demand += size * ((kind in ("submit", "preempt", "evict")) - (kind == "start"))
    return free_s, idle_s, held_s


def purchases(trials: Trials, change: Change) -> list[dict[str, Any]]:
    """Machines, links and spares side by side, under the policy of the change; entries without figures say why."""
    before = trials.before
    machines = before.topology.machine_count()
    more = max(1, round(MORE * machines))
    result: list[dict[str, Any]] = [{"what": "today", **trials.today()._asdict()}]
    tier = before.topology.tiers[0]
    machine = tier if more == 1 else tier_plural(tier)
    result.append(_bought(f"+{more} {machine}", trials, replace(change, cluster_delta=f"+{more} {machine}")))
    faster = FASTER.get(before.config.network, "")
    if faster:
        result.append(_bought(f"network {faster}", trials, replace(change, network=faster)))
    else:
        known = "the topology states links" if has_links(before.topology) else f"{before.config.network or 'none'}"
        result.append({"what": "faster links", "why_not": f"no next better preset for this network ({known})"})
    rate, repair_s = before.config.failure_rate, before.config.repair_s
    if not rate:
        result.append({"what": "spares", "why_not": "the replay has no failures; give --failure-rate"})
        return result
    down = rate * machines * repair_s / DAY_S
    spares = ceil(down + 2 * sqrt(down))
    plural = tier if spares == 1 else tier_plural(tier)
    entry = _bought(f"{spares} spare {plural}", trials, change, min(SWAP_S, repair_s))
    if change == Change() and entry.get("low_s") == entry.get("high_s") == 0.0:
        entry = {"what": "spares", "why_not": f"at --failure-rate {rate:g} no failure of the replay delays a job"}
    return [*result, entry]


def _bought(what: str, trials: Trials, change: Change, repair_s: float | None = None) -> dict[str, Any]:
    name = "".join(one if one.isalnum() else "-" for one in what)
    try:
        return {"what": what, **trials.trial(change, f"buy{name}", repair_s)._asdict()}
    except InputError as error:
        return {"what": what, "why_not": str(error)}
