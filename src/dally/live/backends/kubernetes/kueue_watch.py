"""Queues and quotas as Kueue's own objects state them, watched: a file of queues that follows the cluster."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dally.errors import InputError
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi
from dally.live.backends.kubernetes.mirror import Mirror
from dally.quotas.kueue import MIN_RUNTIME, read_kueue
from dally.whole_file import write_whole

API: Final = "/apis/kueue.x-k8s.io"
FILE: Final = "kueue.json"  # in the daemon's folder
PLURALS: Final = {
    "clusterqueues": "ClusterQueue", "cohorts": "Cohort", "localqueues": "LocalQueue",
    "resourceflavors": "ResourceFlavor",
}  # fmt: skip
START_AGAIN_S: Final = 10.0
ABSENT_IN_OLD: Final = frozenset(("cohorts",))  # Kueue before 0.9 only names them


class KueueKind:
    """The objects of one kind, as far as they state quotas: their status changes all the time and is left out."""

    def __init__(self, kind: str, changed: threading.Event) -> None:
        self.kind = kind
        self.version = 0  # counts changes
        self._changed = changed
        self._objects: dict[tuple[str, str], Entry] = {}

    def put(self, entry: Entry) -> None:
        """An object is new or changed."""
        about = entry["metadata"]
        names = {part: about[part] for part in ("namespace", "name") if part in about}
        if self.kind == "ClusterQueue":  # as Kueue reclaims: at once, if nothing else is stated
            notes = about.get("annotations") or {}
            names["annotations"] = {MIN_RUNTIME: str(notes.get(MIN_RUNTIME, "0s"))}
        stated = {"kind": self.kind, "metadata": names, "spec": entry.get("spec") or {}}
        if self._objects.get(_key(entry)) != stated:
            self._objects = {**self._objects, _key(entry): stated}
            self._note()

    def drop(self, entry: Entry) -> None:
        """An object is gone."""
        self._keep({key: one for key, one in self._objects.items() if key != _key(entry)})

    def only(self, entries: list[Entry]) -> None:
        """There are no others."""
        here = {_key(entry) for entry in entries}
        self._keep({key: one for key, one in self._objects.items() if key in here})

    def _keep(self, objects: dict[tuple[str, str], Entry]) -> None:
        if len(objects) != len(self._objects):
            self._objects = objects
            self._note()

    def _note(self) -> None:
        self.version += 1
        self._changed.set()

    def rows(self) -> list[Entry]:
        """All of them, by namespace and name."""
        objects = self._objects
        return [objects[key] for key in sorted(objects)]


class KueueWatch:
    """Writes the file anew when a quota changes; objects that make no tree leave it as it was, with a problem."""

    def __init__(
        self, api: KubeApi, folder: Path, changed: threading.Event, classes: Callable[[], dict[str, int]] = dict
    ) -> None:
        """`classes`: the cluster's priority classes, by which each queue is divided."""
        self.path = folder / FILE
        self._classes = classes
        self.generation = 0  # counts files
        self._api = api
        self._changed = changed
        self._kinds: list[KueueKind] = []
        self._mirrors: list[Mirror] = []
        self._written: tuple[list[int], dict[str, int]] = [], {}  # versions of each kind, as of the latest look
        self._invalid = ""
        self._local_queues: dict[tuple[str, str], str] | None = None  # as of the file
        self._is_ready = False  # there is a file that can be read
        self._trouble = f"{API}: not listed yet"  # why nothing is watched
        self._start_s = 0.0  # not before then

    def _start(self) -> None:
        """Begin to watch; a BackendError as long as the server does not know Kueue."""
        if self._mirrors or time.monotonic() < self._start_s:
            return
        self._start_s = time.monotonic() + START_AGAIN_S
        try:
            paths = self._paths()
        except BackendError as error:
            self._trouble = str(error)
            raise
        for plural, kind in PLURALS.items():
            if plural in paths:
                self._kinds.append(KueueKind(kind, self._changed))
                self._mirrors.append(Mirror(self._api, paths[plural], self._kinds[-1]))
        for mirror in self._mirrors:
            mirror.start()

    def _paths(self) -> dict[str, str]:
        """Where the objects are: of the versions that the server has, its preferred one first."""
        group = self._api.get(API)
        versions = [str(one["version"]) for one in group.get("versions") or ()]
        preferred = str((group.get("preferredVersion") or {}).get("version", ""))
        result: dict[str, str] = {}
        for version in sorted(versions, key=lambda version: version != preferred):
            for resource in self._api.get(f"{API}/{version}").get("resources") or ():
                if resource.get("name") in PLURALS:
                    result.setdefault(resource["name"], f"{API}/{version}/{resource['name']}")
        missing = PLURALS.keys() - result.keys() - ABSENT_IN_OLD
        if missing:
            raise BackendError(f"{API}: the server has no {', '.join(sorted(missing))}")
        return result

    def renew(self, within_s: float) -> None:
        """Write the file, if what is to be there has changed.

        At first a BackendError if there is none in that time. Later, and where a daemon has left one before, quotas
        stay as they are until the server tells of others.
        """
        try:
            self._start()
            for mirror in self._mirrors:
                if not (self._is_ready or mirror.lists):
                    mirror.wait_ready(within_s)
        except BackendError:
            if not self.path.exists():
                raise
        self._write()
        self._is_ready = self._is_ready or self.path.exists()
        if not self._is_ready:
            raise BackendError(self._invalid or self._trouble)

    def _write(self) -> None:
        if not self._mirrors or not all(mirror.lists for mirror in self._mirrors):
            return
        versions, classes = [kind.version for kind in self._kinds], self._classes()
        if (versions, classes) == self._written:
            return
        self._written = versions, classes
        rows = [row for kind in self._kinds for row in kind.rows()]
        rows += [
            {"kind": "PriorityClass", "metadata": {"name": name}, "value": value} for name, value in classes.items()
        ]
        text = json.dumps({"kind": "ClusterQueueList", "items": rows}, indent=1)
        try:
            read_kueue(Path("Kueue's objects"), text)
        except InputError as error:
            self._invalid = f"{error}; quotas stay as they were"
            return
        self._invalid = ""
        if not self.path.exists() or self.path.read_text(encoding="utf-8") != text:
            write_whole(self.path, text.encode())
            self._local_queues = None
            self.generation += 1

    def queue_of(self, namespace: str, name: str) -> str | None:
        """The ClusterQueue to which a LocalQueue leads; None: the namespace has none of that name."""
        if self._local_queues is None:
            self._local_queues = _local_queues(self.path)
        return self._local_queues.get((namespace, name))

    def problems(self) -> list[str]:
        """Why quotas may be old, a line each."""
        troubles = [mirror.trouble for mirror in self._mirrors if mirror.trouble]
        troubles += [] if self._mirrors else [self._trouble]
        result = [self._invalid] if self._invalid else []
        result += [f"quotas may be old: {line}" for line in troubles]
        return result + [line for mirror in self._mirrors for line in mirror.problems()]

    def stop(self) -> None:
        """With the present streams."""
        for mirror in self._mirrors:
            mirror.stop()


def _local_queues(path: Path) -> dict[tuple[str, str], str]:
    """ClusterQueues by the namespace and name of those that lead to them; one that leads nowhere is none."""
    rows = json.loads(path.read_text(encoding="utf-8"))["items"] if path.exists() else ()
    queues = {str(row["metadata"]["name"]) for row in rows if row.get("kind") == "ClusterQueue"}
    leads_to = {
        _key(row): str((row.get("spec") or {}).get("clusterQueue", ""))
        for row in rows
        if row.get("kind") == "LocalQueue"
    }
    return {key: queue for key, queue in leads_to.items() if queue in queues}


def _key(entry: dict[str, Any]) -> tuple[str, str]:
    about = entry["metadata"]
    return str(about.get("namespace", "")), str(about["name"])
