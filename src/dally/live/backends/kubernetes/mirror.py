"""A copy of one kind of object, kept by a thread: listed once, then watched, resumed where the stream broke."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

from dally.errors import one_line
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.kube_api import LONGEST_COMPLAINT, Entry, KubeApi, RefusedError

WATCH_S: Final = 60  # after which the server ends a watch and it is resumed: a dead connection is noticed
PAGE: Final = 500  # objects of one answer,
LIST_WITHIN_S: Final = 60.0  # which may take so long
PAUSES_S: Final = (0.1, 0.2, 0.4, 0.8, 1.0)  # after failures in a row
TOO_OLD: Final = 410


class ObjectSink(Protocol):
    """Where the objects go; called by the mirror's thread alone."""

    def put(self, entry: Entry) -> None:
        """An object is new or changed."""

    def drop(self, entry: Entry) -> None:
        """An object is gone."""

    def only(self, entries: list[Entry]) -> None:
        """There are no others; each of them is put next."""


class Mirror:
    """The thread; `trouble` says why the copy may be old, and is empty while the watch stands."""

    def __init__(self, api: KubeApi, path: str, sink: ObjectSink, **query: str) -> None:
        self.path = path
        self.trouble = f"{path}: not listed yet"
        self.lists = 0
        self.version = ""
        self._api = api
        self._sink = sink
        self._query = query
        self._listing_s = -float("inf")  # when the list in progress last had an answer
        self._unread: dict[str, str] = {}  # objects that nobody understands, and why
        self._relist = False
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End with the present stream, which closing the API ends at once."""
        self._stop.set()

    def problems(self) -> list[str]:
        """Objects that nobody understands, a line each."""
        return list(self._unread.values())

    def wait_ready(self, within_s: float) -> None:
        """Until the copy is whole and the watch stands; a BackendError if that takes longer.

        A list that the server is about to answer may take its time: of a large cluster it does.
        """
        began_s = time.monotonic()
        while self.trouble:
            self._ready.clear()
            left_s = max(began_s, self._listing_s) + within_s - time.monotonic()
            if left_s <= 0.0:
                raise BackendError(self.trouble)
            if self.trouble:
                self._ready.wait(min(left_s, 0.1))

    def list_anew(self, within_s: float) -> None:
        """Return with a copy that was begun after this call; a BackendError if the server takes longer."""
        before, began_s = self.lists, time.monotonic()
        self._relist = True
        self._api.end_watches(self.path)
        while self.lists == before or self._relist:
            if time.monotonic() > max(began_s, self._listing_s) + within_s:
                raise BackendError(f"{self.path}: not listed again yet")
            time.sleep(0.01)

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                if self._relist:
                    self._relist, self.version = False, ""
                if not self.version:
                    self._list()
                self._watch()
                failures = 0  # the server has ended the stream, as agreed
            except BackendError as error:
                if isinstance(error, RefusedError) and error.code == TOO_OLD:
                    self.version = ""
                # Whatever it is, it is tried again: for a moment after its start a server answers 403 to everybody.
                self.trouble = str(error)
            except Exception as error:  # an answer that nobody has thought of: told, not taken for a whole copy
                self.version = ""
                self.trouble = one_line(f"{self.path}: {type(error).__name__}: {error}", LONGEST_COMPLAINT)
            if self.trouble:
                self._stop.wait(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
                failures += 1

    def _list(self) -> None:
        result: list[Entry] = []
        more = ""
        while True:
            query = {**self._query, **({"continue": more} if more else {})}
            self._listing_s = time.monotonic() + LIST_WITHIN_S
            try:
                page = self._api.get(self.path, timeout_s=LIST_WITHIN_S, limit=PAGE, **query)
            except BackendError:
                self._listing_s = -float("inf")  # a server that refuses at once is not waited for
                raise
            self._listing_s = time.monotonic()
            result += page.get("items") or []
            more = page["metadata"].get("continue") or ""
            if not more:
                break
        self._sink.only(result)
        for entry in result:
            self._put(entry)
        here = {_name(entry) for entry in result}
        self._unread = {which: what for which, what in self._unread.items() if which in here}
        self.lists += 1
        self.version = str(page["metadata"]["resourceVersion"])

    def _watch(self) -> None:
        events = self._api.watch(self.path, self.version, WATCH_S, self._stop, **self._query)
        self._healthy()
        for event in events:
            entry = event["object"]
            if event["type"] == "DELETED":
                self._sink.drop(entry)
                self._unread.pop(_name(entry), None)
            elif event["type"] != "BOOKMARK":
                self._put(entry)
            self.version = entry["metadata"]["resourceVersion"]

    def _put(self, entry: Entry) -> None:
        """One object that cannot be understood is left as it was known: users make objects, and others go on."""
        which = _name(entry)
        try:
            self._sink.put(entry)
        except Exception as error:
            what = f"{self.path}: {which}: {type(error).__name__}: {error}"
            self._unread[which] = one_line(what, LONGEST_COMPLAINT)
        else:
            self._unread.pop(which, None)

    def _healthy(self) -> None:
        self.trouble = ""
        self._ready.set()


def _name(entry: Entry) -> str:
    about = entry["metadata"]
    return "/".join(filter(None, (about.get("namespace"), about.get("name"))))
