"""The machines that a job may use: by features, names and partitions, or as its backend worked it out."""

from __future__ import annotations

from dally.cluster.feasibility.statement import feature_test
from dally.cluster.formats.hostlist import expand_list
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.model import Job
from dally.pickles import picklable


class Permission:
    """Machines that jobs may use; of `all_of` named ones every one."""

    __slots__ = ("all_of", "machines", "number", "problem")

    def __init__(self, machines: frozenset[int], all_of: int = 0, problem: str = "") -> None:
        self.machines: frozenset[int] = machines
        self.all_of: int = all_of
        self.problem: str = problem  # why there is none
        self.number: int = -1


picklable(Permission, frozenset())


def permission_of(topology: Topology, job: Job) -> Permission:
    """Where the job may be, reservations aside."""
    machines = set(range(topology.machine_count()))
    spec = job.spec
    problem = ""
    if topology.partitions and spec.partition:
        inside, problem = _in_partitions(topology, job)
        machines &= inside
    if spec.features:
        test = feature_test(spec.features)
        machines = {number for number in machines if test(topology.capacities[number].features)}
        problem = problem or ("" if machines else f"no machine has the features {spec.features}")
    included = 0
    if spec.include:
        named = numbers_of(topology, "include", spec.include)
        problem = problem or ("" if named <= machines else f"must use {spec.include}, where it may not run")
        machines, included = named, len(named)
    if spec.exclude:
        excluded = numbers_of(topology, "exclude", spec.exclude, known=True)
        problem = problem or ("" if not included or not machines & excluded else "must and must not use a machine")
        machines -= excluded
    if job.allowed is not None:
        machines &= job.allowed
    problem = problem or ("" if machines else "no machine that it may use")
    return Permission(frozenset(machines), included, problem)


def numbers_of(topology: Topology, field: str, text: str, known: bool = False) -> set[int]:
    """The machines of a host list; those that the cluster does not have are left out if `known`."""
    try:
        names = expand_list(text)
    except ValueError as error:
        raise InputError(f"{field}: {text!r}: {error}") from None
    numbers = topology.machine_numbers()
    missing = [name for name in names if name not in numbers]
    if missing and not known:
        raise InputError(f"{field}: {text!r}: there is no machine {missing[0]}")
    return {numbers[name] for name in names if name in numbers}


def _in_partitions(topology: Topology, job: Job) -> tuple[set[int], str]:
    """The machines of all partitions that the job names and that take it; and why none does, if that is so.

    A name that the cluster does not know is no constraint.
    """
    names = [name.strip() for name in job.spec.partition.split(",")]
    known = [partition for partition in topology.partitions if partition.name in names]
    if not known:
        return set(range(topology.machine_count())), ""
    reasons = {partition.name: partition.refuses(job) for partition in known}
    inside: set[int] = set()
    for partition in known:
        if not reasons[partition.name]:
            inside |= partition.machines
    problem = "; ".join(f"the partition {name} {why}" for name, why in reasons.items() if why)
    return inside, "" if inside else problem
