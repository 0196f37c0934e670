"""What to tell Slurm so that a job runs on these GPUs and no others.

A job keeps the shape that its user asked for: nodes, tasks and CPUs per task. Only where its user left the number
of nodes open is that set, and only a job that permits any shape (`#DALLY shape=any`) gets other tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dally.live.backends.base import Placement
from dally.live.backends.slurm.job_mark import number_in, with_mark
from dally.live.backends.slurm.job_record import JobRecord, number, text_of
from dally.live.backends.slurm.job_request import NEEDED_MEMORY, gpu_kind, gpus_in, needed_memory_mb
from dally.live.backends.slurm.original import (
    COMPLETE,
    MOST_NODES,
    NODES_SET,
    nodes_set,
    original_of,
    shows_as_it_came,
)


class Shape(NamedTuple):
    """A job as its user asked for it."""

    gpus: int
    nodes: int
    tasks: int
    cpus: int
    memory: int  # MB a node; 0: not asked for

    def tasks_on(self, nodes: int) -> int:
        """In any shape: one per GPU stays one per GPU, one per node one per node."""
        if self.tasks >= self.gpus and self.tasks % self.gpus == 0:
            return self.tasks
        if self.tasks % self.nodes == 0:
            return self.tasks // self.nodes * nodes
        return max(nodes, self.tasks)


def shape_of(record: JobRecord, gpus: int) -> Shape:
    """As it came."""
    original = original_of(record)
    nodes, tasks = (max(1, number_in(original, name) or 0) for name in ("nodes", "tasks"))
    cpus = max(tasks, number_in(original, "cpus") or 0)
    return Shape(number_in(record.mark, "gpus") or gpus, nodes, tasks, cpus, number_in(original, "memory") or 0)


def note_of(record: JobRecord, gpus: int, placement: Placement) -> str:
    """The AdminComment that remembers when the job came and what it asked for, beside where it is to start."""
    mark = {name: value for name, value in (record.mark or {}).items() if name != "nodelist"}
    mark.setdefault("submit", str(number(record.row.get("submit_time"))))
    mark.setdefault("gpus", str(gpus))
    mark.setdefault(NEEDED_MEMORY, str(needed_memory_mb(record)))
    original = original_of(record)
    if "," not in original["partition"]:  # it stays as it is, or as somebody changes it
        del original["partition"]
    mark |= {name: value for name, value in original.items() if value}
    mark |= {COMPLETE: "1", NODES_SET: nodes_set(record, placement)}
    return with_mark(text_of(record.row, "admin_comment"), mark)


def update_arguments(record: JobRecord, shape: Shape, placement: Placement, any_shape: bool) -> list[str]:
    """The settings for `scontrol update`."""
    original = original_of(record)
    changes = _any_shape(record, shape, placement) if any_shape else _same_shape(record, original, placement)
    return [*changes, f"ReqNodeList={','.join(placement)}", "StartTime=now"]


def _same_shape(record: JobRecord, original: Mapping[str, str], placement: Placement) -> list[str]:
    """The number of nodes where it was open, and how many GPUs each of them has where only a total was stated."""
    count, even = len(placement), len(set(placement.values())) == 1
    changed = not shows_as_it_came(record)  # an earlier start may have left something else
    parts = []
    if changed or count != number_in(original, "nodes") or (number_in(original, MOST_NODES) or count) != count:
        parts.append(f"NumNodes={count}-{count}")
    if changed:
        parts += [f"NumTasks={max(number_in(original, 'tasks') or 1, count)}"]
    if record.whole_machines:
        return parts
    each = next(iter(placement.values()))
    parts += _gpus_in_same_shape(record, original, each if even and count > 1 else 0, changed)
    per_task = gpus_in(original["pertask"])
    if per_task and count > 1 and even and not (original["perjob"] or gpus_in(original["pernode"])):
        parts.append(f"TasksPerNode={each // per_task}")
    return parts


def _gpus_in_same_shape(record: JobRecord, original: Mapping[str, str], each: int, changed: bool) -> Iterator[str]:
    """By node or in all, not both: Slurm 22.05 starts no job that asks for three a node and six in all.

    `each`: on every node of several; 0: there is one node, or they differ.
    """
    in_all = original["perjob"]
    by_node = bool(gpus_in(original["pernode"]))
    if by_node and text_of(record.row, "tres_per_node") != original["pernode"]:
        yield f"TresPerNode={original['pernode']}"  # changed since a start: Slurm would give the job what it shows
    elif not by_node and each and in_all:
        yield f"TresPerNode=gres:{gpu_of(record)}:{each}"
    elif not by_node and changed and text_of(record.row, "tres_per_node"):
        yield "TresPerNode="
    desired = "" if by_node or each else in_all
    if in_all and desired != text_of(record.row, "tres_per_job"):
        yield f"TresPerJob={desired}"


def _any_shape(record: JobRecord, shape: Shape, placement: Placement) -> list[str]:
    """Tasks, CPUs and memory follow the GPUs."""
    count = len(placement)
    tasks = shape.tasks_on(count)
    cpus = max(shape.cpus, tasks, count)
    even = len(set(placement.values())) == 1
    parts = [f"NumNodes={count}-{count}", f"NumTasks={tasks}", f"NumCPUs={cpus}"]
    parts.append(f"MinCPUsNode={cpus // count if even else 1}")
    if number(record.row.get("tasks_per_node")):
        parts.append(f"TasksPerNode={-(-tasks // count) if even else max(placement.values())}")
    if shape.cpus > shape.tasks:
        parts.append(f"CPUsPerTask={max(1, cpus // tasks)}")
    if shape.memory:
        parts.append(f"MinMemoryNode={-(-shape.memory * shape.nodes // count)}")
    return parts + _gpus_in_any_shape(record, placement, even)


def _gpus_in_any_shape(record: JobRecord, placement: Placement, even: bool) -> list[str]:
    """So many a node if they are even; else a total, which Slurm deals out machine by machine, filling each."""
    each, total = next(iter(placement.values())), sum(placement.values())
    parts = [f"TresPerNode=gres:{gpu_of(record)}:{each}" if even else "TresPerNode="]
    if not even:
        parts.append(f"TresPerJob=gres:{gpu_of(record)}:{total}")
    elif record.row.get("tres_per_job"):
        parts.append("TresPerJob=")
    return parts + (["TresPerTask="] if record.row.get("tres_per_task") else [])


def gpu_of(record: JobRecord) -> str:
    """`gpu`, or `gpu:a100` if the job asks for a type."""
    kind = gpu_kind(record.row)
    return f"gpu:{kind}" if kind else "gpu"
