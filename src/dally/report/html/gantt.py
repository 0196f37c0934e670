"""What the chart of GPUs over time needs: which gang held which machines when, and what was down."""

from __future__ import annotations

import base64
import gzip
import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import polars as pl

from dally.metrics.jobs_csv import USER
from dally.metrics.over_time import occupancies, outages
from dally.metrics.record import Record

MOST_PIECES = 300_000  # of gangs on machines: a page with more takes too long to open
TICKS = 2**31


@dataclass(frozen=True)
class GanttData:
    """The packed columns, and what the page must know of them."""

    packed: str
    facts: dict[str, Any]


def gantt_data(run: Record, end_s: float) -> GanttData:
    """Everything that the page shows of a run's course."""
    tick_s = max(end_s / TICKS, 0.001)
    remaining, left_out, hidden = _longest(occupancies(run, end_s))
    jobs, names = _jobs(run)
    columns = {
        "start": _ticks(remaining["from_s"], tick_s),
        "end": _lengths(remaining, tick_s),
        "job": remaining["job"].to_list(),
        "machine": remaining["machine"].to_list(),
        "gpus": remaining["gpus"].to_list(),
        "tier": remaining["tier"].to_list(),
        **jobs,
        **_outages(run, end_s, tick_s),
    }
    topology = run.topology
    facts = {
        "tick_s": tick_s,
        "start_s": float(run.events["time_s"][0]) if run.events.height else 0.0,
        "end_s": end_s,
        "tiers": run.tiers,
        "machines": topology.names[0],
        "machine_gpus": [int(gpus) for gpus in topology.gpus[0]],
        "groups": _groups(run),
        "left_out": left_out,
        "hidden_share": round(hidden, 4),
        "network": run.summary.get("comm_s", 0.0) > 0.0,
        "epoch_s": run.summary.get("epoch_s"),
        "zone": run.scenario.zone,
        **names,
    }
    return GanttData(pack(columns, ("start", "down_start"), {"job_id": run.jobs["job_id"].to_list()}), facts)


def _jobs(run: Record) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
    """What is to be known of each job, and the names of models and users, where the trace has them."""
    models, of_model = _numbered(run.jobs["model"].to_list())
    users, of_user = _numbered(run.jobs[USER].to_list() if USER in run.jobs.columns else [])
    columns = {
        "job_gpus": run.jobs["gpus"].to_list(),
        "job_model": of_model,
        "job_slowdown": [round(100 * (value or 0.0)) for value in run.jobs["slowdown"].to_list()],
        "job_user": of_user,
    }
    return columns, {"models": models, "users": users}


def _numbered(parts: list[str | None]) -> tuple[list[str], list[int]]:
    """The words without repeats, and the place of each in them."""
    names = sorted({token or "" for token in parts})
    places = {name: place for place, name in enumerate(names)}
    return names, [places[token or ""] for token in parts]


def _longest(pieces: pl.DataFrame) -> tuple[pl.DataFrame, int, float]:
    """The pieces with most GPU time, how many were left out, and their share of the GPU time."""
    left_out = pieces.height - MOST_PIECES
    if left_out <= 0:
        return pieces, 0, 0.0
    sized = pieces.with_row_index("row").with_columns(
        ((pl.col("to_s") - pl.col("from_s")) * pl.col("gpus")).alias("gpu_s")
    )
    remaining = sized.sort("gpu_s", descending=True, maintain_order=True).head(MOST_PIECES)
    whole = float(sized["gpu_s"].sum())
    return remaining.sort("row"), left_out, 1.0 - float(remaining["gpu_s"].sum()) / whole if whole else 0.0


def _outages(run: Record, end_s: float, tick_s: float) -> dict[str, list[int]]:
    """When machines were down."""
    rows = outages(run, end_s)
    return {
        "down_start": _ticks(rows["from_s"], tick_s),
        "down_end": _lengths(rows, tick_s),
        "down_machine": rows["machine"].to_list(),
    }


def _ticks(times_s: pl.Series, tick_s: float) -> list[int]:
    # Rounded down everywhere alike, so that what ends before something else starts still does.
    return (times_s / tick_s).floor().cast(pl.Int64).to_list()


def _lengths(pieces: pl.DataFrame, tick_s: float) -> list[int]:
    starts = (pieces["from_s"] / tick_s).floor()
    return ((pieces["to_s"] / tick_s).floor() - starts).cast(pl.Int64).to_list()


def _groups(run: Record) -> list[list[Any]]:
    """[name, first machine, machines] of every domain right above the machines."""
    topology = run.topology
    return [
        [name, int(topology.first_children[1][place]), int(topology.child_counts[1][place])]
        for place, name in enumerate(topology.names[1])
    ]


LARGEST = 2**32 - 1


def pack(
    columns: Mapping[str, Sequence[int]],
    ascending: Sequence[str] = (),
    texts: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """All columns in one text; those named as ascending are kept as differences.

    Layout, before gzip: the length of a JSON header as 4 bytes, the header, then each column's lowest bytes, its
    next bytes and so on: neighbours are alike, which is what makes it small. Texts come last, a line each.
    """
    header: dict[str, list[object]] = {"columns": [], "texts": []}
    body: list[bytes] = []
    for name, values in columns.items():
        remaining = [after - before for before, after in pairwise([0, *values])] if name in ascending else values
        _check(name, remaining)
        width = max(1, (max(remaining, default=0).bit_length() + 7) // 8)
        raw = array("I", remaining).tobytes()
        body += [raw[plane::4] for plane in range(width)]
        header["columns"].append([name, len(remaining), width, name in ascending])
    for name, lines in (texts or {}).items():
        encoded = "\n".join(line.replace("\n", " ") for line in lines).encode()
        header["texts"].append([name, len(encoded)])
        body.append(encoded)
    head = json.dumps(header).encode()
    whole = len(head).to_bytes(4, "little") + head + b"".join(body)
    return base64.b64encode(gzip.compress(whole, compresslevel=6, mtime=0)).decode()


def _check(name: str, values: Sequence[int]) -> None:
    if values and not 0 <= min(values) <= max(values) <= LARGEST:
        raise ValueError(f"{name}: does not fit into 4 bytes, or does not ascend")
