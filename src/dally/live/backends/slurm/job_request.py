"""What a job of Slurm asks for, as a JobSpec: GPUs and their shape, CPUs, memory, constraints.

All of it is read as the job came, from its mark once Dally has changed the job's shape.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from dally.cluster.feasibility.shape import shape_of
from dally.cluster.formats.hostlist import expand_list
from dally.job_spec import JobSpec
from dally.live.backends.slurm.job_mark import number_in
from dally.live.backends.slurm.job_record import JobRecord, number, text_of
from dally.live.backends.slurm.left_alone import GPU_FIELDS, gres_items
from dally.live.backends.slurm.original import MOST_NODES, original_of
from dally.live.backends.stated_facts import command_line_of

NEEDED_MEMORY: Final = "needs"  # in the mark: MB a node that Slurm takes for a job that states none
_MEMORY = re.compile(r"(?:^|,)mem=([0-9.]+)([KMGTP]?)")
_NODES = re.compile(r"(?:^|,)node=([0-9]+)")
_UNITS_MB: Final = {"K": 1.0 / 1024.0, "M": 1.0, "": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}


class GpuRequest(NamedTuple):
    """GPUs in all, and how they are to be spread."""

    gpus: int
    group: int  # that share a machine
    per_node: int  # exactly; 0: any number
    nodes_min: int
    nodes_max: int


class JobDefaults(NamedTuple):
    """What Slurm gives a job that does not state it: `JobDefaults` of slurm.conf and of partitions."""

    cpus_per_gpu: int = 0  # 0, here and below: none
    memory_mb_per_gpu: int = 0
    threads: int = 1  # of a core: jobs get whole cores


NO_DEFAULTS: Final = JobDefaults()


class MachineRequest(NamedTuple):
    """On which machines a job is to run, as a JobSpec has it."""

    partition: str
    gpu_type: str
    features: str
    include: str
    exclude: str


def machine_request(record: JobRecord, original: Mapping[str, str] | None = None) -> MachineRequest:
    """As its user asks."""
    row, came = record.row, original if original is not None else original_of(record)
    return MachineRequest(
        came["partition"], gpu_kind(row), text_of(row, "features"), came["nodelist"], text_of(row, "excluded_nodes")
    )


def gpu_request(record: JobRecord, machine_gpus: int, original: Mapping[str, str] | None = None) -> GpuRequest:
    """As its user asks; `machine_gpus`: of a machine that it takes whole."""
    came = original if original is not None else original_of(record)
    nodes, most, tasks = (max(least, number_in(came, name) or 0) for name, least in _COUNTS)
    per_node, in_all, per_task = (gpus_in(came[name]) for name in ("pernode", "perjob", "pertask"))
    if record.whole_machines:
        nodes = max(nodes, -(-max(in_all, per_task * tasks) // machine_gpus))
        return GpuRequest(nodes * machine_gpus, machine_gpus, machine_gpus, nodes, nodes)
    if per_node:
        nodes = in_all // per_node if in_all and in_all % per_node == 0 else nodes
        return GpuRequest(in_all or per_node * nodes, per_node, per_node, nodes, nodes)
    gpus, group = (in_all, 1) if in_all else (per_task * tasks, max(1, per_task))
    on_each = _per_node(gpus, nodes, most, per_task * (number_in(came, "taskspernode") or 0))
    return GpuRequest(gpus, group if gpus % group == 0 else 1, on_each, nodes if nodes > 1 else 0, most)


_COUNTS: Final = (("nodes", 1), (MOST_NODES, 0), ("tasks", 1))


def _per_node(gpus: int, nodes: int, most: int, by_tasks: int) -> int:
    """GPUs on each node, where the job's numbers leave no choice or an even split is one."""
    if by_tasks and gpus % by_tasks == 0:
        return by_tasks
    return gpus // nodes if nodes == most and gpus % nodes == 0 else 0


def unmodelled_shape(record: JobRecord, machine_gpus: int) -> str:
    """The name of the row of LEFT_ALONE that the job's GPUs and nodes fit; empty: none."""
    original = original_of(record)
    gpus, group, per_node, least, most = gpu_request(record, machine_gpus, original)
    if original["nodelist"] and len(expand_list(original["nodelist"])) < least:
        return "nodelist"
    by_tasks = gpus_in(original["pertask"]) * (number_in(original, "taskspernode") or 0)
    if by_tasks and not per_node:  # Slurm gives the last node as many as the others
        return "uneven"
    shape = shape_of(gpus, group, per_node, least, most, machine_gpus)
    if shape is None:
        return "uneven"
    could_be_uneven = group <= machine_gpus and not per_node and gpus <= most * machine_gpus
    return "uneven" if could_be_uneven and shape.group > machine_gpus else ""


def gpus_in(text: str) -> int:
    """GPUs of `gres:gpu:4` or `gres/gpu:a100:4,gres/nic:1`."""
    return sum(item.number for item in gres_items(text) if item.name == "gpu")


def gpu_kind(row: dict[str, Any]) -> str:
    """The type of GPU that its user named; empty: any."""
    items = [item for field in GPU_FIELDS for item in gres_items(text_of(row, field))]
    return next((item.kind for item in items if item.name == "gpu" and item.kind), "")


def spec_of(record: JobRecord, facts: JobSpec, machine_gpus: int, defaults: JobDefaults = NO_DEFAULTS) -> JobSpec:
    """All that the job asks for and all that is stated of it."""
    row, original = record.row, original_of(record)
    request = gpu_request(record, machine_gpus, original)
    if facts.any_shape and not record.whole_machines:
        group = facts.group if facts.group > 1 else request.group
        request = GpuRequest(request.gpus, group if request.gpus % group == 0 else 1, 0, 0, 0)
    minutes = number(row.get("time_limit"))
    where = machine_request(record, original)
    spec = replace(
        facts, gpus=request.gpus, group=_group(request, facts, where, machine_gpus),
        gpus_per_node=request.per_node, nodes_min=request.nodes_min, nodes_max=request.nodes_max,
        name=text_of(row, "name"), command_line=command_line_of(text_of(row, "command")),
        user=text_of(row, "user_name"), account=text_of(row, "account"),
        qos=text_of(row, "qos"), limit_s=minutes * 60.0 if minutes else None,
        reservation=text_of(row, "resv_name"), licences=licences_in(text_of(row, "licenses")),
        exclusive=record.whole_machines, **where._asdict(),
    )  # fmt: skip
    return replace(spec, **_cpus_and_memory(record, original, request, defaults))


def _group(request: GpuRequest, facts: JobSpec, where: MachineRequest, machine_gpus: int) -> int:
    """GPUs that share a machine: as the job's shape has it, or as stated where that leaves it open."""
    if request.per_node or request.gpus % facts.group or facts.group <= request.group:
        return request.group
    named = len(expand_list(where.include)) if where.include else 0
    least, most = max(request.nodes_min, named), named or request.nodes_max
    fits = shape_of(request.gpus, facts.group, 0, least, most, machine_gpus) is not None
    return facts.group if fits else request.group


def _cpus_and_memory(
    record: JobRecord, original: Mapping[str, str], request: GpuRequest, defaults: JobDefaults
) -> dict[str, Any]:
    """By node where the number of nodes is fixed, or else by GPU."""
    row = record.row
    nodes = request.gpus // request.per_node if request.per_node else 0
    cpus, least = number_in(original, "cpus") or 1, number_in(original, "mincpus") or 1
    by_gpu = gpus_in(text_of(row, "cpus_per_tres"))
    if cpus <= max(1, number_in(original, "tasks") or 0, nodes):  # it states no CPUs
        by_gpu = by_gpu or defaults.cpus_per_gpu
    values = {"cpus_per_gpu": float(by_gpu)}
    if nodes and not by_gpu:
        on_each = max(math.ceil(cpus / nodes), least)
        values = {"cpus_per_node": float(-(-on_each // defaults.threads) * defaults.threads)}
    elif not by_gpu and 1 < cpus <= least:  # one task, wherever its GPUs are: Slurm gives it as many on each node
        values = {"cpus_per_node": float(-(-cpus // defaults.threads) * defaults.threads)}
    elif not by_gpu:
        values = {"cpus_per_gpu": max(cpus, request.gpus and 1) / max(1, request.gpus)}
    memory_by_gpu, by_cpu = gpus_in(text_of(row, "memory_per_tres")), number(row.get("memory_per_cpu"))
    by_node = number_in(original, "memory") or 0
    if not (by_node or by_cpu):
        memory_by_gpu = memory_by_gpu or defaults.memory_mb_per_gpu
    if memory_by_gpu:
        return values | {"memory_mb_per_gpu": float(memory_by_gpu)}
    if by_cpu:
        return values | {name.replace("cpus", "memory_mb"): by_cpu * count for name, count in values.items()}
    return values | {"memory_mb_per_node": float(by_node or needed_memory_mb(record))}


def needed_memory_mb(record: JobRecord) -> int:
    """MB a node that Slurm counts for a job that states none: the partition's default, or all of a node."""
    noted = number_in(record.mark, NEEDED_MEMORY)
    if noted is not None:
        return noted
    text = text_of(record.row, "tres_req_str")
    memory, nodes = _MEMORY.search(text), _NODES.search(text)
    if memory is None:
        return 0
    return int(float(memory.group(1)) * _UNITS_MB[memory.group(2)]) // max(1, int(nodes.group(1)) if nodes else 1)


def licences_in(text: str) -> str:
    """`matlab=2,ansys=1` of `matlab:2,ansys`."""
    pairs = (item.replace("=", ":").partition(":") for item in text.split(",") if item)
    return ",".join(f"{name}={count or 1}" for name, _, count in pairs)
