"""The ConfigMap `dally-hosts-NAME` of a gang that mounts it: a line per rank, in the order of the fabric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi, RefusedError
from dally.live.backends.kubernetes.pod_gang import PodGang
from dally.live.backends.kubernetes.pod_record import PodRecord
from dally.live.backends.kubernetes.ranks import hostfile

FILE: Final = "hostfile"
MADE_BY: Final = {"app.kubernetes.io/managed-by": "dally"}


class Hostfiles:
    """Written before the pods are bound: they cannot start without it."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    def write(self, gang: PodGang, pods: Sequence[PodRecord], nodes: Sequence[str]) -> None:
        """If any pod of the gang mounts it."""
        name = f"{names.HOSTFILE}{gang.key.name}"
        if not any(name in pod.maps for pod in (*pods, *gang.others)):
            return
        folder = f"/api/v1/namespaces/{gang.key.namespace}/configmaps"
        about: Entry = {"name": name, "labels": {**MADE_BY}}
        owner = pods[0].owner
        if owner is not None:
            about["ownerReferences"] = [
                {"apiVersion": owner.api, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
            ]
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {FILE: hostfile(pods, nodes)}}
        try:
            self._api.post(folder, body)
        except RefusedError as refused:
            if refused.code != 409:
                raise
            self._replace(f"{folder}/{name}", body)

    def _replace(self, path: str, body: Entry) -> None:
        """Only one of our own: a user could name any other."""
        there = self._api.get(path)
        if (there["metadata"].get("labels") or {}).get("app.kubernetes.io/managed-by") != "dally":
            raise BackendError(f"{path}: is not managed by Dally")
        body["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
        self._api.put(path, body)
