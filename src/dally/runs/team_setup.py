"""Teams and types of GPU in a run: who shares the machines, and how fast each type is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dally.cluster.capacity import Cluster
from dally.cluster.feasibility.signatures import Signatures
from dally.cluster.links import Network
from dally.cluster.partitions import Partition
from dally.cluster.topology import Topology
from dally.engine.signing import why_unschedulable
from dally.engine.simulate import any_constrained
from dally.errors import InputError
from dally.model import Job
from dally.perf.base import SpeedModel
from dally.perf.gpu_types import MIX, OR, TypedSpeed, TypeSpeeds, accepted, read_speeds
from dally.perf.profiles import load_profiles
from dally.policies.base import Policy
from dally.policies.choices.tuning_policy import NOT_BY_ITSELF, TuningPolicy
from dally.policies.gate.pooled import make_gate
from dally.policies.gate.pools import types_of
from dally.policies.gate.tenants import HOUR_S
from dally.policies.registry import Built, build_over_types
from dally.quotas.tree import ANY_TYPE, QueueNode, QueueTree, Quota
from dally.traces import Trace
from dally.traces.reading import ANY_GPU


def policy_for(built: Built, queues: str, jobs: list[Job], topology: Topology, network: Network | None) -> Policy:
    """The policy itself, behind a gate where tenants share it, and one for every pool where there are several.

    Without teams, a policy that is made for several types has all of them.
    """
    alike = len(types_of(topology)) == 1
    if not queues and alike:
        return built()
    if isinstance(built(), TuningPolicy):
        raise InputError(f"policy {built.name}: {NOT_BY_ITSELF}")
    tree = _tree(queues, []) if queues else QueueTree([])
    mixed = set() if alike else {name for job in jobs for name in job.gpu_type.split(OR) if MIX in name}
    if not queues:
        whole = build_over_types(built.name, built.settings, topology, network, sorted(mixed))
        if whole is not None:
            return whole
    return make_gate(tree, built, topology, network, sorted(mixed))


def _tree(queues: str, jobs: list[Job]) -> QueueTree:
    from dally.quotas.known_formats import read_quotas  # most runs have no queues, and every command starts here

    tree = read_quotas(Path(queues))
    for job in jobs if tree.makes is not None else ():
        tree.leaf_for(job)
    return tree


def idle_quotas(queues: str, jobs: list[Job], topology: Topology) -> dict[str, int]:
    """What to tell of quotas by types of GPU that no machine has: A100 where the cluster says a100."""
    types = types_of(topology)
    nodes = _tree(queues, jobs).nodes.values() if queues else ()
    idle = sorted({kind for node in nodes for kind in node.quotas} - {ANY_TYPE, *types})
    if not idle:
        return {}
    known = ", ".join(filter(None, types)) or "GPUs of no stated type"
    what = f"are in queues with quotas that do nothing: of {', '.join(idle)}, where the cluster has {known}"
    return {what: len(jobs)}


def on_types(
    speed: SpeedModel, topology: Topology, stated: str, profiles: str, gpu: str, jobs: list[Job]
) -> tuple[SpeedModel, dict[str, int]]:
    """The speeds on GPUs of several types, if there are several, and what had to be assumed.

    Jobs that accept several have the durations that the trace states on type `gpu` if the cluster has that one,
    else on the fastest they accept. From here on a duration is that on the fastest.
    """
    types = types_of(topology)
    if len(types) == 1:
        return speed, {}
    speed_of = read_speeds(stated)
    speeds = TypeSpeeds(types, speed_of, load_profiles(Path(profiles)) if profiles else None)
    usual = next((name for name in types if gpu in name.lower()), "")
    for job in jobs:
        names = accepted(job, types)
        if len(names) > 1 and usual in names:
            job.duration_s *= speeds.factor(job, usual)
    unknown = ", ".join(name or "type not stated" for name in speeds.unknown())
    notes = {}
    strange = ", ".join(sorted({name.lower() for name in speed_of} - {name.lower() for name in types}))
    if strange:
        notes[f"ran on a cluster without GPUs that --gpu-speeds names: {strange}"] = len(jobs)
    if unknown:
        notes[f"may run on GPUs whose speed is not known, taken for an A100's: {unknown}"] = len(jobs)
    return TypedSpeed(speed, topology.gpu_types, speeds), notes


def possible(
    trace: Trace, topology: Topology, skip: bool, name: str, queues: str, restart_s: Callable[[int], float]
) -> Trace:
    """The trace with the jobs that some place, partition and queue would do for; others are errors or skipped.

    Where all GPUs are alike and everybody's that was seen to as it was read. `restart_s`: of a gang of
    so many GPUs, once it was stopped.
    """
    types = types_of(topology)
    constrained = any_constrained(trace.jobs)
    if len(types) == 1 and not topology.partitions and not queues and not constrained:
        return trace
    alone = Unplaceable(topology) if constrained else None
    tree = _tree(queues, trace.jobs) if queues else QueueTree([])
    remaining: list[int] = []
    problems: dict[tuple[str, str, str, int], str] = {}  # many jobs ask for the same,
    places: dict[tuple[str, str, int], str] = {}  # wherever they are queued,
    plain = alone is None and not topology.partitions
    fine: set[int] = set()  # and share a spec
    for place, job in enumerate(trace.jobs):
        if id(job.spec) in fine:
            remaining.append(place)
            continue
        queue, gpus = tree.queue_of(job), int(job.gpus)
        wish = (queue, job.partition, job.gpu_type, gpus)
        if wish not in problems:
            if wish[1:] not in places:
                places[wish[1:]] = _impossible(job, types, topology)
            problem = places[wish[1:]] or _over_limit(job, types, queue, tree)
            problems[wish] = problem or _over_budget(gpus, restart_s(gpus), queue, tree)
        problem = (_refused(job, topology) if topology.partitions else "") or problems[wish]
        if alone is not None and not problem:
            problem = alone.why(job, name)
        if not problem:
            remaining.append(place)
            if plain and gpus == job.spec.gpus:
                fine.add(id(job.spec))
        elif not skip:
            raise InputError(f"{name}: job {job.job_id!r}: {problem}; --skip-impossible leaves such jobs out")
    jobs = [trace.jobs[place] for place in remaining]
    for number, job in enumerate(jobs):
        job.index = number
    stated = [trace.stated[place] for place in remaining] if trace.stated else []
    notes = {what: count for what, count in trace.notes.items() if len(types) == 1 or ANY_GPU not in what}
    return trace._replace(
        jobs=jobs, stated=stated, skipped=trace.skipped + len(trace.jobs) - len(jobs), notes=notes
    )


class Unplaceable:
    """Tells of jobs that no machines could ever hold, even if they were all empty."""

    def __init__(self, topology: Topology) -> None:
        self._cluster = Cluster(topology)
        self._signatures = Signatures(topology)
        self._cluster.constrain(self._signatures)

    def why(self, job: Job, name: str) -> str:
        """Why that is so; empty: it is not. An InputError if what it states cannot be read."""
        try:
            self._signatures.check(job)
        except InputError as error:
            raise InputError(f"{name}: job {job.job_id!r}: {error}") from None
        self._signatures.sign(job)
        problem = why_unschedulable(job, self._cluster)
        job.signature = 0
        return problem


def _partition(job: Job, topology: Topology) -> Partition | None:
    """The partition that the job names, if there is one of that name."""
    return next((one for one in topology.partitions if one.name == job.partition), None)


def _refused(job: Job, topology: Topology) -> str:
    """Why its partition does not take the job; empty if it does."""
    partition = _partition(job, topology)
    refused = partition.refuses(job) if partition is not None else ""
    return f"partition {job.partition!r} {refused}" if refused else ""


def _impossible(job: Job, types: list[str], topology: Topology) -> str:
    """Why no place would ever be large enough for the job; empty if one would."""
    partition = _partition(job, topology)
    where = f" in partition {job.partition!r}" if partition is not None else ""
    if len(types) == 1:
        most = _size("", topology, partition)
        return "" if job.gpus <= most else f"gpus: asks for {int(job.gpus)}{where}, which has {most}"
    names = accepted(job, types)
    sizes = [sum(_size(part, topology, partition) for part in kind.split(MIX)) for kind in names]
    if job.gpus <= max(sizes, default=0):
        return ""
    request = f"{int(job.gpus)} GPUs of type {job.gpu_type or 'any, but of one'}{where}"
    has = ", ".join(f"{_size(kind, topology, partition)} {kind}" for kind in types)
    return f"gpu_type: asks for {request} and there are {has}"


def _over_limit(job: Job, types: list[str], queue: str, tree: QueueTree) -> str:
    """Which queue may never hold what the job asks for; empty if each may."""
    kinds = accepted(job, types) if len(types) > 1 else [ANY_TYPE]
    for node in tree.above(queue):
        most = max((sum(_limit(node, part) for part in kind.split(MIX)) for kind in kinds), default=0.0)
        most = min(most, _limit(node, ANY_TYPE))
        if float(job.gpus) > most:
            return f"gpus: asks for {int(job.gpus)}, and queue {node.path!r} may hold {most:g}"
    return ""


def _over_budget(gpus: int, restart_s: float, queue: str, tree: QueueTree) -> str:
    """Whose budget would go into restarts of such a job, window after window; empty if nobody's."""
    cost_h = float(gpus) * restart_s / HOUR_S
    for node in tree.above(queue):
        if node.budget is not None and cost_h >= node.budget.gpu_hours:
            costs = f"a restart of its {gpus} GPUs costs {cost_h:.3g} GPU-hours"
            return f"{costs}, and the budget of queue {node.path!r} has {node.budget.gpu_hours:g} per window"
    return ""


def _limit(node: QueueNode, kind: str) -> float:
    return node.quotas.get(kind, Quota()).limit


def _size(kind: str, topology: Topology, partition: Partition | None) -> int:
    """GPUs of a type, or of all where none is named."""
    return sum(
        int(gpus)
        for number, (gpus, name) in enumerate(zip(topology.gpus[0], topology.gpu_types, strict=True))
        if kind in ("", name) and (partition is None or number in partition.machines)
    )
