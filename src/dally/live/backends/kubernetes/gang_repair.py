"""Gangs that are neither whole nor absent: finished if that can be done at once, taken apart if not.

A daemon may have died in the middle of binding, a user may have deleted a pod, a node may be gone. What is needed
to finish a gang stands on each of its bound pods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from dally.live.backends import base
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.binding import Binder, Seating
from dally.live.backends.kubernetes.evictor import BARE, Evictor
from dally.live.backends.kubernetes.fence import Fence
from dally.live.backends.kubernetes.node_ledger import NodeLedger
from dally.live.backends.kubernetes.node_room import NodeRoom
from dally.live.backends.kubernetes.overbooking import Overbooking
from dally.live.backends.kubernetes.pod_gang import PodGang
from dally.live.backends.kubernetes.pod_record import GangKey, PodRecord
from dally.live.backends.kubernetes.ranks import seats

REPLACEMENT_WAIT_S: Final = 3.0  # for a controller to make the pods that are missing
OVERTIME_S: Final = 30.0  # beyond its grace, before a pod counts as stuck
LONGEST_GRACE_S: Final = 3600.0  # that counts: users may state years
PLACE_WITHIN_S: Final = 60.0  # for Kubernetes' own scheduler to bind pods that were let through their gate
AVOID_S: Final = 300.0  # nodes to which it did not bind them


class GangRepair:
    """Looks at gangs once a cycle."""

    def __init__(
        self,
        binder: Binder,
        evictor: Evictor,
        room: NodeRoom,
        nodes: NodeLedger,
        overbooking: Overbooking,
        abandoned: dict[GangKey, str],
        avoided: dict[GangKey, tuple[frozenset[str], float]],
        force: bool,
        disown: Callable[[PodRecord], None],
    ) -> None:
        """`disown`: have a pod that does not end be nobody's of ours.

        `abandoned`: gangs on their way out and why, which this adds to and takes from.

        `avoided`: nodes that a gang is not to get, and until when, which this adds to.
        """
        self._abandoned = abandoned
        self._avoided = avoided
        self._binder = binder
        self._evictor = evictor
        self._room = room
        self._nodes = nodes
        self._overbooking = overbooking
        self._force = force
        self._disown = disown
        self._fence = Fence()
        self._half_since_s: dict[GangKey, float] = {}
        self._pinned_since_s: dict[GangKey, float] = {}
        self._going_since_s: dict[str, float] = {}

    def repair_gangs(self, gangs: Sequence[PodGang], tier_of: dict[GangKey, str], fence: Fence) -> list[str]:
        """Do what can be done now; what an operator should know, a line each."""
        self._fence = fence
        problems = self._resolve_overbooking(gangs)
        half: set[GangKey] = set()
        going: set[str] = set()
        pinned: set[GangKey] = set()
        for gang in gangs:
            gang.sound = gang.sound or self._is_sound(gang)
            if gang.sound and not (self._abandoned and gang.key in self._abandoned):
                continue
            key = gang.key
            if any(pod.pinned for pod in gang.bound):
                pinned.add(key)
            going |= {pod.uid for pod in gang.stopping}
            problems += self._stuck(gang)
            if not gang.bound:
                self._abandoned.pop(key, None)
            elif key in self._abandoned:
                problems += self._evictor.evict(gang.bound, fence, check=False)
            else:
                if gang.half:
                    half.add(key)
                problems += self._one(gang, tier_of.get(key, ""))
        self._half_since_s = {key: since for key, since in self._half_since_s.items() if key in half}
        self._going_since_s = {uid: since for uid, since in self._going_since_s.items() if uid in going}
        self._pinned_since_s = {key: since for key, since in self._pinned_since_s.items() if key in pinned}
        if self._abandoned:
            for key in self._abandoned.keys() - {gang.key for gang in gangs}:
                del self._abandoned[key]
        return problems

    def _is_sound(self, gang: PodGang) -> bool:
        """Whether nothing is to be done about the gang, as its pods are: it waits, or is whole.

        Gangs that change, and all of them when a node goes, are other objects in the next cycle.
        """
        if gang.stopping or any(not (pod.node or pod.ended or pod.stopping) for pod in gang.others):
            return False
        if not gang.bound:
            return True
        lost = any(pod.pinned or self._nodes.get(pod.node) is None for pod in gang.bound)
        return gang.whole and not gang.waiting and not lost

    def _resolve_overbooking(self, gangs: Sequence[PodGang]) -> list[str]:
        """On a node whose pods have more GPUs than there are, the later gangs go back, whoever bound them."""
        if self._overbooking.is_clean(gangs):
            return []
        gangs = [gang for gang in gangs if gang.key not in self._abandoned]
        later, problems = self._overbooking.later_gangs(gangs)
        for gang, why in later:
            problems += self._give_up(gang, why)
        return problems

    def _one(self, gang: PodGang, tier: str) -> list[str]:
        return self._unplaced(gang) or self._seat_others(gang) + self._whole_or_not(gang, tier)

    def _unplaced(self, gang: PodGang) -> list[str]:
        """A gang that Kubernetes' own scheduler has not bound in its time goes back, and is planned elsewhere."""
        pinned = [pod for pod in gang.bound if pod.pinned and not pod.placeholder]
        if not pinned or gang.bare:
            return []
        now = time.monotonic()
        if now - self._pinned_since_s.setdefault(gang.key, now) < PLACE_WITHIN_S:
            return []
        names = frozenset(pod.node for pod in pinned)
        self._avoided[gang.key] = names, now + AVOID_S
        return self._give_up(gang, f"kube-scheduler has not bound pod {pinned[0].name} to {pinned[0].node}")

    def _whole_or_not(self, gang: PodGang, tier: str) -> list[str]:
        lost = [pod for pod in gang.bound if self._nodes.get(pod.node) is None]
        if lost and not gang.bare:
            return self._give_up(gang, f"its node {lost[0].node} is gone")
        if gang.waiting and gang.plan and self._finish(gang, tier):
            return []
        if not gang.half:
            return []
        if gang.bare:
            return [
                f"job {gang.key.job_id}: {len(gang.bound)} of its {gang.size} pods are bound: left as it is, {BARE}"
            ]
        if not gang.plan:
            return self._give_up(gang, "the planned nodes of its other pods are not known")
        since_s = self._half_since_s.setdefault(gang.key, time.monotonic())
        if time.monotonic() - since_s < REPLACEMENT_WAIT_S:
            return []
        return self._give_up(gang, f"{len(gang.bound)} of its {gang.size} pods are left")

    def _finish(self, gang: PodGang, tier: str) -> bool:
        """Bind the pods that wait where the plan has room for them."""
        taken = {pod.stated.get(names.RANK, "") for pod in gang.bound}
        free = [rank for rank in range(gang.size or 1) if str(rank) not in taken]
        pods = gang.waiting[: len(free)]
        try:
            nodes = seats(pods, _ordered(gang))
            self._room.check(pods, nodes)
            self._binder.bind(Seating(pods, nodes, free[: len(pods)], gang.plan, tier, self._fence))
        except BackendError:
            return False
        return True

    def _seat_others(self, gang: PodGang) -> list[str]:
        """Pods without GPUs go where the first rank is, if there is room."""
        pods = [pod for pod in gang.others if not (pod.node or pod.ended or pod.stopping)]
        if pods and gang.whole:
            node = min(gang.bound, key=lambda pod: pod.rank_key).node
            state = self._nodes.get(node)
            if state is not None and state.state == base.UP and self._room.has(pods, [node] * len(pods)):
                seating = Seating(pods, [node] * len(pods), [-1] * len(pods), gang.plan, "", self._fence)
                result = self._binder.seat(seating)
                return [f"job {gang.key.job_id} runs, but {problem}" for problem in result]
        return []

    def _give_up(self, gang: PodGang, why: str) -> list[str]:
        self._abandoned[gang.key] = why
        stuck = self._evictor.evict(gang.bound, self._fence, check=False)
        return [f"job {gang.key.job_id} is stopped: {why}", *stuck]

    def _stuck(self, gang: PodGang) -> list[str]:
        """Pods that should have ended long ago: told once, and removed if the operator wants that.

        They keep their own GPUs, and no longer hold up their gang, nor the GPUs that it had elsewhere.
        """
        result = []
        for pod in gang.stopping:
            since_s = self._going_since_s.setdefault(pod.uid, time.monotonic())
            if time.monotonic() - since_s > min(pod.grace_s, LONGEST_GRACE_S) + OVERTIME_S:
                self._disown(pod)
                result.append(f"pod {pod.namespace}/{pod.name} does not end on {pod.node}")
                if self._force:
                    result += self._remove(pod)
        return result

    def _remove(self, pod: PodRecord) -> list[str]:
        try:
            self._evictor.remove(pod, self._fence)
        except BackendError as error:
            return [str(error)]
        return []


def _ordered(gang: PodGang) -> dict[str, int]:
    """The free part of its plan, in the plan's order."""
    left = gang.left_over()
    return {node: left[node] for node in gang.plan if node in left}
