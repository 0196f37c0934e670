"""Alibaba Lingjun 2023: job.csv with dates to the minute, and worker.csv beside it, which states the GPUs.

Source: alibaba/alibaba-lingjun-dataset-2023 on GitHub.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dally.errors import InputError, at
from dally.job_spec import JobSpec
from dally.traces.readers.csv_trace import header_names
from dally.traces.rows import NO_GPUS, Reading, TraceRow

NEEDED: Final = ("job_name", "gmt_job_submitted", "gmt_job_running", "gmt_job_finished")
TIMES: Final = NEEDED[1:]
STOPPED: Final = "gmt_job_stopped"  # stands in for the end of jobs that were stopped
ZERO_S: Final = 30.0
ZEROS: Final = "lasted 0 minutes: 30 s assumed"
# What the catalogue calls the models; jobs of others get theirs from the mix.
MODELS: Final = {
    "resnet": "resnet50", "mnist": "mobilenet-v3-small", "llama": "llama2-7b", "gpt": "gpt2-xl",
    "gpt-3b": "gpt-3b", "gpt-7b": "gpt-7b", "gpt-13b": "gpt-13b", "dlm": "bert-large",
    "word_embedding": "bert-large", "65b": "llama-65b", "66b": "llama-65b", "130b-infer": "llama2-70b",
}  # fmt: skip


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the header has Lingjun's columns."""
    return {*NEEDED[:2]} <= header_names(lines)


def companions(path: Path) -> list[Path]:
    """worker.csv, or worker.csv.gz, beside job.csv."""
    names = (path.name.replace("job", "worker"), "worker.csv", "worker.csv.gz")
    result = [path.with_name(name) for name in names if name != path.name and path.with_name(name).is_file()]
    return result[:1]


def rows(reading: Reading) -> Iterator[TraceRow]:
    """The jobs of the file."""
    workers = companions(reading.path)
    if not workers:
        missing = f"{reading.path.with_name('worker.csv')}: is not here"
        raise InputError(f"{reading.path}: {missing}; it says how many GPUs a job has")
    gpus_of = _gpus(workers[0])
    for line, field in reading.table(NEEDED):
        job_id = field["job_name"]
        if not job_id:
            raise at(reading.path, line, "job_name", "empty: every job needs a name")
        gpus, machines = gpus_of.get(job_id, (0, 0))
        if gpus < 1:
            reading.skip(line, "job_name", job_id, NO_GPUS)
            continue
        submit, start, end = (field[name] for name in TIMES)
        end = end or field.get(STOPPED, "")
        ran = reading.ran(line, TIMES, (submit, start, end))
        if ran is None:
            continue
        if not ran.duration_s:
            reading.note(ZEROS)
        namespace = field.get("namespace", "")
        model = MODELS.get(field.get("model", "").lower(), "")
        yield TraceRow(
            line,
            job_id,
            ran.submit_s,
            JobSpec(gpus, model=model, user=namespace, queue=namespace),
            ran.duration_s or ZERO_S,
            status=field.get("status", ""),
            wait_s=ran.wait_s,
            machines=machines,
        )


def _gpus(path: Path) -> dict[str, tuple[int, int]]:
    """(GPUs, machines) by job, added up over its workers."""
    reading = Reading(path)
    gpus: dict[str, int] = {}
    hosts: dict[str, set[str]] = {}
    for line, field in reading.table(("job_name", "RES")):
        job_id = field["job_name"]
        gpus[job_id] = gpus.get(job_id, 0) + _gpus_in(reading, line, field["RES"])
        if field.get("host_ip"):
            hosts.setdefault(job_id, set()).add(field["host_ip"])
    return {job_id: (count, len(hosts.get(job_id, ()))) for job_id, count in gpus.items()}


def _gpus_in(reading: Reading, line: int, text: str) -> int:
    """GPUs in a worker's resources, such as {"cpu": "64", "nvidia.com/gpu": "8"}."""
    if not text.strip():
        return 0
    try:
        resources = json.loads(text)
    except (ValueError, RecursionError):
        resources = None
    if not isinstance(resources, dict):
        raise at(reading.path, line, "RES", f"{text!r}: must be a JSON object of resources")
    counts = [str(value) for key, value in resources.items() if key.endswith("/gpu")]
    return reading.gpus(line, "RES", counts[0]) if counts else 0
