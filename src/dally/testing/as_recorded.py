"""A simulated run as if a cluster had recorded it: who waited how long, and ran where for how long."""

from __future__ import annotations

from dataclasses import replace

from dally.cluster.formats.hostlist import fold
from dally.metrics.simulated import Simulated
from dally.model import FINISHED
from dally.traces import History
from dally.traces.rows import TraceRow


def as_recorded(record: Simulated, known_models: bool = True) -> History:
    """Finished jobs with their first place; for policies that start every job once."""
    starts = record.events.filter(record.events["kind"] == "start").select("job_id", "machines", "machine_gpus")
    places = {job_id: (names, counts) for job_id, names, counts in starts.iter_rows()}
    rows = [
        TraceRow(
            0, job.job_id, job.submit_s, replace(job.spec, model=job.model if known_models else ""),
            job.finish_s - job.start_s, "COMPLETED", job.start_s - job.submit_s, len(places[job.job_id][0]),
            "+".join(map(str, places[job.job_id][1])), ",".join(fold(places[job.job_id][0])),
        )
        for job in record.outcomes
        if job.status == FINISHED
    ]  # fmt: skip
    return History(rows, "duration_s", "csv", {}, {}, None)
