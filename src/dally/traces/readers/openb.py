"""Alibaba's GPU cluster of 2023 (openb): a csv of pods, some with a part of a GPU, some with a choice of GPU types.

Source: cluster-trace-gpu-v2023 of alibaba/clusterdata on GitHub. Dally gives whole GPUs: a pod that shared one gets
one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dally.errors import at
from dally.job_spec import JobSpec
from dally.traces.readers.csv_trace import header_names
from dally.traces.rows import BACKWARDS, NO_END, NO_GPUS, NO_START, Reading, TraceRow
from dally.traces.table import number

NEEDED: Final = ("name", "num_gpu", "gpu_milli", "creation_time", "scheduled_time", "deletion_time")
WHOLE_GPU: Final = 1000.0  # thousandths


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the header has openb's columns."""
    return {"name", "num_gpu", "gpu_milli"} <= header_names(lines)


def rows(reading: Reading) -> Iterator[TraceRow]:
    """The pods of the file that were scheduled."""
    path = reading.path
    parts: list[float] = []
    for line, field in reading.table(NEEDED):
        if not field["name"]:
            raise at(path, line, "name", "empty: every pod needs one")
        gpus = reading.gpus(line, "num_gpu", field["num_gpu"])
        share = number(path, line, "gpu_milli", field["gpu_milli"] or "0") / WHOLE_GPU
        result = _row(reading, line, field, gpus if share else 0)
        if result is None:
            continue
        if share < 1.0:
            parts.append(gpus * share)
        yield result
    if parts:
        reading.notes[f"asked for a part of a GPU ({sum(parts):,.1f} GPUs together): each gets whole ones"] = len(
            parts
        )


def _row(reading: Reading, line: int, field: dict[str, str], gpus: int) -> TraceRow | None:
    """The pod as a row; None if it cannot be used, which is counted."""
    times = [_seconds(reading, line, name, field[name]) for name in NEEDED[3:]]
    submit_s, start_s, end_s = times
    if not gpus:
        reading.skip(line, "num_gpu", field["num_gpu"], NO_GPUS)
    elif start_s is None:
        reading.skip(line, "scheduled_time", "", NO_START)
    elif end_s is None:
        reading.skip(line, "deletion_time", "", NO_END)
    elif end_s < start_s:
        reading.skip(line, "deletion_time", field["deletion_time"], BACKWARDS)
    else:
        if submit_s is None:
            submit_s = start_s
        return TraceRow(
            line,
            field["name"],
            submit_s,
            JobSpec(
                gpus,
                "|".join(sorted({kind for kind in field.get("gpu_spec", "").split("|") if kind})),
                qos=field.get("qos", ""),
            ),
            end_s - start_s,
            status=field.get("pod_phase", ""),
            wait_s=reading.wait(submit_s, start_s),
        )
    return None


def _seconds(reading: Reading, line: int, name: str, text: str) -> float | None:
    return number(reading.path, line, name, text) if text else None
