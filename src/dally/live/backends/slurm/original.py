"""What of a job Dally may change, as it was when the job came: kept in its mark, and put back from there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from dally.live.backends.slurm.job_mark import number_in
from dally.live.backends.slurm.job_record import JobRecord, number


class JobSetting(NamedTuple):
    """One setting of `scontrol update`."""

    name: str  # in the mark
    update: str  # for scontrol
    shown: str  # in `squeue --json`
    is_number: bool


SETTINGS: Final = (
    JobSetting("nodes", "NumNodes", "node_count", True),
    JobSetting("tasks", "NumTasks", "tasks", True),
    JobSetting("cpus", "NumCPUs", "cpus", True),
    JobSetting("mincpus", "MinCPUsNode", "minimum_cpus_per_node", True),
    JobSetting("taskspernode", "TasksPerNode", "tasks_per_node", True),
    JobSetting("memory", "MinMemoryNode", "memory_per_node", True),
    JobSetting("pernode", "TresPerNode", "tres_per_node", False),
    JobSetting("perjob", "TresPerJob", "tres_per_job", False),
    JobSetting("pertask", "TresPerTask", "tres_per_task", False),
    JobSetting("nodelist", "ReqNodeList", "required_nodes", False),
)
MOST_NODES: Final = "maxnodes"  # 0: none was stated
ANY_NUMBER: Final = 65533  # of nodes: a maximum cannot be taken back, and Slurm cuts this to what the job can use
COMPLETE: Final = "kept"  # in a mark that has all of these


def original_of(record: JobRecord) -> dict[str, str]:
    """As it came: from its mark once we have changed it, or as Slurm shows it."""
    if record.mark is not None and COMPLETE in record.mark:
        names = [setting.name for setting in SETTINGS] + [MOST_NODES]
        return {name: record.mark.get(name, "") for name in names}
    shown = {setting.name: _shown(record.row, setting) for setting in SETTINGS}
    return shown | {MOST_NODES: str(number(record.row.get("max_nodes")))}


def restoring(record: JobRecord) -> list[str]:
    """The settings that make the job what it was; none: it is."""
    if record.mark is None or COMPLETE not in record.mark:
        return []
    return list(_restoring(record, original_of(record)))


def _restoring(record: JobRecord, original: dict[str, str]) -> Iterator[str]:
    most = number_in(original, MOST_NODES) or 0
    for setting in SETTINGS:
        before, now = original[setting.name], _shown(record.row, setting)
        if setting.name == "nodes" and (before != now or most != number(record.row.get("max_nodes"))):
            yield f"NumNodes={before}-{most or ANY_NUMBER}"
        elif before != now:
            yield f"{setting.update}={before}"


def _shown(row: dict[str, Any], setting: JobSetting) -> str:
    value = row.get(setting.shown)
    return str(number(value)) if setting.is_number else str(value or "")
