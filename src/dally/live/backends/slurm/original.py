"""What of a job Dally may change, as it was when the job came: kept in its mark, and put back from there."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from dally.cluster.formats.hostlist import expand_list
from dally.live.backends.slurm.job_mark import number_in
from dally.live.backends.slurm.job_record import JobRecord, number, text_of
from dally.live.backends.slurm.left_alone import gres_items


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
    JobSetting("partition", "Partition", "partition", False),
)
_NODES: Final = re.compile(r"(?:^|,)node=([0-9]+)")
MOST_NODES: Final = "maxnodes"  # 0: none was stated
ANY_NUMBER: Final = 65533  # of nodes: a maximum cannot be taken back, and Slurm cuts this to what the job can use
COMPLETE: Final = "kept"  # in a mark that has all of these
NODES_SET: Final = "on"  # in a mark: prints of the node list of the latest start, and of the one shown before it


def original_of(record: JobRecord) -> dict[str, str]:
    """As it came: from its mark once we have changed it, or as Slurm shows it."""
    if record.mark is not None and COMPLETE in record.mark:
        names = [setting.name for setting in SETTINGS] + [MOST_NODES]
        noted = {name: record.mark.get(name, "") for name in names}
        if _is_nodelist_changed(record):
            noted["nodelist"] = text_of(record.row, "required_nodes")
        return noted | {"partition": noted["partition"] or text_of(record.row, "partition")}
    shown = {setting.name: _shown(record.row, setting) for setting in SETTINGS}
    return shown | {MOST_NODES: str(number(record.row.get("max_nodes")))}


def nodes_set(record: JobRecord, placement: Iterable[str]) -> str:
    """For the mark: the nodes that a job is to start on, and those that it shows until Slurm has taken that."""
    return f"{_print_of(placement)}.{_print_of(_shown_nodes(record))}"


def _is_nodelist_changed(record: JobRecord) -> bool:
    """Whether a user or an operator has changed the node list of a waiting job since we set it."""
    ours = (record.mark or {}).get(NODES_SET, "")
    return bool(ours) and record.pending and _print_of(_shown_nodes(record)) not in ours.split(".")


def _shown_nodes(record: JobRecord) -> list[str]:
    text = text_of(record.row, "required_nodes")
    return expand_list(text) if text else []


def _print_of(nodes: Iterable[str]) -> str:
    return f"{zlib.crc32(','.join(sorted(nodes)).encode()):08x}"


def shows_as_it_came(record: JobRecord) -> bool:
    """Whether its nodes and tasks are as they were; of a requeued job that is not known."""
    original = original_of(record)
    names = ("nodes", "tasks", "pernode")
    same = all(original[one.name] == _shown(record.row, one) for one in SETTINGS if one.name in names)
    most = number_in(original, MOST_NODES) or 0
    return same and most == number(record.row.get("max_nodes")) and not number(record.row.get("restart_cnt"))


def restoring(record: JobRecord, machine_gpus: int) -> list[str]:
    """The settings that make the job what it was; none: it is. `machine_gpus`: of the largest that it may use."""
    if record.mark is None or COMPLETE not in record.mark:
        return []
    original = original_of(record)
    total = sum(item.number for item in gres_items(original["perjob"]) if item.name == "gpu")
    if (
        total and machine_gpus and not original["pernode"]
    ):  # once it had GPUs by node, Slurm no longer works this out
        least = max(number_in(original, "nodes") or 1, -(-total // machine_gpus))
        original |= {"nodes": str(least)}
    return list(_restoring(record, original))


def _restoring(record: JobRecord, original: dict[str, str]) -> Iterator[str]:
    most = number_in(original, MOST_NODES) or 0
    for setting in SETTINGS:
        before, now = original[setting.name], _shown(record.row, setting)
        if setting.name == "nodes" and (before != now or most != number(record.row.get("max_nodes"))):
            yield f"NumNodes={before}-{most or ANY_NUMBER}"
        elif before != now:
            yield f"{setting.update}={before}"


def _least_nodes(row: dict[str, Any]) -> int:
    """Of `-N2-4`, 2, for which Slurm 22.05 may show 4; and not by the tasks of a job that overcommits its CPUs."""
    count, least = number(row.get("node_count")), _NODES.search(text_of(row, "tres_req_str"))
    is_more = count == number(row.get("max_nodes")) or number(row.get("cpus")) < number(row.get("tasks"))
    return min(count, int(least.group(1))) if is_more and least is not None else count


def _shown(row: dict[str, Any], setting: JobSetting) -> str:
    if setting.name == "nodes":
        return str(_least_nodes(row))
    value = row.get(setting.shown)
    return str(number(value)) if setting.is_number else str(value or "")
