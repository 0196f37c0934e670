"""Durations of recorded jobs, less what the places cost on which they ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dally.cluster.recorded_place import Places
from dally.cluster.topology import Topology
from dally.model import Job
from dally.perf.base import SpeedModel
from dally.perf.recorded_work import Recorded, recorded_work
from dally.runs.scenario import Scenario
from dally.traces import read_history
from dally.traces.reading import start_s
from dally.traces.rows import NOT_KNOWN, TraceRow

TAKEN_OUT = "ran at a recorded place: what it cost them is taken out of their durations"
ELSEWHERE = "ran on machines that the cluster does not have: their durations are taken as they are"


class Placed(NamedTuple):
    """Recorded jobs at the places where they ran, and how many others there are."""

    ran: list[Recorded]
    elsewhere: int  # jobs on machines that the topology does not have, or that have not enough GPUs
    missing: list[str]  # names of such machines
    unused: int  # machines of the topology on which no job ran

    def notes(self) -> dict[str, int]:
        """Jobs by what is to be known of them."""
        counts = {TAKEN_OUT: len(self.ran), ELSEWHERE: self.elsewhere}
        return {what: count for what, count in counts.items() if count}


def places_of(jobs: Sequence[Job], rows: Sequence[TraceRow], topology: Topology) -> Placed:
    """Where the jobs ran, as far as the trace says: jobs of one id with rows of that id."""
    places = Places(topology)
    by_id = {row.job_id: row for row in rows if row.nodes and row.wait_s != NOT_KNOWN}
    ran: list[Recorded] = []
    elsewhere = 0
    for job in jobs:
        row = by_id.get(job.job_id)
        if row is None:
            continue
        allocation = places.find(row.nodes, row.spec.gpus, row.placement)
        if allocation is None:
            elsewhere += 1
        else:
            ran.append(Recorded(job, allocation, start_s(row), start_s(row) + row.stated))
    return Placed(ran, elsewhere, list(places.missing), topology.machine_count() - len(places.used))


def take_out(scenario: Scenario, jobs: Sequence[Job], topology: Topology, speed: SpeedModel) -> dict[str, int]:
    """Set durations to what the jobs would have needed alone at their closest placement; notes on how many."""
    history = read_history(Path(scenario.trace), scenario.trace_format, scenario.strict, scenario.zone)
    placed = places_of(jobs, history.rows, topology)
    for record, work_s in zip(placed.ran, recorded_work(speed, placed.ran), strict=True):
        record.job.duration_s = work_s
    return placed.notes()
