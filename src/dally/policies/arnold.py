"""Arnold: large models placed so that their groups span as few pods as can be, with a reservation for the head."""

from __future__ import annotations

from typing import Any, Final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.backfill import EasyBackfill
from dally.policies.base import Param, Policy
from dally.policies.declaration import DURATIONS, NamedPolicy
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import best_fit, fill
from dally.policies.placement.groups import fill_groups, usable
from dally.policies.prediction.named import PREDICTOR, make_predictor
from dally.policies.settings import Settings


class PodShares:
    """Pods that a placement takes, GPUs in each, and how far its groups spread."""

    __slots__ = ("cost", "pods", "shares")

    def __init__(self, cost: float) -> None:
        self.cost: float = cost
        self.pods: vec[i64] = vec[i64]()
        self.shares: vec[i64] = vec[i64]()

    def add(self, pod: i64, gpus: i64) -> None:
        """So many GPUs of the job go to that pod."""
        self.pods = append(self.pods, pod)
        self.shares = append(self.shares, gpus)


@mypyc_attr(allow_interpreted_subclasses=True)
class ArnoldPlacement(Placement):
    """Minimises data_weight × the most pods of a data group + (1 − data_weight) × the most of a pipeline group.

    He et al., Efficient Pre-Training of LLMs via Topology-Aware Communication Alignment (arXiv 2509.15940). Either
    whole replicas lie in one pod, so that only data groups spread, or whole stages do, so that only pipelines do.
    The cheaper of both is taken. That is the optimum of the paper's mixed-integer program for pods of equal
    machines: its objective depends on how many pods each kind of group spans, and a kind that is kept whole spans
    one. What fits into a pod takes the pod that it fits best. Jobs behind the head may start if they end before the
    time for which the head's GPUs are reserved, by predicted durations, as the paper reserves for the next run.
    """

    def __init__(self, tier: i64, data_weight: float) -> None:
        self._tier: i64 = tier
        self._data_weight: float = data_weight

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        cluster.focus(job)
        tier = min(self._tier, cluster.root)
        if cluster.free_gpus < job.gpus:
            return None
        for closest in range(tier + 1):
            allocation = best_fit(cluster, closest, job.gpus, job.group)
            if allocation is not None:
                return allocation
        spread = self._best(job, cluster, tier)
        if spread is None:
            return None
        allocation = Allocation(0)
        for place in range(len(spread.pods)):
            if job.group > 1:
                fill_groups(cluster, tier, spread.pods[place], spread.shares[place], job.group, allocation)
            else:
                fill(cluster, tier, spread.pods[place], spread.shares[place], allocation)
        allocation.tier = cluster.topology.tier_of(allocation)
        return allocation

    def _best(self, job: Job, cluster: Cluster, tier: i64) -> PodShares | None:
        """The cheapest of keeping replicas whole, stages whole, or neither; None: GPUs do not suffice."""
        replica, stage, stages = self._blocks(job)
        best: PodShares | None = None
        for block in (replica, stage, int(job.group)):
            spread = _filled(cluster, tier, job, block)
            if spread is None:
                continue
            count = float(len(spread.pods))
            data = 1.0 if block == stage and stages > 1 else count
            pipeline = 1.0 if block == replica else min(count, float(stages))
            spread.cost = self._data_weight * data + (1.0 - self._data_weight) * pipeline
            if best is None or spread.cost < best.cost:
                best = spread
        return best

    def _blocks(self, job: Job) -> tuple[int, int, int]:
        """GPUs of a replica and of a stage, and how many stages; without groups each GPU is a replica."""
        profile = self.view.profile(job)
        groups: Any = None if profile is None else profile.groups
        if groups is None:
            return 1, int(job.gpus), 1
        layout = groups.layout
        return int(layout.tp * layout.cp * layout.pp), int(job.gpus // layout.pp), int(layout.pp)


def _filled(cluster: Cluster, tier: i64, job: Job, block: int) -> PodShares | None:
    """As few pods as hold the gang in whole blocks, the emptiest first, the last one best fit, or None."""
    rooms: list[tuple[int, int]] = []
    for pod in range(len(cluster.free[tier])):
        room = cluster.free[tier][pod] if job.group == 1 else usable(cluster, tier, pod, job.group)
        room -= room % block
        if room > 0:
            rooms.append((-int(room), pod))
    rooms.sort()
    spread = PodShares(0.0)
    left = int(job.gpus)
    place = 0
    while left > 0:
        if place == len(rooms):
            return None
        share, pod = -rooms[place][0], rooms[place][1]
        if share >= left:
            for other in range(place, len(rooms)):  # the fullest of those that hold the rest
                if -rooms[other][0] >= left:
                    pod = rooms[other][1]
            share = left
        spread.add(pod, share)
        left -= share
        place += 1
    return spread


def _arnold(settings: Settings) -> Policy:
    placement = ArnoldPlacement(settings["pod_tier"], settings["data_weight"])
    return EasyBackfill(placement, make_predictor(settings["predictor"]))


PAPER: Final = (
    "He et al., Efficient Pre-Training of LLMs via Topology-Aware Communication Alignment, arXiv 2509.15940"
)
ARNOLD: Final = NamedPolicy(
    "arnold", _arnold, "submit time, head reserved", "groups over fewest pods", "never", DURATIONS, PAPER,
    (
        PREDICTOR,
        Param("pod_tier", 1, "the tier whose domains groups should not leave: 1 is the rack"),
        Param("data_weight", 0.5, "what a pod more of data groups weighs; pipelines weigh the rest"),
    ),
    in_all=False,
)  # fmt: skip
