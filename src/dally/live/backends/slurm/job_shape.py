"""What to tell Slurm so that a job runs on these GPUs and no others, its tasks, CPUs and memory kept."""

from __future__ import annotations

from typing import Any, NamedTuple

from dally.cluster.formats.hostlist import split_outside
from dally.live.backends.base import Placement
from dally.live.backends.slurm.job_mark import number_in, with_mark
from dally.live.backends.slurm.jobs_json import JobRecord, number, plain_gres, requested_group

MARKED = ("gpus", "nodes", "tasks", "cpus", "memory")  # of a job as submitted: Slurm only knows its latest shape


class Shape(NamedTuple):
    """A job as its user asked for it."""

    gpus: int
    nodes: int
    tasks: int
    cpus: int
    memory: int  # MB a node; 0: not asked for

    def tasks_on(self, nodes: int) -> int:
        """One per GPU stays one per GPU, one per node one per node."""
        if self.tasks >= self.gpus and self.tasks % self.gpus == 0:
            return self.tasks
        if self.tasks % self.nodes == 0:
            return self.tasks // self.nodes * nodes
        return max(nodes, self.tasks)


def shape_of(record: JobRecord, gpus: int) -> Shape:
    """As noted when it was first started, or as it came."""
    row = record.row
    result = [number_in(record.mark, name) for name in MARKED]
    if None not in result:
        return Shape(*(int(value or 0) for value in result))
    nodes, tasks = max(1, number(row.get("node_count"))), max(1, number(row.get("tasks")))
    return Shape(gpus, nodes, tasks, max(tasks, number(row.get("cpus"))), number(row.get("memory_per_node")))


def note_of(record: JobRecord, shape: Shape) -> str:
    """The AdminComment that remembers when the job came and what it asked for."""
    mark = dict(record.mark or {})
    mark.setdefault("submit", str(number(record.row.get("submit_time"))))
    mark.setdefault("group", str(requested_group(record)))
    mark.update({name: str(value) for name, value in zip(MARKED, shape, strict=True)})
    return with_mark(str(record.row.get("admin_comment") or ""), mark)


def update_arguments(record: JobRecord, shape: Shape, placement: Placement) -> list[str]:
    """The settings for `scontrol update`."""
    count = len(placement)
    tasks = shape.tasks_on(count)
    cpus = max(shape.cpus, tasks, count)
    even = len(set(placement.values())) == 1
    parts = [f"NumNodes={count}-{count}", f"NumTasks={tasks}", f"NumCPUs={cpus}"]
    parts.append(f"MinCPUsNode={cpus // count if even else 1}")
    row = record.row
    if number(row.get("tasks_per_node")):
        parts.append(f"TasksPerNode={-(-tasks // count) if even else max(placement.values())}")
    if shape.cpus > shape.tasks:
        parts.append(f"CPUsPerTask={max(1, cpus // tasks)}")
    if shape.memory:
        parts.append(f"MinMemoryNode={-(-shape.memory * shape.nodes // count)}")
    return [*parts, *_gpu_arguments(row, placement, even), f"ReqNodeList={','.join(placement)}", "StartTime=now"]


def _gpu_arguments(row: dict[str, Any], placement: Placement, even: bool) -> list[str]:
    """So many a node if they are even; else a total, which Slurm deals out machine by machine, filling each."""
    kind = _gpu_kind(row)
    others = [item for item in _items(row, "tres_per_node") if not plain_gres(item).startswith("gpu")]
    per_node = [f"gres:{kind}:{next(iter(placement.values()))}"] if even else []
    parts = [f"TresPerNode={','.join([*others, *per_node])}"]
    if not even:
        parts.append(f"TresPerJob=gres:{kind}:{sum(placement.values())}")
    elif row.get("tres_per_job"):
        parts.append("TresPerJob=")
    return parts + [
        f"{name}=" for name, field in (("TresPerTask", "tres_per_task"), ("TresPerSocket", "tres_per_socket"))
        if row.get(field)
    ]  # fmt: skip


def _gpu_kind(row: dict[str, Any]) -> str:
    """`gpu`, or `gpu:a100` if the job asks for a kind."""
    for field in ("tres_per_job", "tres_per_node", "tres_per_task", "tres_per_socket"):
        for item in _items(row, field):
            parts = plain_gres(item).split(":")
            if parts[0] == "gpu":
                return ":".join(part for part in parts if not part.isdigit())
    return "gpu"


def _items(row: dict[str, Any], field: str) -> list[str]:
    text = str(row.get(field) or "")
    return split_outside(text, "()") if text else []
