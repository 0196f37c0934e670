"""Taking a gang's pods away through the eviction API, which gives them their own grace and respects budgets."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.fence import Fence
from dally.live.backends.kubernetes.kube_api import KubeApi, RefusedError
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_record import PodRecord
from dally.live.backends.kubernetes.suspended_jobs import SuspendedJobs

WITHIN_S: Final = 5.0
POLICY_V1: Final = (1, 22)  # from when on evictions are policy/v1
GONE: Final = (404, 409)  # no such pod, or another one of its name
BARE: Final = "it has no controller, so nothing would create it again"
BUDGET: Final = 429  # a disruption budget, or a server that is busy; the message tells


class Evictor:
    """Evicts pods, eight at a time."""

    def __init__(self, api: KubeApi, pool: ThreadPoolExecutor, ledger: PodLedger, force: bool) -> None:
        """`force`: delete what a disruption budget keeps."""
        self._api = api
        self._pool = pool
        self._ledger = ledger
        self._force = force
        self.policy = "policy/v1"
        self.suspended: SuspendedJobs | None = None  # whose gangs go back in another way

    def evict(self, pods: Sequence[PodRecord], fence: Fence, check: bool = True) -> list[str]:
        """Tell these pods to go; those that cannot, a line each. Pods without a controller are never touched.

        With `check` nothing is done unless every pod may go: half a gang is of no use.
        """
        if check and not self._force:
            check_only = partial(self._evict, fence=fence, dry_run=True)
            remaining = [
                line for line in self._pool.map(check_only, (pod for pod in pods if not pod.placeholder)) if line
            ]
            if remaining:
                return remaining
        if self.suspended is not None and pods and self.suspended.has(pods[0]):
            return self.suspended.send_back(pods, fence)
        return [line for line in self._pool.map(partial(self._evict, fence=fence), pods) if line]

    def _evict(self, pod: PodRecord, fence: Fence, dry_run: bool = False) -> str:
        if pod.owner is None:
            return f"pod {pod.name} stays: {BARE}"
        options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": self.policy, "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace}, "deleteOptions": options,
        }  # fmt: skip
        try:
            self._ask(f"{pod.path}/eviction", body, fence)
        except RefusedError as refused:
            if refused.code == BUDGET and self._force:
                return self._delete(pod, fence)
            if refused.code not in GONE:
                return f"pod {pod.name} stays: {refused}"
        except BackendError as error:
            return f"pod {pod.name} stays: {error}"
        if not dry_run:
            self._ledger.expect_end(pod)
        return ""

    def _ask(self, path: str, body: dict[str, Any], fence: Fence) -> None:
        """A budget's no is final for now; a busy server is asked again."""
        left_s = fence.left_s()
        try:
            self._api.call("POST", path, body, timeout_s=left_s)
        except RefusedError as refused:
            if refused.code == BUDGET and "disruption" in str(refused):
                raise
            self._api.insist("POST", path, body, WITHIN_S, left_s=fence.left_s)
        except BackendError:
            self._api.insist("POST", path, body, WITHIN_S, left_s=fence.left_s)

    def _delete(self, pod: PodRecord, fence: Fence) -> str:
        try:
            fence.left_s()
            self._api.delete(pod.path, {"preconditions": {"uid": pod.uid}})
        except BackendError as error:
            return f"pod {pod.name} stays: {error}"
        self._ledger.expect_end(pod)
        return ""

    def remove(self, pod: PodRecord, fence: Fence) -> None:
        """Take away at once a pod that does not end in its time, or whose node does not answer."""
        if pod.owner is None:
            raise BackendError(f"pod {pod.name} stays: {BARE}")
        fence.left_s()
        self._api.delete(pod.path, {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}})
