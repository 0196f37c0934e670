"""Jobs that wait suspended, as under Kueue: they have no pods until their whole gang has a place.

Until then, placeholders made from the Job's template count as its pods. To admit a Job is to clear `spec.suspend`;
its pods are bound once all of them are there. A gang that has to go back is suspended again, and so its pods go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from dally.live.backends.base import BackendError, Placement
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.fence import Fence
from dally.live.backends.kubernetes.kube_api import MERGE, Entry, KubeApi, RefusedError
from dally.live.backends.kubernetes.owners import path_of
from dally.live.backends.kubernetes.pod_gang import write_placement
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_record import GangKey, Owner, PodRecord
from dally.live.backends.kubernetes.quantity import whole_number
from dally.live.backends.kubernetes.ranks import seats

PATH: Final = "/apis/batch/v1/jobs"
WITHIN_S: Final = 5.0  # a busy or silent server is asked again for this long
COME_WITHIN_S: Final = 60.0  # pods of an admitted Job; after that it is suspended again,
AVOID_S: Final = 300.0  # and left alone: its controller may not be able to make them
MOST_PODS: Final = 1024  # of one Job that placeholders are made for; a larger one waits for pods that never come
OVER: Final = frozenset(("Complete", "Failed"))


class SuspendedJob(NamedTuple):
    """A Job of ours that is suspended, or that we have admitted."""

    owner: Owner
    suspended: bool
    admitted_s: float  # of the wall clock; 0: it was not
    pods: tuple[PodRecord, ...]  # placeholders for those that it would make


class Admission(NamedTuple):
    """Where the gang of a Job goes as soon as all of its pods are there."""

    placement: Placement
    until_s: float


class SuspendedJobs:
    """Keeps them; the watch's thread writes, the daemon's reads and orders."""

    def __init__(
        self,
        api: KubeApi,
        ledger: PodLedger,
        ours: Callable[[PodRecord], bool],
        priorities: Callable[[], Mapping[str, int]],
    ) -> None:
        """`priorities`: the cluster's classes; the server notes their values on pods alone."""
        self._api = api
        self._ledger = ledger
        self._ours = ours
        self._priorities = priorities
        self._jobs: dict[GangKey, SuspendedJob] = {}
        self._admissions: dict[GangKey, Admission] = {}
        self._avoided_s: dict[GangKey, float] = {}  # Jobs whose pods did not come, until when

    # What the watch says.

    def put(self, entry: Entry) -> None:
        """A Job is new or changed."""
        job = self._read(entry)
        key = _key(entry)
        if job is None:
            self._forget(key)
        elif self._jobs.get(key) != job:
            before, self._jobs[key] = self._jobs.get(key), job
            if before is not None and len(before.pods) != len(job.pods):
                self._admissions.pop(key, None)  # its place is for another number
            self._show(key)

    def drop(self, entry: Entry) -> None:
        """A Job is gone."""
        self._forget(_key(entry))

    def only(self, entries: list[Entry]) -> None:
        """There are no others."""
        for key in self._jobs.keys() - {_key(entry) for entry in entries}:
            self._forget(key)

    def _read(self, entry: Entry) -> SuspendedJob | None:
        """None: it makes its pods by itself, has ended, or is not ours."""
        about, spec, status = entry["metadata"], entry.get("spec") or {}, entry.get("status") or {}
        suspended = spec.get("suspend") is True
        admitted_s = float(whole_number(str((about.get("annotations") or {}).get(names.ADMITTED, ""))) or 0)
        over = any(
            row.get("type") in OVER and row.get("status") == "True" for row in status.get("conditions") or ()
        )
        if not (suspended or admitted_s) or over or "deletionTimestamp" in about:
            return None
        first = self._ledger.record(self._placeholder(entry))
        if first.key != _key(entry) or not self._ours(first):
            return None  # its pods belong to a gang of several Jobs, which their own controller suspends
        count = _pods_of(spec, status)
        pods = [
            replace(
                first, uid=f"{about['uid']}/{number}", name=f"{about['name']}-{number}", placeholder=True,
                rank_key=(number,),
            )
            for number in range(count if count <= MOST_PODS else 1)
        ]  # fmt: skip
        owner = Owner("batch/v1", "Job", about["name"], about["uid"])
        return SuspendedJob(owner, suspended, admitted_s, tuple(pods))

    def _placeholder(self, entry: Entry) -> Entry:
        """A pod as the Job's controller would make it."""
        about, template = entry["metadata"], (entry.get("spec") or {}).get("template") or {}
        spec = template.get("spec") or {}
        made_by = {
            "apiVersion": "batch/v1", "kind": "Job", "name": about["name"], "uid": about["uid"], "controller": True,
        }  # fmt: skip
        made = {
            "name": about["name"], "namespace": about["namespace"], "uid": about["uid"],
            "creationTimestamp": about.get("creationTimestamp"), "ownerReferences": [made_by],
        }  # fmt: skip
        priority = self._priorities().get(str(spec.get("priorityClassName", "")), 0)
        return {
            "metadata": {**(template.get("metadata") or {}), **made},
            "spec": {**spec, "priority": spec.get("priority") or priority, "nodeName": ""},
        }

    def _forget(self, key: GangKey) -> None:
        self._admissions.pop(key, None)
        if self._jobs.pop(key, None) is not None:
            self._ledger.hold_place(key, ())

    def _show(self, key: GangKey) -> None:
        """Have the ledger know the Job's placeholders as things are."""
        job = self._jobs.get(key)
        if job is None:
            return
        admission = self._admissions.get(key)
        if admission is not None:
            self._ledger.hold_place(key, _seated(job.pods, admission.placement))
        elif job.suspended or time.time() - job.admitted_s < COME_WITHIN_S:
            self._ledger.hold_place(key, job.pods)
        else:
            self._ledger.hold_place(key, ())

    # What the daemon orders.

    def admit(self, key: GangKey, placement: Placement, fence: Fence) -> None:
        """Have its controller make the pods, which go there; a BackendError if the server does not take that."""
        job = self._jobs.get(key)
        if job is None:
            raise BackendError(f"job {key.job_id} is no longer suspended")
        now_s = int(time.time())
        about = {"uid": job.owner.uid, "annotations": {names.ADMITTED: str(now_s)}}
        self._patch(key, job, {"metadata": about, "spec": {"suspend": False}}, fence)
        self._admissions[key] = Admission(placement, time.monotonic() + COME_WITHIN_S)
        self._jobs[key] = job._replace(suspended=False, admitted_s=float(now_s))
        self._show(key)

    def ready(self) -> list[tuple[GangKey, Placement]]:
        """Admitted gangs all of whose pods are there now, and where they go."""
        result = []
        for key, admission in list(self._admissions.items()):
            if not any(pod.placeholder for pod in self._ledger.gang(key)):
                del self._admissions[key]
                self._show(key)
                result.append((key, admission.placement))
        for key, job in list(self._jobs.items()):
            if not job.suspended and key not in self._admissions:
                self._show(key)  # for as long as pods may come that another daemon had asked for
        return result

    def send_back_late(self, fence: Fence) -> list[str]:
        """Suspend Jobs again whose pods do not come; what was done, a line each."""
        result = []
        now = time.monotonic()
        for key in [key for key, until_s in self._avoided_s.items() if now >= until_s]:
            del self._avoided_s[key]
            self._ledger.touch(key)
        for key, admission in list(self._admissions.items()):
            if now >= admission.until_s:
                self._avoided_s[key] = now + AVOID_S
                problem = self.send_back(self._jobs[key].pods, fence)
                result += [
                    f"job {key.job_id} is stopped: its pods did not come within {COME_WITHIN_S:g} s",
                    *problem,
                ]
        return result

    def knows(self, key: GangKey) -> bool:
        """Whether it is a Job that was suspended, or is."""
        return key in self._jobs

    def has(self, pod: PodRecord) -> bool:
        """Whether its gang goes back by suspension."""
        job = self._jobs.get(pod.key)
        return job is not None and pod.owner is not None and pod.owner.uid == job.owner.uid

    def send_back(self, pods: Sequence[PodRecord], fence: Fence) -> list[str]:
        """Suspend the Job of these pods: its controller deletes them. A line if that cannot be done now."""
        key = pods[0].key
        job = self._jobs[key]
        try:
            fence.left_s()
            there = self._api.get(path_of(key.namespace, job.owner))["metadata"]
            about = {
                "uid": job.owner.uid, "annotations": {names.ADMITTED: None},
                "resourceVersion": there["resourceVersion"],  # not once another daemon has admitted it again
            }  # fmt: skip
            self._patch(key, job, {"metadata": about, "spec": {"suspend": True}}, fence)
        except BackendError as error:
            return [f"job {key.job_id} stays: {error}"]
        self._admissions.pop(key, None)
        self._jobs[key] = job._replace(suspended=True, admitted_s=0.0)
        for pod in pods:
            if not pod.placeholder:
                self._ledger.expect_end(pod)
        self._show(key)
        return []

    def _patch(self, key: GangKey, job: SuspendedJob, body: Entry, fence: Fence) -> None:
        path = path_of(key.namespace, job.owner)
        try:
            self._api.insist("PATCH", path, body, WITHIN_S, MERGE, fence.left_s)
        except RefusedError as refused:
            if refused.code == 404:
                self._forget(key)
            raise

    def why_not(self, key: GangKey) -> str:
        """Why a Job is not admitted for now; empty: it may be."""
        late = time.monotonic() < self._avoided_s.get(key, 0.0) and key in self._jobs
        return f"its pods did not come within {COME_WITHIN_S:g} s: see its events" if late else ""


def _key(entry: Entry) -> GangKey:
    return GangKey(entry["metadata"]["namespace"], "job", entry["metadata"]["name"])


def _pods_of(spec: Entry, status: Entry) -> int:
    """Pods that its controller would make."""
    side_by_side = int(1 if spec.get("parallelism") is None else spec["parallelism"])
    completions = spec.get("completions")
    left = side_by_side if completions is None else int(completions) - int(status.get("succeeded") or 0)
    return max(0, min(side_by_side, left))


def _seated(pods: Sequence[PodRecord], placement: Placement) -> list[PodRecord]:
    """The same, on their way to these machines."""
    plan = write_placement(placement)
    return [
        replace(pod, node=node, pinned=True, stated={**pod.stated, names.PLACEMENT: plan, names.RANK: str(rank)})
        for rank, (pod, node) in enumerate(zip(pods, seats(pods, placement), strict=True))
    ]
