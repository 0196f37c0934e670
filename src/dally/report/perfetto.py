"""A run in the trace-event format: ui.perfetto.dev and chrome://tracing open it.

A process per rack with a track for every GPU, one with a track for every job, and counters: jobs that wait, GPUs
held, the load of every uplink. Times are microseconds since the trace's start.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from dally.metrics.jobs_csv import USER
from dally.metrics.over_time import held_gpus, occupancies, outages, waiting_jobs, waits
from dally.metrics.record import Record
from dally.whole_file import write_whole

Event = dict[str, Any]
JOBS, CLUSTER, FIRST_RACK = 1, 2, 10  # processes
INSTANTS = ("submit", "preempt", "evict", "migrate", "resize", "finish")


def write_perfetto(run: Record, path: Path) -> int:
    """Write the trace, packed if the name ends in .gz; how many events it has."""
    events = trace_events(run)
    head = {"displayTimeUnit": "ms", "otherData": facts(run)}
    lines = ",\n".join(json.dumps(event, separators=(",", ":"), ensure_ascii=False) for event in events)
    text = f'{json.dumps(head, ensure_ascii=False)[:-1]}, "traceEvents": [\n{lines}\n]}}\n'.encode()
    write_whole(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return len(events)


def facts(run: Record) -> dict[str, Any]:
    """What was run, and when its second 0 was, where the trace says."""
    result = {"policy": run.summary["policy"], "seed": run.scenario.seed, "trace": Path(run.scenario.trace).name}
    epoch_s = run.summary.get("epoch_s")
    return result if epoch_s is None else {**result, "epoch_s": epoch_s, "zone": run.scenario.zone}


def trace_events(run: Record) -> list[Event]:
    """Names of processes and tracks, then everything that happened, in order of time."""
    timed = [*_gpu_events(run), *_job_events(run), *_counters(run)]
    return [*_names(run), *sorted(timed, key=lambda event: float(event["ts"]))]


def microseconds(time_s: float) -> int:
    """An instant as the format has it; whole, so that what follows something never begins before its end."""
    return round(time_s * 1e6)


def _names(run: Record) -> Iterator[Event]:
    topology = run.topology
    yield _named("process_name", JOBS, 0, "jobs")
    yield _named("process_name", CLUSTER, 0, "cluster")
    for rack, name in enumerate(topology.names[1]):
        yield _named("process_name", FIRST_RACK + rack, 0, str(name))
    for machine, gpus in enumerate(topology.gpus[0]):
        for gpu in range(int(gpus)):
            pid, tid = _track(run, machine, gpu)
            yield _named("thread_name", pid, tid, f"{topology.names[0][machine]} GPU {gpu}")
    for number, job in enumerate(run.jobs.iter_rows(named=True), 1):
        parts = [job["job_id"], job.get(USER), job["model"], f"{job['gpus']} GPUs"]
        yield _named("thread_name", JOBS, number, " · ".join(token for token in parts if token))


def _named(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _track(run: Record, machine: int, gpu: int) -> tuple[int, int]:
    """The process and the track of a GPU."""
    rack = int(run.topology.parents[0][machine])
    first = int(run.topology.first_children[1][rack])
    before = sum(int(gpus) for gpus in run.topology.gpus[0][first:machine])
    return FIRST_RACK + rack, before + gpu + 1


def _span(name: str, kind: str, track: tuple[int, int], from_s: float, to_s: float, **args: Any) -> Event:
    start = microseconds(from_s)
    pid, tid = track
    duration = microseconds(to_s) - start
    return {
        "ph": "X", "name": name, "cat": kind, "pid": pid, "tid": tid, "ts": start, "dur": duration, "args": args,
    }  # fmt: skip


def _gpu_events(run: Record) -> Iterator[Event]:
    """A span per gang and GPU, and per outage. Which GPUs of a machine, no log says: the lowest that are free."""
    end_s = run.end_s
    sizes = [int(gpus) for gpus in run.topology.gpus[0]]
    tracks = [[_track(run, machine, gpu) for gpu in range(gpus)] for machine, gpus in enumerate(sizes)]
    free_at = [[0] * len(row) for row in tracks]
    ids = run.jobs["job_id"].to_list()
    columns = ("job", "from_s", "to_s", "tier", "machine", "gpus")
    for job, from_s, to_s, tier, machine, gpus in occupancies(run, end_s).select(columns).iter_rows():
        until = free_at[machine]
        free = [gpu for gpu, busy in enumerate(until) if busy <= microseconds(from_s)]
        for gpu in free[:gpus]:
            until[gpu] = microseconds(to_s)
            yield _span(ids[job], "gang", tracks[machine][gpu], from_s, to_s, tier=run.tiers[tier])
    for machine, from_s, to_s in outages(run, end_s).iter_rows():
        for track in tracks[machine]:
            yield _span("down", "outage", track, from_s, to_s)


def _job_events(run: Record) -> Iterator[Event]:
    """What every job does when: it waits, it runs somewhere; and what happens to it."""
    end_s = run.end_s
    names = run.topology.names[0]
    for job, from_s, to_s in waits(run, end_s).iter_rows():
        yield _span("waits", "wait", (JOBS, job + 1), from_s, to_s)
    placed = occupancies(run, end_s).group_by("job", "from_s", "to_s", "tier", maintain_order=True)
    for job, from_s, to_s, tier, machines, gpus in placed.agg("machine", "gpus").iter_rows():
        where = ", ".join(f"{names[machine]}:{count}" for machine, count in zip(machines, gpus, strict=True))
        yield _span(f"runs: {run.tiers[tier]}", "run", (JOBS, job + 1), from_s, to_s, on=where)
    numbers = {name: number for number, name in enumerate(run.jobs["job_id"].to_list(), 1)}
    rows = run.events.filter(pl.col("kind").is_in(INSTANTS)).select("time_s", "kind", "job_id")
    for time_s, kind, job_id in rows.iter_rows():
        yield {
            "ph": "i", "s": "t", "name": kind, "cat": "event", "pid": JOBS, "tid": numbers[job_id],
            "ts": microseconds(time_s),
        }  # fmt: skip


def _counters(run: Record) -> Iterator[Event]:
    """Jobs that wait, GPUs held, and the load of every uplink in percent."""
    levels = {"jobs that wait": waiting_jobs(run.events), "GPUs held": held_gpus(run.events, run.jobs)}
    for name, result in levels.items():
        last = result.unique("time_s", keep="last", maintain_order=True)
        for time_s, level in last.select("time_s", "level").iter_rows():
            yield _counter(name, time_s, level)
    loads = run.all_events.filter(pl.col("kind") == "link").select("time_s", "link", "load")
    for time_s, link, load in loads.iter_rows():
        yield _counter(f"uplink of {link}, %", time_s, round(100 * load, 1))


def _counter(name: str, time_s: float, value: float) -> Event:
    return {"ph": "C", "name": name, "pid": CLUSTER, "tid": 0, "ts": microseconds(time_s), "args": {"value": value}}
