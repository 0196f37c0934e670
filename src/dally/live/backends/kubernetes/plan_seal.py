"""Tells what we wrote on pods from what their users wrote: both may write annotations."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Final

import structlog

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.kube_api import KubeApi, RefusedError

WRITTEN: Final = (names.RANK, names.PLACEMENT, names.TIER, names.NODE, names.SCHEDULER)
FIELD: Final = "key"
LOAD_WITHIN_S: Final = 3.0  # a busy or silent server is asked again for this long
log = structlog.get_logger("dally")


class PlanSeal:
    """Signs what is written on a pod, for this pod on this node. The key is in a Secret beside the lease."""

    def __init__(self, api: KubeApi, namespace: str, name: str) -> None:
        self._api = api
        self._folder = f"/api/v1/namespaces/{namespace}/secrets"
        self._name = name
        self._key = os.urandom(32)
        self._is_shared = False  # whether the key is the Secret's

    def load(self) -> None:
        """Read the key, if there is one: without a Secret no pod was ever signed."""
        try:
            secret = self._api.insist("GET", f"{self._folder}/{self._name}", None, LOAD_WITHIN_S)
            self._key = base64.b64decode(secret["data"][FIELD])
        except RefusedError as refused:
            if refused.code != 404:
                log.warning("problem", what=f"{refused}; half-bound gangs are not completed after a restart")
                self._is_shared = refused.code == 403
            return
        except (KeyError, TypeError, ValueError):
            raise BackendError(f"{self._folder}/{self._name}: has no {FIELD}; delete it") from None
        self._is_shared = True

    def keep(self) -> None:
        """Have others know the key before anything is signed with it."""
        if self._is_shared:
            return
        body = {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": self._name}, "type": "Opaque",
            "data": {FIELD: base64.b64encode(self._key).decode()},
        }  # fmt: skip
        try:
            self._api.post(self._folder, body)
        except RefusedError as refused:
            if refused.code == 409:
                self.load()
                return
            log.warning("problem", what=f"{refused}; half-bound gangs are not completed after a restart")
        self._is_shared = True

    def sign(self, uid: str, node: str, notes: Mapping[str, str]) -> str:
        """The signature of what is written on a pod that goes to that node."""
        parts = [uid, node, *(f"{name}={notes.get(name, '')}" for name in WRITTEN)]
        return hmac.new(self._key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()

    def holds(self, uid: str, node: str, notes: Mapping[str, str]) -> bool:
        """Whether we wrote this on that pod, for that node."""
        return hmac.compare_digest(self.sign(uid, node, notes), str(notes.get(names.SIGNATURE, "")))
