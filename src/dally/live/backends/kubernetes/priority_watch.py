"""The cluster's PriorityClasses, watched: order and preemption among our jobs as users of Kubernetes expect it."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi
from dally.live.backends.kubernetes.mirror import Mirror
from dally.toml import toml_key
from dally.whole_file import write_whole

PATH: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
FILE: Final = "priorities.toml"  # in the daemon's folder
OF_KUBERNETES: Final = "system-"  # before the names of its own
UNNAMED: Final = "none"  # the class of pods that name none
QUEUE: Final = """[queues.all]
default = true
min_runtime = 0

"""


class PriorityWatch:
    """Keeps the classes that operators made, and a file of one queue that has them. None of them: no file."""

    def __init__(self, api: KubeApi, folder: Path, changed: threading.Event) -> None:
        self.generation = 0  # counts changes
        self._path = folder / FILE
        self._changed = changed
        self._values: dict[str, int] = {}
        self._usual = 0  # of pods that name none
        self._mirror = Mirror(api, PATH, self)
        self._started = False

    def renew(self, within_s: float) -> None:
        """See that they were listed; a server that does not tell of them is no reason to wait any longer."""
        if not self._started:
            self._mirror.start()
            self._started = True
            with suppress(BackendError):
                self._mirror.wait_ready(within_s)

    # What the watch says.

    def put(self, entry: Entry) -> None:
        """A class is new; its value never changes."""
        name, value = str(entry["metadata"]["name"]), int(entry.get("value") or 0)
        if name.startswith(OF_KUBERNETES) or self._values.get(name) == value:
            return
        if entry.get("globalDefault"):
            self._usual = value
        self._note({**self._values, name: value})

    def drop(self, entry: Entry) -> None:
        """A class is gone."""
        self._note({name: value for name, value in self._values.items() if name != entry["metadata"]["name"]})

    def only(self, entries: list[Entry]) -> None:
        """There are no others."""
        here = {entry["metadata"]["name"] for entry in entries}
        self._note({name: value for name, value in self._values.items() if name in here})

    def _note(self, values: dict[str, int]) -> None:
        if values != self._values:
            self._values = values
            self.generation += 1
            self._changed.set()

    # What others ask.

    def classes(self) -> dict[str, int]:
        """Values by name, one of each value, with that of pods that name none; nothing if nobody made a class."""
        values = dict(sorted(self._values.items()))
        if not values:
            return {}
        names = {value: name for name, value in reversed(values.items())}
        names.setdefault(self._usual, UNNAMED)
        return {name: value for value, name in sorted(names.items())}

    def queues(self) -> str:
        """The file; empty: there are no classes."""
        classes = self.classes()
        if not classes:
            return ""
        lines = "".join(f"{toml_key(name)} = {value}\n" for name, value in classes.items())
        text = f"{QUEUE}[priority_classes]\n{lines}"
        if not self._path.exists() or self._path.read_text(encoding="utf-8") != text:
            write_whole(self._path, text.encode())
        return str(self._path)

    def problems(self) -> list[str]:
        """Why priorities may not count, a line each."""
        trouble = self._mirror.trouble if self._started else ""
        return [f"priorities may be old: {trouble}"] if trouble else []

    def stop(self) -> None:
        """With the present stream."""
        self._mirror.stop()
