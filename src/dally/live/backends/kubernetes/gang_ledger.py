"""The gangs of the cluster as jobs of the contract; only those that changed are looked at anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from dally.live.backends import base
from dally.live.backends.base import BackendError, ObservedJob
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.gang_index import GangIndex, OrderedJobs
from dally.live.backends.kubernetes.neighbours import Neighbours
from dally.live.backends.kubernetes.node_ledger import NodeLedger
from dally.live.backends.kubernetes.owners import Owners
from dally.live.backends.kubernetes.pod_gang import RIGID, GangSizes, PodGang, gang_of, job_of_gang
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_record import GangKey, PodRecord
from dally.live.backends.kubernetes.tenancy import Tenancy
from dally.live.backends.kubernetes.volume_claims import VolumeClaims

KEEP_ENDED_S: Final = 60.0
READ_EVERY_S: Final = 2.0
INCOMPLETE_AGAIN_S: Final = 10.0  # gangs some of whose pods are not there: their controllers may be through,
MOST_INCOMPLETE: Final = 2  # and so many of them are read each time


class GangLedger:
    """Gangs and their jobs, as of the latest `renew`; `abandoned` are those on their way out."""

    def __init__(
        self,
        pods: PodLedger,
        nodes: NodeLedger,
        neighbours: Neighbours,
        claims: VolumeClaims,
        owners: Owners,
        tenancy: Tenancy,
        ours: Callable[[PodRecord], bool],
        refused: dict[GangKey, tuple[str, float]],
        why_not: Callable[[GangKey], str] = lambda _: "",
        sizes_of: Callable[[PodGang, str], GangSizes] = lambda gang, stated: RIGID,
    ) -> None:
        """`refused`: gangs that the server would not bind, why, and until when they are blocked by that.

        `why_not`: why a gang is left alone for now, whatever its pods say; empty: it is not.
        `sizes_of`: the sizes of a gang whose pods state some.
        """
        self.abandoned: dict[GangKey, str] = {}  # and why
        self.avoided: dict[
            GangKey, tuple[frozenset[str], float]
        ] = {}  # nodes that a gang is not to get, until when
        self._pods = pods
        self._nodes = nodes
        self._neighbours = neighbours
        self._claims = claims
        self._moves = 0  # of pods, up to which gangs with rules were looked at
        self._owners = owners
        self._tenancy = tenancy
        self._ours = ours
        self._refused = refused
        self._why_not = why_not
        self._sizes_of = sizes_of
        self._gangs: dict[GangKey, PodGang] = {}
        self._jobs: dict[GangKey, ObservedJob] = {}
        self._keys: dict[str, GangKey] = {}  # by job id
        self._index = GangIndex(ours)
        self._ordered = OrderedJobs()
        self._requested_s = 0.0
        self._incomplete_s: dict[GangKey, float] = {}  # since when gangs wait for pods, or that was last read
        self._ended_s: dict[GangKey, float] = {}  # since when they are told as ended

    def renew(self) -> None:
        """Look at what changed since the last time."""
        with self._pods.lock:
            dirty, self._pods.dirty = self._pods.dirty, set()
            if self._nodes.take_changes():
                dirty |= self._gangs.keys()
            dirty |= self._crowded()
        dirty |= self._unclear() | self._unbound() | self._avoided_for_long() | self._refused_for_long()
        result = {key: self._pods.gang(key) for key in dirty}
        try:
            named = ((key, pods) for key, pods in result.items() if pods and self._ours(pods[0]))
            self._owners.read([*named, *self._vanished(result)])
        except BackendError:
            with self._pods.lock:
                self._pods.dirty |= dirty
            raise
        self._claims.read(pod for pods in result.values() for pod in pods if not pod.node and self._ours(pod))
        for key, pods in result.items():
            job = self._renewed(key, pods)
            if job is None and (pods or not self._is_over(key)):
                self._forget(key)
                self._owners.forget(key)
            elif job is not None:
                self._jobs[key] = self._ordered.put(job)
                self._keys[key.job_id] = key
        self._forget_ended()

    def _vanished(self, pods_of: dict[GangKey, list[PodRecord]]) -> Iterator[tuple[GangKey, list[PodRecord]]]:
        """Gangs of which no pod is left, and those that they had: their controllers say whether they ended."""
        for key in [key for key, pods in pods_of.items() if not pods and key in self._gangs]:
            gang, job = self._gangs[key], self._jobs[key]
            if job.managed and gang.controller is not None and job.state not in base.ENDED:
                self._owners.read_again(key)
                yield key, [*gang.pods(), *gang.ended]

    def _is_over(self, key: GangKey) -> bool:
        """Whether a gang without pods is told as ended: if it was, or if its controller says so."""
        job, controller = self._jobs.get(key), self._owners.get(key)
        was_here = self._gangs.pop(key, None) is not None
        self._index.drop(key)
        if was_here and job is not None and controller is not None and controller.over:
            job = self._jobs[key] = self._ordered.put(replace(job, state=controller.over, placement={}, reason=""))
        return job is not None and job.managed and job.state in base.ENDED

    def _crowded(self) -> set[GangKey]:
        """Gangs that wait and that rules, theirs or others', may leave other nodes now that pods have moved."""
        moves, self._moves = self._moves, self._pods.moves
        if moves == self._moves:
            return set()
        moved, self._pods.apart_moved = self._pods.apart_moved, []
        terms = {term for pod in moved for term in pod.rules.apart}
        result = set(self._index.with_rules)
        for key, gang in self._gangs.items() if terms else ():
            if any(term.matches(pod.namespace, pod.labels) for term in terms for pod in gang.waiting):
                result.add(key)
        return result

    def _avoided_for_long(self) -> set[GangKey]:
        """Gangs that may get any node again."""
        now = time.monotonic()
        result = {key for key, (_, until_s) in self.avoided.items() if now >= until_s}
        for key in result:
            del self.avoided[key]
        return result

    def _refused_for_long(self) -> set[GangKey]:
        """Gangs that may be tried again."""
        now = time.monotonic()
        result = {key for key, (_, until_s) in list(self._refused.items()) if now >= until_s}
        for key in result:
            del self._refused[key]
        return result

    def _unbound(self) -> set[GangKey]:
        """Gangs that wait and whose claims may be bound by now."""
        return {key for key, gang in self._index.with_claims.items() if self._claims.is_due(gang.waiting)}

    def _unclear(self) -> set[GangKey]:
        """Gangs without a pod that lives, of which too few have come to a good end: their controllers know more.

        And those that wait for pods, as a Job that is complete may leave some behind, and those whose controllers
        could not be read.
        """
        if time.monotonic() - self._requested_s < READ_EVERY_S:
            return set()
        self._requested_s = time.monotonic()
        result = {key for key in self._index.without_pods if self._jobs[key].state == base.HELD}
        result |= self._incomplete()
        for key in result:
            self._owners.read_again(key)
        return result | (self._owners.due() & self._gangs.keys())

    def _incomplete(self) -> set[GangKey]:
        """Some of the gangs that wait for pods, those first that were not read for longest."""
        now = time.monotonic()
        keys = list(self._index.incomplete)
        self._incomplete_s = {key: self._incomplete_s.get(key, now) for key in keys}
        due = [key for key in keys if now - self._incomplete_s[key] > INCOMPLETE_AGAIN_S]
        result = set(sorted(due, key=self._incomplete_s.__getitem__)[:MOST_INCOMPLETE])
        self._incomplete_s.update(dict.fromkeys(result, now))
        return result

    def _forget(self, key: GangKey) -> None:
        if key in self._gangs:
            self._claims.forget(self._gangs[key].waiting)
        for shelf in (self._gangs, self._jobs, self._ended_s):
            shelf.pop(key, None)
        self._index.drop(key)
        self._ordered.drop(key.job_id)
        self._keys.pop(key.job_id, None)
        self._neighbours.forget(key)

    def _forget_ended(self) -> None:
        """Pods of gangs that ended may lie there for days: they are told of for a minute."""
        now = time.monotonic()
        ended = [self._keys[job_id] for job_id in self._ordered.ended]
        self._ended_s = {key: self._ended_s.get(key, now) for key in ended}
        for key in ended:
            if now - self._ended_s[key] > KEEP_ENDED_S:
                self._forget(key)

    def _renewed(self, key: GangKey, pods: list[PodRecord]) -> ObservedJob | None:
        """The gang's job as it is now; None: there is nothing to tell."""
        if not any(pod.needs.gpus for pod in pods):
            return None
        if not self._ours(pods[0]) and not any(self._nodes.knows(pod.node) and not pod.ended for pod in pods):
            return None
        controller = self._owners.get(key)
        before = self._gangs.get(key)
        if before is not None and before.controller and controller and before.controller.uid != controller.uid:
            self._pods.touch(key)  # another one of its name: the old one is told as gone first
            return None
        gang = self._gang_of(key, pods)
        if not (gang.pods() or gang.ended):
            return None
        there = len(gang.waiting) + len(gang.bound)
        more = there > (gang.size or 0) and (before is None or there != len(before.waiting) + len(before.bound))
        through = bool(gang.waiting) and before is not None and len(gang.ended) > len(before.ended)
        if more or through:
            self._owners.read_again(key)  # it may have been told to make more, or be complete
            self._pods.touch(key)
        self._gangs[key] = gang
        self._index.put(gang)
        return self.job(gang)

    def _gang_of(self, key: GangKey, pods: list[PodRecord]) -> PodGang:
        return gang_of(key, pods, self._owners.get(key), self._nodes.is_lost)

    # What others ask.

    def jobs(self) -> tuple[ObservedJob, ...]:
        """In the order they came; the same tuple, and the same jobs in it, as far as nothing has changed."""
        return self._ordered.all()

    def ours(self) -> tuple[PodGang, ...]:
        """Those that we look after; the same tuple until a gang changes."""
        return self._index.ours()

    def find(self, job_id: str) -> PodGang:
        """A gang of ours as its pods are this very moment."""
        if job_id not in self._keys:
            self.renew()
        pods = self.pods(job_id)
        if not pods or not self._ours(pods[0]):
            raise BackendError(f"there is no job {job_id} of ours")
        gang = self._gang_of(self._keys[job_id], pods)
        if not (gang.pods() or gang.ended):
            raise BackendError(f"job {job_id} has no pods any more")
        return gang

    def pattern(self, key: GangKey) -> str:
        """How the log of a gang's job says how far it is, as of the latest `renew`."""
        job = self._jobs.get(key)
        return "" if job is None else job.spec.pattern

    def pods(self, job_id: str) -> list[PodRecord]:
        """The pods of a job, in order of rank."""
        key = self._keys.get(job_id)
        return [] if key is None else self._pods.gang(key)

    def job(self, gang: PodGang) -> ObservedJob:
        """A gang as the contract has it."""
        first = (gang.pods() or gang.ended)[0]
        foreign, pod_owner = not self._ours(first), self._tenancy.of(gang.key.namespace, first.stated)
        abandoned, bar = self.abandoned.get(gang.key), self._bar(gang) or pod_owner.problem
        stated = "" if foreign else first.stated.get(f"{names.PREFIX}gpus", "")
        sizes = self._sizes_of(gang, stated) if stated else RIGID
        if foreign or not gang.waiting:
            return job_of_gang(gang, abandoned, foreign, bar, pod_owner=pod_owner, sizes=sizes)
        allowed = self._permitted(gang.waiting)
        avoided, _ = self.avoided.get(gang.key, (frozenset(), 0.0))
        if avoided:
            allowed = (frozenset(self._nodes.gpus()) if allowed is None else allowed) - avoided or allowed
        total = self._nodes.gpus()
        gpus = total if allowed is None else {name: total[name] for name in allowed}
        room = self._neighbours.room_of(gang.waiting, gpus)
        if room.allowed is None:
            room = room._replace(allowed=allowed)
        if gang.key in self._refused:
            room = room._replace(blocked=self._refused[gang.key][0])
        return job_of_gang(gang, abandoned, foreign, bar or unmodelled(room.problem), room, pod_owner, sizes)

    def _permitted(self, pods: list[PodRecord]) -> frozenset[str] | None:
        """The machines that the rules of these pods and their volumes permit, other pods aside; None: all."""
        names = self._nodes.allowed(pods)
        with_claims = [pod for pod in pods if pod.rules.claims]
        if not with_claims:
            return names
        nodes = self._nodes.by_name()
        return frozenset(
            name
            for name in (self._nodes.gpus() if names is None else names)
            if name in nodes and not any(self._claims.why_not(pod, nodes[name]) for pod in with_claims)
        )

    def _bar(self, gang: PodGang) -> str:
        """Why a gang that waits is left alone."""
        later = self._why_not(gang.key)
        if later:
            return later
        rule = next((pod.unmodelled for pod in gang.waiting if pod.unmodelled), "")
        return unmodelled(rule or self._claims.unmodelled(gang.waiting)) or self._claims.waits(gang.waiting)


def unmodelled(rule: str) -> str:
    """Why a gang with that rule is left alone; empty if there is none."""
    return f"it has {rule}, which Dally does not model; see docs/kubernetes.md" if rule else ""
