"""What a record leaves open and a replay therefore lacks, so that an answer can say it."""

from __future__ import annotations

from collections.abc import Mapping

from dally.cluster.formats.hostlist import expand_list
from dally.cluster.topology import Topology
from dally.sweep.whatif.unended_jobs import still_running, still_waiting
from dally.traces import History
from dally.traces.rows import NO_END, NO_START, TraceRow

NEVER_STARTED = "left out of the replay: not started when the record ended, or cancelled before their start"
STILL_RUN = "left out of the replay: still running at the end of the record; in the replay their GPUs are free"
STILL_WAITED = "still waited at the end of the record: replayed too, each as long as those like it"
RAN_ON = "still ran at the end of the record: replayed, each as long as those like it that lasted longer"
SPREAD = (
    "ran on more machines than their GPUs need: accounting does not say whether their users asked for that, so the "
    "replay places them as its policy does"
)


def record_notes(history: History, topology: Topology) -> dict[str, int]:
    """Jobs by what is to be said of them."""
    gpus = {name: int(topology.gpus[0][number]) for name, number in topology.machine_numbers().items()}
    spread = sum(row.machines > -(-row.spec.gpus // _gpus_of_one(row, gpus)) for row in history.rows)
    waiting, running = still_waiting(history), still_running(history)
    counts = {
        STILL_WAITED: waiting,
        RAN_ON: running,
        NEVER_STARTED: history.unused.get(NO_START, 0) - waiting,
        STILL_RUN: unended(history) - running,
        SPREAD: spread,
    }
    return {what: count for what, count in counts.items() if count}


def _gpus_of_one(row: TraceRow, gpus: Mapping[str, int]) -> int:
    """Of the largest machine that the job ran on; where that is not known, of the smallest that there is."""
    try:
        known = [gpus[name] for name in expand_list(row.nodes) if name in gpus] if row.nodes else []
    except ValueError:
        known = []
    return max(1, max(known) if known else min(gpus.values()))


def unended(history: History) -> int:
    """Jobs that still ran at its end."""
    return history.unused.get(NO_END, 0)
