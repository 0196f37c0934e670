"""Kubernetes' history: the Jobs and Kueue's Workloads, as `kubectl get jobs,workloads -o json` prints them.

A job and the workload that Kueue made of it are one job. Kueue says when it was admitted and how long it ran
before it was evicted; of a job without a workload only its start is known, not when its pods got their GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dally.job_spec import JobSpec
from dally.traces.readers.json_objects import items_of
from dally.traces.readers.kube_objects import KubeObject, read_object
from dally.traces.rows import (
    BACKWARDS,
    FRACTIONS,
    NO_END,
    NO_GPUS,
    NO_START,
    NO_SUBMIT,
    NOT_KNOWN,
    PART,
    REPEATED,
    Reading,
    TraceRow,
)  # fmt: skip

ENTRY: Final = "an object with kind, metadata, spec and status"
OTHERS: Final = "of other kinds"
ADDED_UP: Final = "were evicted: their running times are added up"
LAST_ONLY: Final = "were evicted: only their last run is known, and what was before counts as waiting"
NO_KUEUE: Final = "had no Kueue workload: waiting of their pods counts as running"


def looks_like(lines: Sequence[str]) -> bool:
    """Whether it begins as kubectl's JSON does."""
    first = next((line.lstrip() for line in lines if line.strip()), "")
    return first.startswith("{") and any('"apiVersion"' in line or '"items"' in line for line in lines)


def rows(reading: Reading) -> Iterator[TraceRow]:
    """The jobs, in the file's order; then the workloads of jobs that are no longer there."""
    jobs, workloads = _read(reading)
    by_owner = {key: workload for workload in workloads.values() for key in workload.owners}
    joined: set[str] = set()
    taken: dict[str, int] = {}
    pairs: list[tuple[KubeObject | None, KubeObject | None]] = []
    for job in jobs.values():
        workload = by_owner.get(job.key) or by_owner.get(job.path)
        if workload is not None:
            joined.add(workload.key)
        elif any(owner in by_owner for owner in job.owners):
            reading.skip(job.line, "ownerReferences", job.name, PART)
            continue
        pairs.append((job, workload))
    pairs += [(None, workload) for workload in workloads.values() if workload.key not in joined]
    for pair in pairs:
        row = _row(reading, *pair)
        if row is not None:
            taken[row.job_id] = taken.get(row.job_id, 0) + 1
            again = taken[row.job_id]
            yield row if again == 1 else row._replace(job_id=f"{row.job_id}~{again}")


def _read(reading: Reading) -> tuple[dict[str, KubeObject], dict[str, KubeObject]]:
    """Jobs and workloads by uid; of one that stands there several times, the latest that has ended."""
    jobs: dict[str, KubeObject] = {}
    workloads: dict[str, KubeObject] = {}
    for line, entry in items_of(reading.path, ENTRY):
        result = read_object(reading, line, entry)
        if result is None:
            reading.skip(line, "kind", entry.get("kind"), OTHERS)
            continue
        remaining = workloads if result.kind == "Workload" else jobs
        if result.key in remaining:
            reading.note(REPEATED)
            if result.end_s is None:
                continue
        remaining[result.key] = result
    return jobs, workloads


def _row(reading: Reading, job: KubeObject | None, workload: KubeObject | None) -> TraceRow | None:
    """The job as a row; None if it cannot be used, which is counted."""
    both = [result for result in (job, workload) if result is not None]
    main, kueue = both[0], both[-1]
    needs = kueue.needs if kueue.needs.gpus else main.needs
    end_s = main.end_s if main.end_s is not None else kueue.end_s
    start_s = _start(main, kueue, end_s)
    if not needs.gpus:
        reading.skip(main.line, "limits", main.name, NO_GPUS)
    elif main.submit_s is None:
        reading.skip(main.line, "creationTimestamp", "", NO_SUBMIT)
    elif start_s is None:
        reading.skip(main.line, "startTime", "", NO_START)
    elif end_s is None:
        reading.skip(main.line, "completionTime", "", NO_END)
    elif end_s < start_s:
        reading.skip(main.line, "completionTime", main.name, BACKWARDS)
    else:
        _note_assumptions(reading, main, kueue, needs.parts)
        return TraceRow(
            main.line,
            _name(main),
            main.submit_s,
            JobSpec(
                needs.gpus,
                needs.gpu_type,
                user=main.user or kueue.user or main.namespace,
                priority=kueue.priority,
                name=main.family,
                limit_s=_limit(main, kueue),
                account=main.namespace,
                partition=kueue.queue or main.queue,
                qos=kueue.priority_class,
                queue=kueue.queue or main.queue,
            ),
            end_s - start_s,
            status=main.status or kueue.status,
            wait_s=reading.wait(main.submit_s, start_s),
        )
    return None


def _limit(main: KubeObject, kueue: KubeObject) -> float | None:
    limit_s = max(main.limit_s, kueue.limit_s)
    return None if limit_s == NOT_KNOWN else limit_s


def _start(main: KubeObject, kueue: KubeObject, end_s: float | None) -> float | None:
    """When it started, earlier runs moved up to the last; newer Kueues count the last among them once it ends."""
    if kueue.start_s is not None:
        return kueue.start_s - kueue.past_s
    if kueue.past_s > 0.0 and end_s is not None:
        return end_s - kueue.past_s
    return main.start_s


def _note_assumptions(reading: Reading, main: KubeObject, kueue: KubeObject, parts: bool) -> None:
    """Count what had to be assumed."""
    if kueue.kind != "Workload":
        reading.note(NO_KUEUE)
    elif kueue.evicted:
        reading.note(ADDED_UP if kueue.past_s > 0.0 else LAST_ONLY)
    if parts:
        reading.note(FRACTIONS)


def _name(main: KubeObject) -> str:
    """namespace/name; of a workload alone, the name of the job that it was made of."""
    made_of = [owner for owner in main.owners if owner.count("/") == 2] if main.kind == "Workload" else []
    name = made_of[0].rpartition("/")[2] if made_of else main.name
    return f"{main.namespace}/{name}" if main.namespace else name
