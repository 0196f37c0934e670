"""A gang: its pods as one job of the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Final, NamedTuple

from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import ObservedJob, Placement
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.neighbours import ALL_NODES, GangRoom
from dally.live.backends.kubernetes.node_record import types_in
from dally.live.backends.kubernetes.node_usage import with_needs
from dally.live.backends.kubernetes.owners import POD_GROUP_APIS, Controller
from dally.live.backends.kubernetes.pod_needs import MOST_GPUS, Needs
from dally.live.backends.kubernetes.pod_record import GangKey, PodRecord
from dally.live.backends.kubernetes.quantity import whole_number
from dally.live.backends.kubernetes.tenancy import UNKNOWN, PodOwner
from dally.live.backends.stated_facts import read_facts

LONGEST_CACHED: Final = 500  # characters of annotations; a user may write a quarter of a megabyte


class GangSizes(NamedTuple):
    """What an elastic gang asks for, the sizes that it may run on, and why stated ones have no effect."""

    requested: int = 0
    sizes: tuple[int, ...] = ()
    problem: str = ""
    starts_on: Placement | None = None  # where it goes once its Job has made its pods


RIGID: Final = GangSizes()


@dataclass
class PodGang:
    """Pods that start together, sorted by rank, each in one list."""

    key: GangKey
    size: int | None  # pods with GPUs; None: nobody says
    trouble: str = ""  # why not
    controller: Controller | None = None
    waiting: list[PodRecord] = field(default_factory=list)
    bound: list[PodRecord] = field(default_factory=list)
    stopping: list[PodRecord] = field(default_factory=list)
    ended: list[PodRecord] = field(default_factory=list)
    others: list[PodRecord] = field(default_factory=list)  # without GPUs: they go where the gang is
    plan: Placement = field(default_factory=dict)  # as written on its bound pods
    bare: bool = False  # nobody makes all of its pods anew
    sound: bool = False  # repair has found nothing to do

    @property
    def done(self) -> int:
        """Pods that have come to a good end."""
        return sum(pod.phase == "Succeeded" for pod in self.ended) if self.ended else 0

    @property
    def due(self) -> int:
        """Pods that are to run now: a Job with more completions than pods at a time makes new ones for a while."""
        size = self.size or 1
        total = self.controller.total if self.controller is not None else None
        return max(0, min(size, (total or size) - self.done))

    @property
    def whole(self) -> bool:
        """Every pod is bound, or through."""
        return len(self.bound) >= self.due

    @property
    def half(self) -> bool:
        """Some are bound and others are not."""
        return bool(self.bound) and not self.whole

    def pods(self) -> list[PodRecord]:
        """Those with GPUs that have not ended."""
        return [*self.bound, *self.waiting, *self.stopping]

    def left_over(self) -> Placement:
        """What of its plan no pod has taken."""
        left = dict(self.plan)
        for pod in (*self.bound, *self.stopping):
            left[pod.node] = left.get(pod.node, 0) - pod.needs.gpus
        return {node: gpus for node, gpus in left.items() if gpus > 0}


def gang_of(
    key: GangKey, pods: Iterable[PodRecord], controller: Controller | None, lost: Callable[[str], bool]
) -> PodGang:
    """The gang of these pods; `lost` says of a node that nobody will see its pods go.

    Pods that were told to go there do not hold up the gang: their controller has made others. They keep their GPUs.
    """
    result = PodGang(key, None, controller=controller)
    for pod in pods:
        if pod.owner is None and pod.needs.gpus:
            result.bare = True
        if result.size is None:
            result.size = pod.size
        if not pod.needs.gpus:
            result.others.append(pod)
        elif pod.ended:
            result.ended.append(pod)
        elif pod.stopping:
            if pod.node and not lost(pod.node):
                result.stopping.append(pod)
        else:
            (result.bound if pod.node else result.waiting).append(pod)
    plans = {pod.stated.get(names.PLACEMENT, "") for pod in (*result.bound, *result.stopping)}
    if len(plans) == 1:
        result.plan = read_placement(plans.pop())
    if result.size is None and controller is not None:
        result.size, result.trouble = controller.size, controller.trouble
        if key.kind in POD_GROUP_APIS and result.size is not None:
            result.size = _with_gpus(result, result.size)
    if result.size is None and key.kind == "pod":
        result.size = 1
    return result


def _with_gpus(gang: PodGang, size: int) -> int:
    """Of so many pods those with GPUs. Once its whole plan is taken none is missing, though others may be."""
    placed = [*gang.bound, *gang.stopping, *(pod for pod in gang.ended if pod.node)]
    if gang.plan and placement_of_pods(placed) == gang.plan:
        return len(placed)
    return max(1, size - len(gang.others))


def read_placement(text: str) -> Placement:
    """n01=8,n02=8; what makes no sense is left out: users can write on their pods too."""
    parts = [part.rpartition("=") for part in text.split(",")]
    result = {node: whole_number(gpus) or 0 for node, _, gpus in parts if node}
    return {node: gpus for node, gpus in result.items() if 0 < gpus <= MOST_GPUS}


def write_placement(placement: Placement) -> str:
    """The same, backwards."""
    return ",".join(f"{node}={gpus}" for node, gpus in placement.items())


def placement_of_pods(pods: Iterable[PodRecord]) -> Placement:
    """The GPUs that bound pods have, by node."""
    result: Placement = {}
    for pod in pods:
        result[pod.node] = result.get(pod.node, 0) + pod.needs.gpus
    return result


def job_of_gang(
    gang: PodGang,
    abandoned: str | None,
    foreign: bool,
    bar: str,
    room: GangRoom = ALL_NODES,
    pod_owner: PodOwner = UNKNOWN,
    sizes: GangSizes = RIGID,
) -> ObservedJob:
    """As the contract has it. `abandoned`: why it is being taken apart; `bar`: why it is left alone."""
    pods = gang.pods() or gang.ended
    first = pods[0]
    stated = first.stated
    options = tuple([(name, stated[names.PREFIX + name]) for name in names.FACTS if names.PREFIX + name in stated])
    facts, stated_fields, wrong = facts_of(options, tuple(dict.fromkeys([pod.needs for pod in pods])))
    problems = list(wrong)
    state, reason, placement = _state(gang, abandoned, foreign)
    if state == base.QUEUED and bar:
        state, reason = base.HELD, bar
    elif state == base.QUEUED and room.blocked:
        state, reason = base.BLOCKED, room.blocked
    if sizes.starts_on and state in (base.QUEUED, base.HELD, base.BLOCKED):
        state, reason, placement = base.STARTING, "", sizes.starts_on
    if sizes.problem:
        problems.append(f"{names.PREFIX}gpus {facts.sizes}: {sizes.problem}")
    gpus = sizes.requested or _gpus(gang, pods, placement if state in (base.RUNNING, base.STARTING) else {})
    controller = gang.controller
    since_s = [controller.created_s] if controller is not None and controller.created_s else []
    values = {
        "gpus": gpus, "gpu_type": "|".join(types_in(first.selector)), "group": _group(pods, facts, gpus),
        "gpus_per_node": max(pod.needs.gpus for pod in pods) if room.apart else 0,
        "name": gang.key.name, "command_line": first.command_line, "user": pod_owner.user or gang.key.namespace,
        "account": gang.key.namespace, "queue": pod_owner.queue, "priority": float(first.priority),
        "limit_s": first.limit_s, "sizes": ",".join(map(str, sizes.sizes)),
    }  # fmt: skip
    spec = JobSpec(**(stated_fields | values))
    return ObservedJob(
        gang.key.job_id, state, spec, min(since_s or [pod.created_s for pod in pods]),
        placement={} if state in base.ENDED else placement,
        managed=not foreign, reason=reason or "; ".join(problems), allowed=room.allowed,
        preemptible=not (gang.bare and state == base.RUNNING), resizable=bool(sizes.sizes),
    )  # fmt: skip


Options = tuple[tuple[str, str], ...]  # annotations by name
Facts = tuple[JobSpec, dict[str, Any], tuple[str, ...]]  # the spec, its fields without defaults, and problems


def facts_of(options: Options, needs: tuple[Needs, ...]) -> Facts:
    """What annotations state and what such pods need, and what is wrong with that."""
    short = sum([len(text) for _, text in options]) <= LONGEST_CACHED
    return _usual_facts(options, needs) if short else _new_facts(options, needs)


def _new_facts(options: Options, needs: tuple[Needs, ...]) -> Facts:
    problems: list[str] = []
    spec = with_needs(read_facts(dict(options), problems), needs)
    values = {each.name: (getattr(spec, each.name), each.default) for each in fields(JobSpec)}
    return spec, {name: value for name, (value, usual) in values.items() if value != usual}, tuple(problems)


_usual_facts = lru_cache(maxsize=1000)(_new_facts)  # most gangs are like others, and each is looked at many times


def _state(gang: PodGang, abandoned: str | None, foreign: bool) -> tuple[str, str, Placement]:
    """State, why, and GPUs."""
    if foreign and (gang.bound or gang.stopping):  # until they are gone, its pods take their GPUs
        return base.RUNNING, "", placement_of_pods([*gang.bound, *gang.stopping])
    if gang.bound:
        if abandoned is not None or (gang.half and not gang.plan and not gang.bare):
            return base.STOPPING, abandoned or "", placement_of_pods([*gang.bound, *gang.stopping])
        if gang.half and gang.bare and not (gang.plan and gang.waiting):
            why = f"{len(gang.bound)} of its {gang.size} pods are bound, and nothing would create the others again"
            return base.RUNNING, why, placement_of_pods([*gang.bound, *gang.stopping])
        state = base.STARTING if any(pod.pinned for pod in gang.bound) else base.RUNNING
        return state, "", gang.plan or placement_of_pods([*gang.bound, *gang.ended])
    if gang.stopping:
        return base.STOPPING, "", placement_of_pods(gang.stopping)
    if gang.controller is not None and gang.controller.over:
        return gang.controller.over, "", {}  # though pods of it may have been evicted in the moment they ended,
    if gang.waiting:  # and others made that nobody needs
        return *_waits(gang), {}
    failed = [pod for pod in gang.ended if pod.phase == "Failed"]
    if failed:
        return base.FAILED, f"pod {failed[0].name} failed", {}
    if gang.size is None or not gang.due:
        return base.FINISHED, "", {}
    return base.HELD, "waits for its other pods", {}


def _waits(gang: PodGang) -> tuple[str, str]:
    if any(pod.stated.get(names.HOLD, "").lower() == "true" for pod in gang.waiting):
        return base.HELD, f"annotation {names.HOLD}"
    if gang.size is None:
        why = gang.trouble or "its number of pods is not stated"
        return base.HELD, f"{why}; label {names.GANG_SIZE} says it"
    if len(gang.waiting) < gang.due:
        return base.HELD, f"{len(gang.waiting)} of its {gang.due} pods are there"
    return base.QUEUED, ""


def _gpus(gang: PodGang, pods: list[PodRecord], placement: Placement) -> int:
    """Of the whole gang, though some of its pods may not be there."""
    if placement:
        return sum(placement.values())
    size = max(1, gang.due if gang.waiting else gang.size or 1)
    if len(gang.waiting) >= size:
        return sum(pod.needs.gpus for pod in gang.waiting[:size])
    return sum(gang.plan.values()) or pods[0].needs.gpus * size


def _group(pods: list[PodRecord], facts: JobSpec, gpus: int) -> int:
    """GPUs that must share a machine: those of a pod, or more if its user says so."""
    most = max(pod.needs.gpus for pod in pods)
    group = max(most, facts.group) if facts.group % most == 0 else most
    return group if gpus % group == 0 else 1
