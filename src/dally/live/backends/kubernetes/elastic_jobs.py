"""Elastic gangs: a Job whose number of pods may change, told to make as many as it is to run on.

A Job without `completions` may have its parallelism changed at any time, on any server; an Indexed one both numbers
together, from 1.27 on. What it asked for is noted on the Job before the first change. Its controller then makes or
deletes pods, all of which wait; the gang is bound once exactly that many are there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from dally.errors import InputError
from dally.live.backends import base
from dally.live.backends.base import BackendError, ObservedJob, Placement
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.fence import Fence
from dally.live.backends.kubernetes.kube_api import MERGE, Entry, KubeApi
from dally.live.backends.kubernetes.owners import Owners, maker_of, path_of
from dally.live.backends.kubernetes.pod_gang import GangSizes, PodGang
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_record import GangKey
from dally.sizes import read_sizes

BOTH_SINCE: Final = (1, 27)  # servers from which an Indexed Job takes other completions
WITHIN_S: Final = 5.0  # a busy or silent server is asked again for this long
COME_WITHIN_S: Final = 60.0  # the pods of a Job that was told its number; after that it waits as it is


class PendingSize(NamedTuple):
    """Where a gang goes as soon as its Job has made so many pods."""

    placement: Placement
    pods: int
    until_s: float


class ElasticGangs:
    """Says which sizes gangs have, and has their Jobs make other numbers of pods."""

    def __init__(self, api: KubeApi, ledger: PodLedger, owners: Owners) -> None:
        self._api = api
        self._ledger = ledger
        self._owners = owners
        self.is_suspended: Callable[[GangKey], bool] = lambda _: False  # whether a Job waits without pods
        self._resizes: dict[GangKey, PendingSize] = {}
        self.changes_both = False  # whether the server lets an Indexed Job change both numbers

    def sizes_of(self, gang: PodGang, stated: str) -> GangSizes:
        """The sizes of a gang whose pods state some: those, or why they have no effect."""
        controller, pods = gang.controller, gang.pods() or gang.ended
        if controller is None or gang.key.kind != "job" or controller.side_by_side is None:
            return GangSizes(problem="only Jobs of batch/v1 change their number of pods")
        if any(pod.size is not None for pod in pods):
            return GangSizes(problem=f"its pods state their number in {names.GANG_SIZE}")
        if self.is_suspended(gang.key):
            return GangSizes(problem="it waits suspended")
        if controller.total is not None and not (
            controller.indexed and controller.total == controller.side_by_side
        ):
            return GangSizes(problem="its completions are stated: leave them out")
        if controller.total is not None and not self.changes_both:
            return GangSizes(problem="this server does not let an Indexed Job have other completions")
        each = pods[0].needs.gpus
        requested = (controller.requested or controller.side_by_side) * each
        try:
            sizes = read_sizes(stated, requested, each)
        except InputError as error:
            text = str(error).replace("sizes: ", "", 1)
            return GangSizes(problem=text.replace("which hold one replica", "those of one pod"))
        resize = self._resizes.get(gang.key)
        return GangSizes(requested, sizes, "", None if resize is None else resize.placement)

    def begins(self, gang: PodGang, job: ObservedJob, placement: Placement, fence: Fence) -> bool:
        """Whether the Job of a gang has to make another number of pods first, which it is told now."""
        gpus = sum(placement.values())
        if not job.resizable or gpus not in read_sizes(job.spec.sizes, job.spec.gpus):
            return False
        if job.state == base.STARTING and not gang.bound and job.placement == placement:
            return True  # it was told so
        check_startable(job, placement)
        if sum(pod.needs.gpus for pod in gang.waiting[: max(1, gang.due)]) == gpus:
            return False
        self._set_pods(gang, placement, fence)
        return True

    def _set_pods(self, gang: PodGang, placement: Placement, fence: Fence) -> None:
        """Have its Job make as many pods as go there; a BackendError if the server does not take that."""
        controller, owner = gang.controller, maker_of(gang.key, gang.pods())
        assert controller is not None
        if owner is None or controller.side_by_side is None:
            raise BackendError("nothing would make other numbers of its pods")
        pods = sum(placement.values()) // gang.waiting[0].needs.gpus
        requested = controller.requested or controller.side_by_side
        numbers = {"parallelism": pods} | ({} if controller.total is None else {"completions": pods})
        body: Entry = {
            "metadata": {"uid": controller.uid, "annotations": {names.REQUESTED: str(requested)}}, "spec": numbers,
        }  # fmt: skip
        self._api.insist("PATCH", path_of(gang.key.namespace, owner), body, WITHIN_S, MERGE, fence.left_s)
        self._owners.resized(gang.key, pods, requested)
        self._resizes[gang.key] = PendingSize(placement, pods, time.monotonic() + COME_WITHIN_S)
        self._ledger.touch(gang.key)

    def ready(self) -> list[tuple[GangKey, Placement]]:
        """Gangs that have as many pods as they are to run on, and where they go."""
        result = []
        for key, resize in list(self._resizes.items()):
            pods = [pod for pod in self._ledger.gang(key) if pod.needs.gpus and not pod.ended]
            there = [pod for pod in pods if not (pod.node or pod.stopping)]
            if len(there) == len(pods) == resize.pods:
                result.append((key, resize.placement))
            if len(there) == len(pods) == resize.pods or time.monotonic() >= resize.until_s:
                del self._resizes[key]
                self._ledger.touch(key)
        return result

    def called_back(self, key: GangKey) -> None:
        """The gang is not to start there."""
        if self._resizes.pop(key, None) is not None:
            self._ledger.touch(key)


def check_startable(job: ObservedJob, placement: Placement) -> None:
    """A BackendError unless the job waits, and may run on so many GPUs."""
    if job.state != base.QUEUED:
        raise BackendError(f"job {job.job_id} cannot be started: it is {job.state} {job.reason}".rstrip())
    sizes = read_sizes(job.spec.sizes, job.spec.gpus) if job.resizable else (job.spec.gpus,)
    if sum(placement.values()) not in sizes or min(placement.values(), default=0) < 1:
        demand = " or ".join(map(str, sizes))
        raise BackendError(f"job {job.job_id} asks for {demand} GPUs, not {sum(placement.values())}")
