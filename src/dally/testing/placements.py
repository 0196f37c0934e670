"""Whether jobs ran where they may, with all that they need: worked out from specs and rows, machine by machine."""

from __future__ import annotations

from collections.abc import Iterable

from dally.cluster.formats.hostlist import expand_list
from dally.cluster.topology import Capacity
from dally.job_spec import JobSpec

CLOSE = 1e-3  # amounts that differ by less are equal
Parts = list[tuple[int, int]]  # machines and GPUs


def misplaced(spec: JobSpec, parts: Parts, names: list[str], capacities: list[Capacity]) -> str:
    """What of the job's own statement its place breaks; empty: nothing."""
    machines = [names[machine] for machine, _ in parts]
    counts = [gpus for _, gpus in parts]
    if spec.gpus_per_node and any(gpus != spec.gpus_per_node for gpus in counts):
        return "gpus_per_node"
    if len(machines) < spec.nodes_min or (spec.nodes_max and len(machines) > spec.nodes_max):
        return "nodes"
    if spec.exclude and set(machines) & set(expand_list(spec.exclude)):
        return "exclude"
    if spec.include and not set(expand_list(spec.include)) <= set(machines):
        return "include"
    for machine, _ in parts:
        if spec.features and not _has(spec.features, capacities[machine].features):
            return "features"
    return ""


def _has(expression: str, features: Iterable[str]) -> bool:
    """By Python's own reading: the expressions of the tests have no operators whose order could matter."""
    known = set(features)
    text = "".join(" and " if char == "&" else " or " if char == "|" else char for char in expression)
    terms = [[name.strip() in known for name in part.split(" and ")] for part in text.split(" or ")]
    return any(all(term) for term in terms)


def overbooked(running: list[tuple[JobSpec, Parts]], names: list[str], capacities: list[Capacity]) -> str:
    """A machine of which more is taken than it has, or which a job does not have to itself; empty: none."""
    for machine, capacity in enumerate(capacities):
        here = [(spec, gpus) for spec, parts in running for number, gpus in parts if number == machine]
        if len(here) > 1 and any(spec.exclusive for spec, _ in here):
            return f"{names[machine]} is shared with an exclusive job"
        for name, have in (("cpus", capacity.cpus), ("memory_mb", capacity.memory_mb)):
            if have is not None:
                taken = sum(getattr(s, f"{name}_per_gpu") * g + getattr(s, f"{name}_per_node") for s, g in here)
                if taken > have + CLOSE:
                    return f"{names[machine]}: {taken:g} {name} of {have:g}"
        nics = capacity.resources
        if nics is not None:
            taken = sum(float(spec.resources_per_node.partition("=")[2] or 0) for spec, _ in here)
            if taken > nics.get("nic", 0.0) + CLOSE:
                return f"{names[machine]}: {taken:g} nic"
    return ""
