"""In which of several partitions a job is to run (`sbatch -p a,b`): Slurm runs it in one of them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dally.cluster.feasibility.statement import feature_test
from dally.cluster.formats.hostlist import expand_list
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import ObservedJob, ObservedMachine, ObservedReservation
from dally.live.backends.slurm.job_request import NO_DEFAULTS, JobDefaults, MachineRequest
from dally.live.backends.slurm.nodes_json import closed_nodes, machines_by_partition, owners_of
from dally.live.backends.slurm.shown_limits import lines_of

ANY_USER: Final = ("", "ALL")


@dataclass(frozen=True)
class PartitionRules:
    """Which jobs a partition takes, as far as that decides between partitions. The rest is Slurm's to enforce."""

    up: bool = True
    limit_s: float = math.inf
    nodes_min: int = 0
    nodes_max: float = math.inf
    accounts: frozenset[str] = frozenset()  # that may, here and below; empty: all
    no_accounts: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    no_qos: frozenset[str] = frozenset()
    whole_machines: bool = False  # OverSubscribe=EXCLUSIVE: each job has its nodes to itself
    one_user: bool = False  # ExclusiveUser=YES: a node's jobs are all of one user
    cpus_per_machine: float = math.inf  # of all its jobs together
    defaults: JobDefaults = NO_DEFAULTS

    def take(self, spec: JobSpec) -> bool:
        """Whether such a job may run there."""
        nodes = spec.nodes_min or (spec.gpus // spec.gpus_per_node if spec.gpus_per_node else 1)
        fits = self.nodes_min <= nodes <= self.nodes_max and (spec.limit_s or 0.0) <= self.limit_s
        named = (spec.account, self.accounts, self.no_accounts), (spec.qos, self.qos, self.no_qos)
        return self.up and fits and all((not yes or one in yes) and one not in no for one, yes, no in named)


def rules_of(text: str) -> dict[str, PartitionRules]:
    """By partition, of `scontrol -o show partition`."""
    return {row["PartitionName"]: _rules(row) for row in lines_of(text) if row.get("PartitionName")}


def _rules(row: Mapping[str, str]) -> PartitionRules:
    fields = ("AllowAccounts", "DenyAccounts", "AllowQos", "DenyQos")
    accounts, no_accounts, qos, no_qos = (_names(row.get(name, "")) for name in fields)
    return PartitionRules(
        row.get("State", "UP") == "UP", seconds_of(row.get("MaxTime", "")), int(_digits(row.get("MinNodes", ""))),
        _or_no_limit(row.get("MaxNodes", "")), accounts, no_accounts, qos, no_qos,
        row.get("OverSubscribe") == "EXCLUSIVE", row.get("ExclusiveUser") == "YES",
        _or_no_limit(row.get("MaxCPUsPerNode", "")), job_defaults(row.get("JobDefaults", "")),
    )  # fmt: skip


def job_defaults(text: str) -> JobDefaults:
    """Of `DefCpuPerGPU=8,DefMemPerGPU=4096`, as partitions and slurm.conf show it."""
    values = dict(part.partition("=")[::2] for part in text.split(","))
    return JobDefaults(int(_digits(values.get("DefCpuPerGPU", ""))), int(_digits(values.get("DefMemPerGPU", ""))))


def _or_no_limit(text: str) -> float:
    return float(text) if text.isdigit() else math.inf


def _names(text: str) -> frozenset[str]:
    return frozenset() if text in ANY_USER else frozenset(text.split(","))


def _digits(text: str) -> str:
    return text if text.isdigit() else "0"


def seconds_of(text: str) -> float:
    """Of a limit as Slurm prints it, `1-12:00:00`; infinity for UNLIMITED and whatever else is no time."""
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in (days or "0", *parts)) or len(parts) != 3:
        return math.inf
    hours, minutes, seconds = (int(part) for part in parts)
    return float(int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds)


class PartitionChoice:
    """What is known of partitions and their machines, as of the latest snapshot."""

    def __init__(self) -> None:
        self.members: Mapping[str, frozenset[str]] = {}  # machines by partition, as far as known
        self.rules: Mapping[str, PartitionRules] = {}
        self.machines: Mapping[str, ObservedMachine] = {}  # with what all jobs have of their CPUs and memory
        self.free_gpus: Mapping[str, int] = {}  # by machine
        self.closed: frozenset[str] = frozenset()  # machines that are down, or that somebody has closed
        self.owners: Mapping[str, str] = {}  # users by machine that they have to themselves
        self.reservations: Sequence[ObservedReservation] = ()
        self.defaults = NO_DEFAULTS  # of slurm.conf, for partitions without
        self._shown = ""
        self._largest: dict[MachineRequest, int] = {}

    def see_nodes(self, rows: Sequence[dict[str, Any]], names: frozenset[str]) -> None:
        """The nodes of `sinfo --json`; `names`: of those that are machines."""
        self.members = machines_by_partition(rows, names)
        self.closed, self.owners = closed_nodes(rows), owners_of(rows)

    def update(
        self, shown: str, machines: Iterable[ObservedMachine], reservations: Sequence[ObservedReservation]
    ) -> None:
        """As Slurm shows them now; `shown`: by `scontrol -o show partition`."""
        if shown != self._shown:
            self._shown, self.rules = shown, rules_of(shown)
        self.machines = {machine.name: machine for machine in machines}
        self.reservations = reservations
        self._largest.clear()

    def largest(self, request: MachineRequest) -> int:
        """GPUs of the largest machine that a job may use; 0: none is known."""
        if request not in self._largest:
            members = [self.members[name] for name in request.partition.split(",") if name in self.members]
            names = frozenset().union(*members) if members else self.machines
            named = set(expand_list(request.include)) if request.include else None
            spec = JobSpec(1, **request._asdict())
            gpus = [
                self.machines[name].gpus for name in self._permitted(names, spec) if named is None or name in named
            ]
            self._largest[request] = max(gpus, default=0)
        return self._largest[request]

    def rule_of(self, partition: str) -> PartitionRules:
        """Of the first of these partitions that is known."""
        return next((self.rules[name] for name in partition.split(",") if name in self.rules), PartitionRules())

    def defaults_of(self, partition: str) -> JobDefaults:
        """What Slurm gives a job there that states no CPUs or memory."""
        own = self.rule_of(partition).defaults
        return JobDefaults(
            own.cpus_per_gpu or self.defaults.cpus_per_gpu,
            own.memory_mb_per_gpu or self.defaults.memory_mb_per_gpu, self.defaults.threads,
        )  # fmt: skip

    def with_cpu_limits(
        self, machines: Iterable[ObservedMachine], jobs: Iterable[ObservedJob]
    ) -> list[ObservedMachine]:
        """The machines with no more CPUs than MaxCPUsPerNode leaves these jobs' partitions, beside other jobs."""
        live = (job for job in jobs if job.managed and job.state not in base.ENDED)
        used = {name for job in live for name in job.spec.partition.split(",")}
        limits = {name: self.rules[name].cpus_per_machine for name in used if name in self.rules}
        if min(limits.values(), default=math.inf) == math.inf:
            return list(machines)
        return [self._with_cpu_limit(machine, limits) for machine in machines]

    def _with_cpu_limit(self, machine: ObservedMachine, limits: Mapping[str, float]) -> ObservedMachine:
        """By the partition with the highest limit of those that have the machine."""
        own = (limit for name, limit in limits.items() if machine.name in self.members.get(name, ()))
        most = max(own, default=math.inf) + machine.cpus_taken
        return machine if machine.cpus is None or machine.cpus <= most else replace(machine, cpus=most)

    def allowed(self, spec: JobSpec) -> frozenset[str] | None:
        """The machines on which the job may run, without those that another user has alone; None: all."""
        result = self._by_partition(spec)
        others = {name for name, owner in self.owners.items() if owner != spec.user}
        return result if not others else (self._every() if result is None else result) - others

    def _every(self) -> frozenset[str]:
        return frozenset().union(*self.members.values())

    def _by_partition(self, spec: JobSpec) -> frozenset[str] | None:
        sets = [self.members[name] for name in self._taking(spec)]
        if not sets:
            return None
        result: frozenset[str] = frozenset().union(*sets)
        if result not in sets and not _is_on_one_machine(spec):
            result = self._one_of(sets, spec)
        if spec.exclusive:  # it was counted as all GPUs of the largest
            result = frozenset(name for name in result if self._has(name, spec.gpus_per_node))
        return None if result == self._every() else result

    def _has(self, name: str, gpus: int) -> bool:
        return name in self.machines and self.machines[name].gpus == gpus

    def setting(self, spec: JobSpec, placement: Iterable[str]) -> tuple[str, ...]:
        """For `scontrol update`: the one of several that is to have the job, as Slurm 22.05 tries the first alone.

        None: it names only one.
        """
        machines = set(placement)
        able = (name for name in self._taking(spec) if machines <= self.members[name])
        name = next(able, "") if "," in spec.partition else ""
        return (f"Partition={name}",) if name else ()

    def _taking(self, spec: JobSpec) -> list[str]:
        """The partitions that it names and that take it, as far as known; all that it names if none does."""
        named = [name for name in spec.partition.split(",") if name in self.members]
        return [name for name in named if self.rules.get(name, PartitionRules()).take(spec)] or named

    def _one_of(self, sets: Sequence[frozenset[str]], spec: JobSpec) -> frozenset[str]:
        """The first that has room now, or the first that could have, or the first."""
        able = [one for one in sets if _hold(spec, self._gpus(one, spec, now=False))]
        with_room = (one for one in able if _hold(spec, self._gpus(one, spec, now=True)))
        return next(with_room, (able or sets)[0])

    def _gpus(self, names: Iterable[str], spec: JobSpec, now: bool) -> dict[str, int]:
        """GPUs that the job could have on each of these machines; not `now`: if they were empty."""
        reserved = self._reserved(spec) if now else set()
        permitted = (name for name in self._permitted(names, spec) if name not in reserved)
        return {name: self._on(self.machines[name], spec, now) for name in permitted}

    def _permitted(self, names: Iterable[str], spec: JobSpec) -> Iterator[str]:
        """Those of these machines that it does not exclude, with its features and type."""
        excluded = set(expand_list(spec.exclude)) if spec.exclude else set()
        try:
            test = feature_test(spec.features) if spec.features else None
        except InputError:  # Slurm's to refuse
            test = None
        for name in names:
            machine = self.machines.get(name)
            if machine is None or name in excluded or spec.gpu_type not in ("", machine.gpu_type):
                continue
            if test is None or test(machine.features):
                yield name

    def _on(self, machine: ObservedMachine, spec: JobSpec, now: bool) -> int:
        """By its GPUs, CPUs and memory."""
        gpus = machine.gpus
        cpus, memory_mb = machine.cpus, machine.memory_mb
        if now:
            gpus = self.free_gpus.get(machine.name, 0) if machine.state == base.UP else 0
            cpus = None if cpus is None else cpus - machine.cpus_taken
            memory_mb = None if memory_mb is None else memory_mb - machine.memory_mb_taken
        for has, once, each in (
            (cpus, spec.cpus_per_node, spec.cpus_per_gpu),
            (memory_mb, spec.memory_mb_per_node, spec.memory_mb_per_gpu),
        ):
            if has is not None:
                left = has - once
                gpus = 0 if left < 0.0 else min(gpus, int(left / each + 1e-6)) if each else gpus
        return gpus

    def _reserved(self, spec: JobSpec) -> set[str]:
        """Machines that a reservation keeps from the job if it starts now."""
        now_s = time.time()
        ends_s = now_s + (math.inf if spec.limit_s is None else spec.limit_s)
        others = (one for one in self.reservations if one.name != spec.reservation)
        return {name for one in others if one.start_s < ends_s and one.end_s > now_s for name in one.machines}


def _is_on_one_machine(spec: JobSpec) -> bool:
    return spec.gpus in (1, spec.gpus_per_node, spec.group) or spec.nodes_max == 1


def _hold(spec: JobSpec, gpus: Mapping[str, int]) -> bool:
    """Whether machines with so many GPUs hold the job."""
    if spec.include and not set(expand_list(spec.include)) <= gpus.keys():
        return False
    if spec.gpus_per_node:
        return sum(count >= spec.gpus_per_node for count in gpus.values()) * spec.gpus_per_node >= spec.gpus
    return sum(count - count % spec.group for count in gpus.values()) >= spec.gpus
