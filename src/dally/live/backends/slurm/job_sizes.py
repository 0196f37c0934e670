"""Elastic jobs of Slurm: the sizes that a job may run on, and what to tell Slurm at each of them.

A job states sizes in GPUs (`#DALLY gpus=8:32:8`, or "gpus" in the comment), or a range of nodes with the same GPUs
on each (`--nodes=2-8 --gpus-per-node=8`). Tasks and CPUs follow the nodes where GPUs are counted by node, and the
GPUs where there is one task per GPU. Slurm 22.05 must be given the CPUs, too: a requeued job keeps those of its
last run, and then finds no node for fewer tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dally.cluster.feasibility.shape import is_in_shape
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.backends.base import ObservedJob, Placement
from dally.live.backends.slurm.job_mark import number_in, with_message
from dally.live.backends.slurm.job_record import JobRecord, text_of
from dally.live.backends.slurm.job_request import GpuRequest, gpu_request, gpus_in
from dally.live.backends.slurm.job_shape import Shape, gpu_of, note_of, shape_of, update_arguments
from dally.live.backends.slurm.original import MOST_NODES, original_of
from dally.sizes import read_sizes


class StatedSizes(NamedTuple):
    """Sizes of a job as a JobSpec has them, on how many nodes, and why what its user stated has no effect."""

    sizes: str = ""
    nodes_min: int = 0
    nodes_max: int = 0
    problem: str = ""


def sizes_of(record: JobRecord, spec: JobSpec, machine_gpus: int) -> StatedSizes:
    """The sizes of a job: those that its user states, or those of its range of nodes."""
    stated, original = spec.sizes, original_of(record)
    request = gpu_request(record, machine_gpus, original)
    least, most = max(1, number_in(original, "nodes") or 0), number_in(original, MOST_NODES) or 0
    if not (stated or _any_in_range(original, least, most)):
        return StatedSizes()
    reason = "it permits any shape" if spec.any_shape else _unmodelled(record, original, request)
    if reason:
        return StatedSizes(problem=f"gpus={stated}: {reason}" if stated else "")
    each = request.per_node
    try:
        text = stated or f"{least * each}:{most * each}:{each}"
        sizes = read_sizes(text, request.gpus, request.group)
    except InputError as error:
        text = str(error).replace("sizes: ", "gpus=", 1)
        return StatedSizes(problem=text.replace("which hold one replica", "those of one node or task"))
    uneven = [
        size for size in sizes if not is_in_shape(size, request.group, each, 0, 0 if each else request.nodes_max)
    ]
    if uneven:
        where = f"comes with {each} GPUs on each node" if each else f"takes at most {request.nodes_max} nodes"
        return StatedSizes(problem=f"gpus={stated}: {uneven[0]} GPUs do not go with a job that {where}")
    text = ",".join(map(str, sizes))
    if not sizes or not each:
        return StatedSizes(text, request.nodes_min, request.nodes_max)
    return StatedSizes(text, sizes[0] // each, sizes[-1] // each)


def _any_in_range(original: Mapping[str, str], least: int, most: int) -> bool:
    """Whether Slurm itself would start the job on any number of its nodes, with as many GPUs and tasks on each."""
    by_node = bool(gpus_in(original["pernode"])) and not gpus_in(original["perjob"])
    tasks = max(1, number_in(original, "tasks") or 0)
    return by_node and least < most and (tasks == least or bool(number_in(original, "taskspernode")))


def _unmodelled(record: JobRecord, original: Mapping[str, str], request: GpuRequest) -> str:
    """Why the job's tasks and nodes do not say what it would be at another size."""
    tasks = max(1, number_in(original, "tasks") or 0)
    if record.whole_machines:
        return "it takes whole machines (--exclusive)"
    if original["nodelist"]:
        return "it names its nodes (--nodelist)"
    if request.per_node:
        return "" if tasks % (request.gpus // request.per_node) == 0 else "its tasks are not as many on each node"
    if request.nodes_min > 1:
        return "state the GPUs of each node (--gpus-per-node) beside the nodes"
    return "" if tasks == 1 or tasks % request.gpus == 0 else "its tasks are not as many for each GPU"


def start_arguments(record: JobRecord, job: ObservedJob, placement: Placement) -> list[str]:
    """The settings for `scontrol update` of any job that is to start there, with the note of what it was before."""
    shape, note = shape_of(record, job.spec.gpus), note_of(record, job.spec.gpus, placement)
    if not job.resizable:
        parts = update_arguments(record, shape, placement, job.spec.any_shape)
        return [*parts, f"AdminComment={note}"]
    gpus = sum(placement.values())
    message = f"starts on {gpus} GPUs; it asks for {job.spec.gpus} and may have {job.spec.sizes}"
    return [*size_arguments(record, shape, placement), f"AdminComment={with_message(note, message)}"]


def size_arguments(record: JobRecord, shape: Shape, placement: Placement) -> list[str]:
    """The settings for `scontrol update` of an elastic job, at the size of the placement."""
    original = original_of(record)
    count, total = len(placement), sum(placement.values())
    request = gpu_request(record, 1, original)
    if request.per_node:
        nodes = request.gpus // request.per_node
        tasks, cpus = shape.tasks // nodes * count, shape.cpus // nodes * count
    elif shape.tasks % shape.gpus == 0:
        tasks, cpus = shape.tasks // shape.gpus * total, shape.cpus // shape.gpus * total
    else:  # one task on each node
        tasks, cpus = count, shape.cpus * count
    parts = [f"NumNodes={count}-{count}", f"NumTasks={tasks}", f"NumCPUs={max(cpus, tasks)}"]
    if not gpus_in(original["pernode"]):
        parts += _gpus(record, original, placement, total)
    elif text_of(record.row, "tres_per_job"):
        parts.append("TresPerJob=")
    return [*parts, f"ReqNodeList={','.join(placement)}", "StartTime=now"]


def _gpus(record: JobRecord, original: Mapping[str, str], placement: Placement, total: int) -> Iterator[str]:
    """By node where every one of several has as many; else in all, which Slurm deals out machine by machine."""
    per_task, each = gpus_in(original["pertask"]), next(iter(placement.values()))
    even = len(placement) > 1 and len(set(placement.values())) == 1
    if per_task and not original["perjob"]:
        if len(set(placement.values())) == 1:
            yield f"TasksPerNode={each // per_task}"
        return
    if even:
        yield f"TresPerNode=gres:{gpu_of(record)}:{each}"
    elif text_of(record.row, "tres_per_node"):
        yield "TresPerNode="
    yield "TresPerJob=" if even else f"TresPerJob=gres:{gpu_of(record)}:{total}"
