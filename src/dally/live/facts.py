"""From what a backend knows of a job to the engine's job, and from a placement by name to an allocation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.backends.base import ObservedJob, Placement
from dally.model import NEVER, Allocation, Job, make_allocation
from dally.perf.profiles import find_model


def job_of(result: ObservedJob, number: int, submit_s: float, usual_model: str) -> Job:
    """The engine's job; `usual_model` stands in where no model is stated, or one that nobody knows."""
    spec = result.spec
    duration_s = NEVER if spec.duration_s is None else spec.duration_s
    stated = spec if result.managed and result.resizable else one_size(spec)
    return Job(number, result.job_id, submit_s, spec.gpus, duration_s, known_model(spec.model, usual_model), stated)


def known_model(name: str, usual: str) -> str:
    """The model's name if there is a profile of it."""
    try:
        return find_model(name).name if name else usual
    except InputError:
        return usual


def allocation_of(topology: Topology, numbers: Mapping[str, int], placement: Placement) -> Allocation | None:
    """The GPUs of a placement; None if a machine of it is not in the topology."""
    if not placement or any(name not in numbers for name in placement):
        return None
    parts = sorted((numbers[name], gpus) for name, gpus in placement.items())
    allocation = make_allocation(0, parts)
    allocation.tier = topology.tier_of(allocation)
    return allocation


def placement_of(topology: Topology, allocation: Allocation) -> Placement:
    """The placement by machine name, machine by machine and rack by rack, as ranks follow the fabric."""
    return {topology.names[0][machine]: gpus for machine, gpus in sorted(allocation.parts())}


def one_size(spec: JobSpec) -> JobSpec:
    """The same at the size that it asks for."""
    return replace(spec, sizes="", resize_s=None) if spec.sizes else spec
